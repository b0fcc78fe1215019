#include "kernels/model/activations.hpp"

#include <algorithm>

namespace slimpack::kernels {

template <class Real>
void ActivationStore<Real>::begin_step(const StageProgram& program) {
  clear();
  fragments_.begin_step(program);
}

template <class Real>
void ActivationStore<Real>::allocate(const StageTask& task) {
  fragments_.for_each(task, [&](Fragment& fragment, std::size_t) {
    if (fragment.memory.device) return;
    const ActivationLayout layout = layout_of(fragment);
    const std::size_t recomputed = fragment.recompute_layers, all = layout.size(recomputed);
    const std::size_t host = layout.size(layout.offloaded(recomputed, fragment.offload_layers), recomputed);
    fragment.memory.device = memory_.take(all - host, " at ", to_string(task));
    if (host > 0) fragment.memory.host = host_.take(host, " at ", to_string(task));
  });
}

/// Where the rows of a field begin that a fragment has. The device has what stands before and after the offloaded layers.
template <class Real>
Real* ActivationStore<Real>::rows_of(const Fragment& fragment, Kept field, std::size_t layer) const {
  const std::size_t recomputed = fragment.recompute_layers;
  const ActivationLayout layout = layout_of(fragment);
  const LayerRange offloaded = layout.offloaded(recomputed, fragment.offload_layers);
  const auto first = static_cast<std::size_t>(offloaded.first);
  const bool of_stage = field == Kept::output;
  std::size_t at = layout.offset(field, layer, recomputed);
  const Buffer<Real>* buffer = &fragment.memory.device;
  if (!of_stage && offloaded.contains(static_cast<std::int32_t>(layer))) {
    buffer = &fragment.memory.host;
    at -= layout.before(first, recomputed);
  } else if (of_stage || layer >= first) {
    at -= layout.size(offloaded, recomputed);
  }
  return buffer->data.get() + at;
}

template <class Real>
void ActivationStore<Real>::save(const StageTask& task, Kept field, std::size_t layer,
                                 const MatrixView<const Real>& rows) {
  const bool always = field == Kept::input || field == Kept::output;
  for_each_rows(fragments_, task, field, [&](Fragment& fragment, std::size_t row, std::size_t count) {
    if (!always && layer < fragment.recompute_layers) return;
    Real* to = rows_of(fragment, field, layer);
    for (std::size_t t = 0; t < count; ++t) to = std::copy_n(rows.row(row + t), rows.cols, to);
  });
}

template <class Real>
void ActivationStore<Real>::load(const StageTask& task, Kept field, std::size_t layer,
                                 const MatrixView<Real>& rows) const {
  for_each_rows(fragments_, task, field, [&](const Fragment& fragment, std::size_t row, std::size_t count) {
    require(static_cast<bool>(fragment.memory.device), "activations of sample ", fragment.tokens.sample,
            " from token ", fragment.tokens.begin, " are not there at ", to_string(task),
            "; expected the forward task first, and the release after it");
    const Real* from = rows_of(fragment, field, layer);
    for (std::size_t t = 0; t < count; ++t) std::copy_n(from + t * rows.cols, rows.cols, rows.row(row + t));
  });
}

template <class Real>
void ActivationStore<Real>::give_back(Fragment& fragment) {
  memory_.give_back(fragment.memory.device);
  host_.give_back(fragment.memory.host);
}

template <class Real>
void ActivationStore<Real>::free(const StageTask& task) {
  fragments_.for_each(task, [&](Fragment& fragment, std::size_t) { give_back(fragment); });
}

template <class Real>
void ActivationStore<Real>::clear() {
  for (Fragment& fragment : fragments_.fragments()) give_back(fragment);
}

template class ActivationStore<float>;
template class ActivationStore<double>;

}  // namespace slimpack::kernels
