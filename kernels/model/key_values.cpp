#include "kernels/model/key_values.hpp"

#include <algorithm>

namespace slimpack::kernels {

template <class Real>
KeyValueStore<Real>::KeyValueStore(const StagePart& part, std::size_t page_tokens, BufferPool<Real>& memory)
    : layers_(part.layer_count()), heads_(part.heads()), page_tokens_(page_tokens), memory_(memory) {
  require(page_tokens > 0, "page_tokens is ", page_tokens, "; expected a positive number");
}

template <class Real>
void KeyValueStore<Real>::begin_step(const StageProgram& program, bool by_heads) {
  clear();
  plan_ = &program.plan();
  block_ = program.block();
  samples_.clear();
  samples_.resize(plan_->tokens.size());
  for (const StageTask& task : program.tasks()) {
    for (const Slice& slice : task.slices) {
      Sample& sample = samples_[slice.sample];
      if (!sample.pages.empty()) continue;
      const std::size_t members = task.members.size();
      require(!by_heads || heads_.kv_heads % members == 0, to_string(task), " is merged of ", members,
              " members that share heads; expected a divisor of the ", heads_.kv_heads, " key/value heads");
      if (!by_heads) {
        sample.members = members;
        sample.member = task.member;
      }
      sample.width = heads_.kv_width() / (by_heads ? members : 1);
      const std::size_t tokens = local(slice.sample, plan_->tokens[slice.sample]);
      sample.pages.resize((tokens + page_tokens_ - 1) / page_tokens_);
      for (std::size_t i = 0; i < sample.pages.size(); ++i) {
        sample.pages[i].width = sample.width;
        sample.pages[i].rows = std::min(page_tokens_, tokens - i * page_tokens_);
      }
    }
  }
}

/// Takes the page whose first row is the member's token number `first` of the sample.
template <class Real>
void KeyValueStore<Real>::open(Page& page, SampleId sample, std::size_t first) {
  page.numbers = memory_.take(numbers(page), " with keys and values of sample ", sample);
  page.left = page.rows;
  page.positions.clear();
  const Sample& of = samples_[sample];
  std::size_t at = 0;
  for_each_owned_range(
      {sample, 0, plan_->tokens[sample]}, of.members, of.member, block_, [&](const Slice& range) {
        const auto size = static_cast<std::size_t>(range.size());
        const std::size_t from = std::max(at, first), to = std::min(at + size, first + page.rows);
        if (from < to) {
          page.positions.push_back(
              {range.begin + static_cast<Tokens>(from - at), range.begin + static_cast<Tokens>(to - at)});
        }
        at += size;
      });
}

template <class Real>
void KeyValueStore<Real>::allocate(const Slice& range) {
  const std::size_t first = local(range.sample, range.begin), end = local(range.sample, range.end);
  auto& pages = samples_[range.sample].pages;
  for (std::size_t i = first / page_tokens_; i * page_tokens_ < end; ++i) {
    if (!pages[i].numbers) open(pages[i], range.sample, i * page_tokens_);
  }
}

template <class Real>
void KeyValueStore<Real>::allocate_gradients(SampleId sample, Tokens end) {
  const std::size_t tokens = local(sample, end);
  for (std::size_t i = 0; i * page_tokens_ < tokens; ++i) {
    Page& page = samples_[sample].pages[i];
    if (page.gradients) continue;
    page.gradients = memory_.take(numbers(page), " with gradients of keys and values of sample ", sample);
    std::fill_n(page.gradients.data.get(), page.gradients.size, Real{0});
  }
}

template <class Real>
template <class F>
void KeyValueStore<Real>::for_each_page(const Slice& owned, F&& f) const {
  const std::size_t first = local(owned.sample, owned.begin), end = local(owned.sample, owned.end);
  for (std::size_t at = first; at < end;) {
    const std::size_t i = at / page_tokens_, stop = std::min(end, (i + 1) * page_tokens_);
    f(samples_[owned.sample].pages[i], at - i * page_tokens_, at - first, stop - at);
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
  for (std::size_t i = 0; i * page_tokens_ < tokens; ++i) {
    const Page& page = samples_[sample].pages[i];
    require(static_cast<bool>(page.numbers), "keys of sample ", sample, " below token ", end,
            " are not there; expected its slices in token order");
    out.push_back({rows(page.numbers, page, layer, 0), rows(page.numbers, page, layer, 1), page.positions});
  }
}

template <class Real>
void KeyValueStore<Real>::gradients(std::size_t layer, SampleId sample, Tokens end,
                                    std::vector<typename Attention<Real>::PieceGradients>& out) {
  const std::size_t tokens = local(sample, end);
  for (std::size_t i = 0; i * page_tokens_ < tokens; ++i) {
    const Page& page = samples_[sample].pages[i];
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
  auto& pages = samples_[range.sample].pages;
  for (std::size_t at = first; at < end;) {
    const std::size_t i = at / page_tokens_, stop = std::min(end, (i + 1) * page_tokens_);
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
