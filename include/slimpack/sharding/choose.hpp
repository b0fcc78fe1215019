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
#include "slimpack/sharding/attention_model.hpp"
#include "slimpack/sharding/context_shards.hpp"
#include "slimpack/sharding/kind.hpp"
#include "slimpack/sharding/predict.hpp"

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
      : predictor_(std::move(model)), options_(options) {
    for (const double weight : {options.forward_weight, options.backward_weight}) {
      require(weight >= 0.0 && std::isfinite(weight), "a weight of a pass is ", weight,
              "; expected zero or a positive number");
    }
    require(options.forward_weight + options.backward_weight > 0.0,
            "the weights of both passes are zero; expected a positive one");
  }

  [[nodiscard]] const M& model() const { return predictor_.model(); }

  /// @param documents as `ContextSharder::shard` takes them.
  /// @param out is overwritten; its memory is reused. The weighted seconds are never above those of the
  /// better one of per-sequence and per-document sharding. Of equal choices, per-sequence wins, then
  /// per-document.
  /// @throws InvalidInput as `validate_sequence` does.
  /// Complexity: O(d log d + d cp) prices of chunks, and O(d cp log cp) for each change that is tried, for d
  /// documents.
  void choose(std::span<const Slice> documents, std::int32_t cp, ShardingChoice& out) {
    predictor_.begin(documents, cp);
    sweep(out);
    if (options_.mixed && documents.size() > 1) improve(out);
    name(out);
  }

  /// Predicted seconds of the slowest rank in each pass, for any marks. @throws InvalidInput as
  /// `ContextSharder::shard` does. O(documents log documents + documents cp log cp).
  [[nodiscard]] AttentionSeconds predict(std::span<const Slice> documents, std::int32_t cp,
                                         std::span<const std::uint8_t> per_document) {
    predictor_.begin(documents, cp);
    return predictor_.seconds(per_document);
  }

 private:
  [[nodiscard]] double weighted(const AttentionSeconds& s) const {
    return options_.forward_weight * s.forward + options_.backward_weight * s.backward;
  }

  /// Per-sequence, then more and more of the longest documents by themselves, up to all of them.
  void sweep(ShardingChoice& out) {
    const std::size_t count = predictor_.documents();
    marks_.assign(count, 0);
    predictor_.restart();
    out.per_sequence_seconds = out.seconds = predictor_.with_sequence(marks_);
    std::size_t best = 0;
    // All numbers if there are few; otherwise the small ones, and larger ones in equal ratios.
    const auto tries = static_cast<double>(std::max(1, options_.thresholds));
    const auto all_numbers = static_cast<double>(count);
    const double ratio = all_numbers <= tries ? 1.0 : std::pow(all_numbers, 1.0 / tries);
    double next = 1.0;
    for (std::size_t k = 1; k <= count; ++k) {
      predictor_.deal_alone(k - 1);
      marks_[predictor_.place(k - 1)] = 1;
      const bool all = k == count;
      if (!all && (!options_.mixed || static_cast<double>(k) < next)) continue;
      next = std::max(static_cast<double>(k + 1), next * ratio);
      const AttentionSeconds seconds = predictor_.with_sequence(marks_);
      if (all) out.per_document_seconds = seconds;
      const bool better = weighted(seconds) < weighted(out.seconds);
      // A mixture has to beat both of the others.
      if (better || (all && best != 0 && weighted(seconds) == weighted(out.seconds))) {
        out.seconds = seconds;
        best = k;
      }
    }
    out.per_document.assign(count, 0);
    for (std::size_t i = 0; i < best; ++i) out.per_document[predictor_.place(i)] = 1;
  }

  /// Tries changes of the best marks until none helps, the result is close enough, or the limit is reached:
  /// all marks if the limit allows that; otherwise one document of the other kind, the longest first; then
  /// two.
  void improve(ShardingChoice& out) {
    const double enough = (1.0 + options_.close_enough) * weighted(predictor_.divided());
    const std::size_t count = predictor_.documents();
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
  void flip(std::size_t i) { marks_[predictor_.place(i)] ^= 1; }

  bool keep_if_better(ShardingChoice& out) {
    const AttentionSeconds seconds = predictor_.seconds(marks_);
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

  ShardingPredictor<M> predictor_;
  ShardingOptions options_;
  std::vector<std::uint8_t> marks_;  // that are tried
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
