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
    if (fragment.memory) return;
    const auto tokens = static_cast<std::size_t>(fragment.tokens.size());
    fragment.memory = memory_.take(layout_.size(fragment.recompute_layers) * tokens, " at ", to_string(task));
  });
}

template <class Real>
void ActivationStore<Real>::save(const StageTask& task, Kept field, std::size_t layer,
                                 const MatrixView<const Real>& rows) {
  const bool always = field == Kept::input || field == Kept::output;
  fragments_.for_each(task, [&](Fragment& fragment, std::size_t row) {
    if (!always && layer < fragment.recompute_layers) return;
    const auto tokens = static_cast<std::size_t>(fragment.tokens.size());
    Real* to = fragment.memory.data.get() + layout_.offset(field, layer, fragment.recompute_layers) * tokens;
    for (std::size_t t = 0; t < tokens; ++t) to = std::copy_n(rows.row(row + t), rows.cols, to);
  });
}

template <class Real>
void ActivationStore<Real>::load(const StageTask& task, Kept field, std::size_t layer,
                                 const MatrixView<Real>& rows) const {
  fragments_.for_each(task, [&](const Fragment& fragment, std::size_t row) {
    require(static_cast<bool>(fragment.memory), "activations of sample ", fragment.tokens.sample,
            " from token ", fragment.tokens.begin, " are not there at ", to_string(task),
            "; expected the forward task first, and the release after it");
    const auto tokens = static_cast<std::size_t>(fragment.tokens.size());
    const Real* from =
        fragment.memory.data.get() + layout_.offset(field, layer, fragment.recompute_layers) * tokens;
    for (std::size_t t = 0; t < tokens; ++t) std::copy_n(from + t * rows.cols, rows.cols, rows.row(row + t));
  });
}

template <class Real>
void ActivationStore<Real>::free(const StageTask& task) {
  fragments_.for_each(task, [&](Fragment& fragment, std::size_t) { memory_.give_back(fragment.memory); });
}

template <class Real>
void ActivationStore<Real>::clear() {
  for (Fragment& fragment : fragments_.fragments()) memory_.give_back(fragment.memory);
}

template class ActivationStore<float>;
template class ActivationStore<double>;

}  // namespace slimpack::kernels
