#include "kernels/model/key_values.hpp"

#include <algorithm>

namespace slimpack::kernels {

template <class Real>
KeyValueStore<Real>::KeyValueStore(const StagePart& part, std::size_t page_tokens, BufferPool<Real>& memory)
    : layers_(part.layer_count()), heads_(part.heads()), page_tokens_(page_tokens), memory_(memory) {
  require(page_tokens > 0, "page_tokens is ", page_tokens, "; expected a positive number");
}

template <class Real>
void KeyValueStore<Real>::begin_step(const StageProgram& program, MergedAttention merged) {
  clear();
  plan_ = &program.plan();
  owners_ = &program.owners();
  samples_.clear();
  samples_.resize(plan_->tokens.size());
  std::vector<std::vector<std::size_t>> cuts(samples_.size());
  for (const StageTask& task : program.tasks()) {
    if (task.pass == Pass::weight) continue;
    const bool by_heads = task.merged() && merged_attention(task, merged) == MergedAttention::heads;
    for (const Slice& slice : task.slices) {
      if (cuts[slice.sample].empty()) describe(task, slice, by_heads);
      cuts[slice.sample].push_back(local(slice.sample, slice.begin));
      cuts[slice.sample].push_back(local(slice.sample, slice.end));
    }
  }
  for (SampleId sample = 0; sample < cuts.size(); ++sample) {
    if (!cuts[sample].empty()) cut(sample, cuts[sample]);
  }
}

/// What the tasks of a slice's sample have in common.
template <class Real>
void KeyValueStore<Real>::describe(const StageTask& task, const Slice& slice, bool by_heads) {
  Sample& sample = samples_[slice.sample];
  sample.whole = by_heads || !task.merged();
  sample.member = task.member;
  sample.width = heads_.kv_width() / (by_heads ? task.members.size() : 1);
}

/// Makes a sample's pages. @param at where it is cut, first and last row included.
template <class Real>
void KeyValueStore<Real>::cut(SampleId id, std::vector<std::size_t>& at) {
  Sample& sample = samples_[id];
  std::sort(at.begin(), at.end());
  const std::size_t least = page_tokens_ / 8;
  std::size_t first = 0;
  for (const std::size_t end : at) {
    if (end == first || (end != at.back() && end < first + least)) continue;
    for (; first < end; first += sample.pages.back().rows) {
      Page& page = sample.pages.emplace_back();
      page.width = sample.width;
      page.first = first;
      page.rows = std::min(page_tokens_, end - first);
    }
  }
}

template <class Real>
std::size_t KeyValueStore<Real>::page_of(const std::vector<Page>& pages, std::size_t row) {
  const auto next = std::upper_bound(pages.begin(), pages.end(), row,
                                     [](std::size_t at, const Page& page) { return at < page.first; });
  return static_cast<std::size_t>(next - pages.begin()) - 1;
}

/// Takes a page's memory.
template <class Real>
void KeyValueStore<Real>::open(Page& page, SampleId sample) {
  page.numbers = memory_.take(numbers(page), " with keys and values of sample ", sample);
  page.left = page.rows;
  page.positions.clear();
  std::size_t at = 0;
  const auto add = [&](const Slice& range) {
    const auto size = static_cast<std::size_t>(range.size());
    const std::size_t from = std::max(at, page.first), to = std::min(at + size, page.first + page.rows);
    if (from < to) {
      page.positions.push_back(
          {range.begin + static_cast<Tokens>(from - at), range.begin + static_cast<Tokens>(to - at)});
    }
    at += size;
  };
  const Slice all{sample, 0, plan_->tokens[sample]};
  if (samples_[sample].whole) return add(all);
  owners_->for_each_owned_range(all, samples_[sample].member, add);
}

template <class Real>
void KeyValueStore<Real>::allocate(const Slice& range) {
  const std::size_t first = local(range.sample, range.begin), end = local(range.sample, range.end);
  if (first == end) return;
  auto& pages = samples_[range.sample].pages;
  for (std::size_t i = page_of(pages, first); i < pages.size() && pages[i].first < end; ++i) {
    if (!pages[i].numbers) open(pages[i], range.sample);
  }
}

template <class Real>
void KeyValueStore<Real>::allocate_gradients(SampleId sample, Tokens end) {
  const std::size_t tokens = local(sample, end);
  for (Page& page : samples_[sample].pages) {
    if (page.first >= tokens) break;
    if (page.gradients) continue;
    page.gradients = memory_.take(numbers(page), " with gradients of keys and values of sample ", sample);
    std::fill_n(page.gradients.data.get(), page.gradients.size, Real{0});
  }
}

template <class Real>
template <class F>
void KeyValueStore<Real>::for_each_page(const Slice& owned, F&& f) const {
  const std::size_t first = local(owned.sample, owned.begin), end = local(owned.sample, owned.end);
  if (first == end) return;
  const auto& pages = samples_[owned.sample].pages;
  std::size_t at = first;
  for (std::size_t i = page_of(pages, first); at < end; ++i) {
    const std::size_t stop = std::min(end, pages[i].first + pages[i].rows);
    f(pages[i], at - pages[i].first, at - first, stop - at);
    at = stop;
  }
}

template <class Real>
void KeyValueStore<Real>::write(std::size_t layer, const Slice& owned, const MatrixView<const Real>& k,
                                const MatrixView<const Real>& v) {
  for_each_page(owned, [&](const Page& page, std::size_t to, std::size_t from, std::size_t size) {
    const auto keys = rows(page.numbers, page, layer, 0), values = rows(page.numbers, page, layer, 1);
    for (std::size_t t = 0; t < size; ++t) {
      std::copy_n(k.row(from + t), page.width, keys.row(to + t));
      std::copy_n(v.row(from + t), page.width, values.row(to + t));
    }
  });
}

template <class Real>
void KeyValueStore<Real>::pieces(std::size_t layer, SampleId sample, Tokens end,
                                 std::vector<KeyValuePiece<Real>>& out) const {
  const std::size_t tokens = local(sample, end);
  for (const Page& page : samples_[sample].pages) {
    if (page.first >= tokens) break;
    require(static_cast<bool>(page.numbers), "keys of sample ", sample, " below token ", end,
            " are not there; expected its slices in token order");
    out.push_back({rows(page.numbers, page, layer, 0), rows(page.numbers, page, layer, 1), page.positions});
  }
}

template <class Real>
void KeyValueStore<Real>::gradients(std::size_t layer, SampleId sample, Tokens end,
                                    std::vector<typename Attention<Real>::PieceGradients>& out) {
  const std::size_t tokens = local(sample, end);
  for (const Page& page : samples_[sample].pages) {
    if (page.first >= tokens) break;
    out.push_back({rows(page.gradients, page, layer, 0), rows(page.gradients, page, layer, 1)});
  }
}

template <class Real>
void KeyValueStore<Real>::read_gradients(std::size_t layer, const Slice& owned, const MatrixView<Real>& dk,
                                         const MatrixView<Real>& dv) const {
  for_each_page(owned, [&](const Page& page, std::size_t from, std::size_t to, std::size_t size) {
    const auto keys = rows(page.gradients, page, layer, 0), values = rows(page.gradients, page, layer, 1);
    for (std::size_t t = 0; t < size; ++t) {
      std::copy_n(keys.row(from + t), page.width, dk.row(to + t));
      std::copy_n(values.row(from + t), page.width, dv.row(to + t));
    }
  });
}

template <class Real>
void KeyValueStore<Real>::release(const Slice& range) {
  const std::size_t first = local(range.sample, range.begin), end = local(range.sample, range.end);
  if (first == end) return;
  auto& pages = samples_[range.sample].pages;
  std::size_t at = first;
  for (std::size_t i = page_of(pages, first); at < end; ++i) {
    const std::size_t stop = std::min(end, pages[i].first + pages[i].rows);
    pages[i].left -= stop - at;
    if (pages[i].left == 0) free(pages[i]);
    at = stop;
  }
}

template <class Real>
void KeyValueStore<Real>::free(Page& page) {
  memory_.give_back(page.gradients);
  memory_.give_back(page.numbers);
  page.positions = {};
}

template <class Real>
void KeyValueStore<Real>::clear() {
  for (Sample& sample : samples_) {
    for (Page& page : sample.pages) free(page);
  }
}

template class KeyValueStore<float>;
template class KeyValueStore<double>;

}  // namespace slimpack::kernels
