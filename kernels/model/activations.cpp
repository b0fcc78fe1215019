#include "kernels/model/activations.hpp"

#include <algorithm>
#include <tuple>

namespace slimpack::kernels {

namespace {

struct Range {
  Slice tokens;
  std::size_t recompute_layers = 0;
};

bool before(const Slice& a, const Slice& b) {
  return std::tuple(a.sample, a.begin) < std::tuple(b.sample, b.begin);
}

/// Owned ranges of a pass, by sample and token.
std::vector<Range> ranges_of(const StageProgram& program, Pass pass) {
  std::vector<Range> out;
  for (const StageTask& task : program.tasks()) {
    if (task.pass != pass) continue;
    for (const Slice& slice : task.owned) {
      if (slice.size() > 0) out.push_back({slice, static_cast<std::size_t>(task.recompute_layers)});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Range& a, const Range& b) { return before(a.tokens, b.tokens); });
  return out;
}

}  // namespace

template <class Real>
void ActivationStore<Real>::begin_step(const StageProgram& program) {
  clear();
  fragments_.clear();
  const auto forward = ranges_of(program, Pass::forward), backward = ranges_of(program, Pass::backward);
  auto b = backward.begin();
  for (const Range& f : forward) {
    while (b != backward.end() &&
           std::tuple(b->tokens.sample, b->tokens.end) <= std::tuple(f.tokens.sample, f.tokens.begin)) {
      ++b;
    }
    // The last backward range may reach into the next forward range.
    for (auto piece = b; piece != backward.end() && piece->tokens.sample == f.tokens.sample &&
                         piece->tokens.begin < f.tokens.end;
         ++piece) {
      const Slice common{f.tokens.sample, std::max(f.tokens.begin, piece->tokens.begin),
                         std::min(f.tokens.end, piece->tokens.end)};
      fragments_.push_back({common, piece->recompute_layers, {}});
    }
  }
}

template <class Real>
template <class Self, class F>
void ActivationStore<Real>::for_each_fragment(Self& self, const StageTask& task, F&& f) {
  std::size_t row = 0;
  for (const Slice& slice : task.owned) {
    auto fragment = std::lower_bound(self.fragments_.begin(), self.fragments_.end(), slice,
                                     [](const Fragment& a, const Slice& s) { return before(a.tokens, s); });
    for (Tokens at = slice.begin; at < slice.end; ++fragment) {
      require(fragment != self.fragments_.end() && fragment->tokens.sample == slice.sample &&
                  fragment->tokens.begin == at,
              "token ", at, " of sample ", slice.sample, " is in no pack of this step's other pass at ",
              to_string(task), "; expected a task of the step that was begun");
      f(*fragment, row);
      row += static_cast<std::size_t>(fragment->tokens.size());
      at = fragment->tokens.end;
    }
  }
}

template <class Real>
void ActivationStore<Real>::allocate(const StageTask& task) {
  for_each_fragment(*this, task, [&](Fragment& fragment, std::size_t) {
    if (fragment.numbers) return;
    const auto tokens = static_cast<std::size_t>(fragment.tokens.size());
    fragment.numbers =
        memory_.take(layout_.size(fragment.recompute_layers) * tokens, " at ", to_string(task));
  });
}

template <class Real>
void ActivationStore<Real>::save(const StageTask& task, Kept field, std::size_t layer,
                                 const MatrixView<const Real>& rows) {
  const bool always = field == Kept::input || field == Kept::output;
  for_each_fragment(*this, task, [&](Fragment& fragment, std::size_t row) {
    if (!always && layer < fragment.recompute_layers) return;
    const auto tokens = static_cast<std::size_t>(fragment.tokens.size());
    Real* to = fragment.numbers.data.get() + layout_.offset(field, layer, fragment.recompute_layers) * tokens;
    for (std::size_t t = 0; t < tokens; ++t) to = std::copy_n(rows.row(row + t), rows.cols, to);
  });
}

template <class Real>
void ActivationStore<Real>::load(const StageTask& task, Kept field, std::size_t layer,
                                 const MatrixView<Real>& rows) const {
  for_each_fragment(*this, task, [&](const Fragment& fragment, std::size_t row) {
    require(static_cast<bool>(fragment.numbers), "activations of sample ", fragment.tokens.sample,
            " from token ", fragment.tokens.begin, " are not there at ", to_string(task),
            "; expected the forward task first, and the release behind");
    const auto tokens = static_cast<std::size_t>(fragment.tokens.size());
    const Real* from =
        fragment.numbers.data.get() + layout_.offset(field, layer, fragment.recompute_layers) * tokens;
    for (std::size_t t = 0; t < tokens; ++t) std::copy_n(from + t * rows.cols, rows.cols, rows.row(row + t));
  });
}

template <class Real>
void ActivationStore<Real>::free(const StageTask& task) {
  for_each_fragment(*this, task,
                    [&](Fragment& fragment, std::size_t) { memory_.give_back(fragment.numbers); });
}

template <class Real>
void ActivationStore<Real>::clear() {
  for (Fragment& fragment : fragments_) memory_.give_back(fragment.numbers);
}

template class ActivationStore<float>;
template class ActivationStore<double>;

}  // namespace slimpack::kernels
