#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/flops.hpp"
#include "slimpack/sharding/attention_model.hpp"
#include "slimpack/sharding/context.hpp"
#include "slimpack/sharding/kind.hpp"

namespace slimpack {

struct ShardingOptions {
  bool mixed = true;  ///< whether some documents may be sharded by themselves, the others as a sequence
  double forward_weight = 1.0;   ///< of the slowest rank's forward seconds in what is minimised
  double backward_weight = 1.0;  ///< of the slowest rank's backward seconds
  int thresholds = 48;           ///< how many numbers of longest documents are tried by themselves, at most
  int changes = 64;              ///< how many changes of single documents are tried after that, at most
  double close_enough = 0.002;   ///< share above perfectly divided documents at which changes end
};

/// How to shard a sequence, and how long its attention is predicted to take.
struct ShardingChoice {
  Sharding kind = Sharding::per_sequence;
  std::vector<std::uint8_t> per_document;  ///< marks as `ContextSharder::shard` takes them
  AttentionSeconds seconds;                ///< of the slowest rank in each pass, one layer
  AttentionSeconds per_sequence_seconds;   ///< the same for per-sequence sharding
  AttentionSeconds per_document_seconds;   ///< the same for per-document sharding
};

/// Chooses between per-sequence and per-document sharding by predicted latency, for each micro-batch
/// (WLB-LLM, section 5.3), and, beyond the paper, mixtures of both in one sequence: chunks of short documents
/// waste tiles of the kernel, while long documents unbalance a sequence. The k longest documents are tried by
/// themselves, for many k; then single documents are moved from one kind to the other as long as that helps.
/// Keeps its memory between calls.
template <AttentionModel M>
class ShardingChooser {
 public:
  /// @throws InvalidInput if a weight is negative or not a number, or both are zero.
  explicit ShardingChooser(M model, ShardingOptions options = {})
      : model_(std::move(model)), options_(options) {
    for (const double weight : {options.forward_weight, options.backward_weight}) {
      require(weight >= 0.0 && std::isfinite(weight), "a weight of a pass is ", weight,
              "; expected zero or a positive number");
    }
    require(options.forward_weight + options.backward_weight > 0.0,
            "the weights of both passes are zero; expected a positive one");
  }

  [[nodiscard]] const M& model() const { return model_; }

  /// @param documents as `ContextSharder::shard` takes them.
  /// @param out is overwritten; its memory is reused. The weighted seconds are never above those of the
  /// better one of per-sequence and per-document sharding. Of equal choices, per-sequence wins, then
  /// per-document.
  /// @throws InvalidInput as `validate_sequence` does.
  /// Complexity: O(d log d + d cp) prices of chunks, and O(d cp log cp) for each change that is tried, for d
  /// documents.
  void choose(std::span<const Slice> documents, std::int32_t cp, ShardingChoice& out) {
    validate_sequence(documents, cp);
    documents_ = documents;
    cp_ = cp;
    prepare();
    sweep(out);
    if (options_.mixed && documents.size() > 1) improve(out);
    name(out);
  }

  /// Predicted seconds of the slowest rank in each pass, for any marks. @throws InvalidInput as
  /// `ContextSharder::shard` does. O(documents log documents + documents cp log cp).
  [[nodiscard]] AttentionSeconds predict(std::span<const Slice> documents, std::int32_t cp,
                                         std::span<const std::uint8_t> per_document) {
    validate_sequence(documents, cp);
    require(per_document.size() == documents.size(), "there are marks for ", per_document.size(), " of ",
            documents.size(), " documents; expected one each");
    documents_ = documents;
    cp_ = cp;
    prepare();
    marks_.assign(per_document.begin(), per_document.end());
    return evaluate();
  }

 private:
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(cp_); }

  [[nodiscard]] double weighted(const AttentionSeconds& s) const {
    return options_.forward_weight * s.forward + options_.backward_weight * s.backward;
  }

  /// Prices every slot of every document, the longest document first.
  void prepare() {
    order_.clear();
    for (std::size_t d = 0; d < documents_.size(); ++d) {
      order_.emplace_back(-documents_[d].size(), static_cast<std::uint32_t>(d));
    }
    std::sort(order_.begin(), order_.end());
    cuts_.clear();
    slot_seconds_.clear();
    ideal_ = {};
    whole_seconds_.resize(documents_.size());
    for (const auto& [length, d] : order_) {
      const Slice& document = documents_[d];
      const DocumentCut& cut = cuts_.emplace_back(document, cp_);
      for (Tokens slot = 0; slot < cp_; ++slot) {
        AttentionSeconds sum;
        cut.for_each_chunk(slot, [&](Tokens b, Tokens e) { sum += model_.chunk_seconds(b, e); });
        slot_seconds_.push_back(sum);
      }
      whole_seconds_[d] = model_.chunk_seconds(document.begin, document.end);
      ideal_ += whole_seconds_[d];
    }
  }

  /// Starts again with nothing dealt.
  void restart() {
    dealer_.reset(cp_);
    seconds_.assign(ranks(), {});
  }

  /// Deals the i-th longest document by itself.
  void deal_alone(std::size_t i) {
    const AttentionSeconds* const slots = slot_seconds_.data() + i * ranks();
    dealer_.deal(cuts_[i], [&](std::uint32_t rank, std::uint32_t slot) { seconds_[rank] += slots[slot]; });
  }

  /// Seconds of the slowest rank in each pass after the unmarked documents are dealt as a sequence. What was
  /// dealt before is not changed.
  [[nodiscard]] AttentionSeconds with_sequence() {
    together_.clear();
    Tokens tokens = 0;
    for (std::size_t d = 0; d < documents_.size(); ++d) {
      if (marks_[d] != 0) continue;
      together_.push_back(static_cast<std::uint32_t>(d));
      tokens += documents_[d].size();
    }
    const SequenceCut cut(tokens, cp_);
    pairs_.assign(ranks(), 0.0);
    sequence_seconds_.assign(ranks(), {});
    for_each_sequence_chunk(documents_, together_, cut, [&](Tokens range, const Slice& chunk) {
      const auto slot = static_cast<std::size_t>(cut.slot_of(range));
      pairs_[slot] += twice_causal_pairs(chunk.begin, chunk.end);
      const bool whole = chunk.size() == documents_[chunk.sample].size();
      sequence_seconds_[slot] +=
          whole ? whole_seconds_[chunk.sample] : model_.chunk_seconds(chunk.begin, chunk.end);
    });
    AttentionSeconds slowest;
    sequence_dealer_ = dealer_;
    sequence_dealer_.deal(cut, pairs_, [&](std::uint32_t rank, std::uint32_t slot) {
      AttentionSeconds sum = seconds_[rank];
      sum += sequence_seconds_[slot];
      slowest.forward = std::max(slowest.forward, sum.forward);
      slowest.backward = std::max(slowest.backward, sum.backward);
    });
    slowest += model_.launch_seconds();
    return slowest;
  }

  /// The same for the current marks, starting with nothing dealt.
  [[nodiscard]] AttentionSeconds evaluate() {
    restart();
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (marks_[order_[i].second] != 0) deal_alone(i);
    }
    return with_sequence();
  }

  /// Per-sequence, then more and more of the longest documents by themselves, up to all of them.
  void sweep(ShardingChoice& out) {
    const std::size_t count = order_.size();
    marks_.assign(count, 0);
    restart();
    out.per_sequence_seconds = out.seconds = with_sequence();
    std::size_t best = 0;
    // All numbers if there are few; otherwise the small ones, and larger ones in equal ratios.
    const auto tries = static_cast<double>(std::max(1, options_.thresholds));
    const auto all_numbers = static_cast<double>(count);
    const double ratio = all_numbers <= tries ? 1.0 : std::pow(all_numbers, 1.0 / tries);
    double next = 1.0;
    for (std::size_t k = 1; k <= count; ++k) {
      deal_alone(k - 1);
      marks_[order_[k - 1].second] = 1;
      const bool all = k == count;
      if (!all && (!options_.mixed || static_cast<double>(k) < next)) continue;
      next = std::max(static_cast<double>(k + 1), next * ratio);
      const AttentionSeconds seconds = with_sequence();
      if (all) out.per_document_seconds = seconds;
      const bool better = weighted(seconds) < weighted(out.seconds);
      // A mixture has to beat both of the others.
      if (better || (all && best != 0 && weighted(seconds) == weighted(out.seconds))) {
        out.seconds = seconds;
        best = k;
      }
    }
    out.per_document.assign(count, 0);
    for (std::size_t i = 0; i < best; ++i) out.per_document[order_[i].second] = 1;
  }

  /// Tries changes of the best marks until none helps, the result is close enough, or the limit is reached:
  /// all marks if the limit allows that; otherwise one document of the other kind, the longest first; then
  /// two.
  void improve(ShardingChoice& out) {
    AttentionSeconds divided = model_.launch_seconds();
    divided += {ideal_.forward / cp_, ideal_.backward / cp_};
    const double enough = (1.0 + options_.close_enough) * weighted(divided);
    const std::size_t count = order_.size();
    const auto limit = static_cast<std::size_t>(std::max(0, options_.changes));
    marks_ = out.per_document;
    if (count < 32 && std::size_t{1} << count <= limit) {
      for (std::size_t code = 1; code >> count == 0 && weighted(out.seconds) > enough; ++code) {
        flip(static_cast<std::size_t>(std::countr_zero(code)));  // a Gray code goes through all marks
        keep_if_better(out);
      }
      return;
    }
    Neighbours moves{count};
    for (std::size_t i = 0; i < limit && !moves.done() && weighted(out.seconds) > enough; ++i) {
      const auto [first, second] = moves.next();
      flip(first);
      if (second != first) flip(second);
      if (keep_if_better(out)) {
        moves.restart();
      } else {
        flip(first);
        if (second != first) flip(second);
      }
    }
  }

  /// Changes of marks: each single document, cyclically from where the last one helped, then each pair.
  struct Neighbours {
    std::size_t count = 0;
    std::size_t at = 0, tried = 0;      // single documents
    std::size_t first = 0, second = 1;  // pairs

    [[nodiscard]] bool done() const { return tried == count && first + 1 >= count; }
    [[nodiscard]] std::pair<std::size_t, std::size_t> next() {
      if (tried < count) {
        const std::size_t i = at;
        at = (at + 1) % count;
        ++tried;
        return {i, i};
      }
      const std::pair result(first, second);
      if (++second == count) second = ++first + 1;
      return result;
    }
    void restart() { tried = 0, first = 0, second = 1; }
  };

  /// Changes the mark of the i-th longest document.
  void flip(std::size_t i) { marks_[order_[i].second] ^= 1; }

  bool keep_if_better(ShardingChoice& out) {
    const AttentionSeconds seconds = evaluate();
    if (weighted(seconds) >= weighted(out.seconds)) return false;
    out.seconds = seconds;
    out.per_document = marks_;
    return true;
  }

  static void name(ShardingChoice& out) {
    const auto marked = std::count(out.per_document.begin(), out.per_document.end(), std::uint8_t{1});
    out.kind = marked == 0                                                      ? Sharding::per_sequence
               : marked == static_cast<std::ptrdiff_t>(out.per_document.size()) ? Sharding::per_document
                                                                                : Sharding::mixed;
  }

  M model_;
  ShardingOptions options_;
  std::span<const Slice> documents_;
  std::int32_t cp_ = 1;
  std::vector<std::pair<Tokens, std::uint32_t>> order_;  // by decreasing length
  std::vector<DocumentCut> cuts_;                        // in that order
  std::vector<AttentionSeconds> slot_seconds_;           // [document in that order][slot]
  std::vector<AttentionSeconds> whole_seconds_;          // of each document, uncut
  AttentionSeconds ideal_;                               // their sum
  std::vector<std::uint8_t> marks_;
  detail::SlotDealer dealer_, sequence_dealer_;
  std::vector<AttentionSeconds> seconds_, sequence_seconds_;  // of each rank; of each slot of the sequence
  std::vector<std::uint32_t> together_;
  std::vector<double> pairs_;
};

/// How to shard a sequence of whole documents with these lengths, in their order. @throws InvalidInput as
/// `ShardingChooser` does. A planner that calls this often should keep a `ShardingChooser`.
template <AttentionModel M>
[[nodiscard]] ShardingChoice choose_sharding(std::span<const Tokens> lengths, std::int32_t cp, const M& model,
                                             const ShardingOptions& options = {}) {
  ShardingChoice out;
  ShardingChooser<M>(model, options).choose(whole_documents(lengths), cp, out);
  return out;
}

}  // namespace slimpack
