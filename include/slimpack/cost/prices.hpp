#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/cost/model_prices.hpp"

namespace slimpack {

/// Prices of packs by the number of pipelines that run them together. Each is made when it is first asked for.
class GroupPrices {
 public:
  explicit GroupPrices(Prices alone) { known_.push_back(std::make_unique<const Prices>(std::move(alone))); }

  [[nodiscard]] const Prices& alone() const { return *known_.front(); }
  [[nodiscard]] bool allows(std::size_t group) const { return alone().merges(group); }
  /// The largest group that was asked for.
  [[nodiscard]] std::size_t largest() const { return known_.size(); }

  /// Prices of packs that `group` pipelines share. @pre allows(group).
  [[nodiscard]] const Prices& shared_by(std::size_t group) {
    return group <= known_.size() && known_[group - 1] ? *known_[group - 1] : make(group);
  }

 private:
  const Prices& make(std::size_t group) {
    if (known_.size() < group) known_.resize(group);
    known_[group - 1] = std::make_unique<const Prices>(alone().merged(group));
    return *known_[group - 1];
  }

  std::vector<std::unique_ptr<const Prices>> known_;  // [group size - 1]
};

/// Seconds of slices in one pass over all stages: what packs are cut by.
class SlicePrices {
 public:
  /// @param prices has to outlive this.
  SlicePrices(const Prices& prices, Pass pass) : prices_(&prices), pass_(pass) {}

  [[nodiscard]] Pass pass() const { return pass_; }
  /// Whether `coefficients` are the whole price of a slice.
  [[nodiscard]] bool polynomial() const { return prices_->polynomial(); }
  [[nodiscard]] const SliceCoefficients& coefficients() const {
    return prices_->pipeline_coefficients(pass_);
  }
  /// Whether parts of a sample cost as much as the whole.
  [[nodiscard]] bool additive() const { return polynomial() && coefficients().splits_for_free(); }
  [[nodiscard]] double operator()(Tokens begin, Tokens end) const {
    return prices_->pipeline_seconds(begin, end, pass_);
  }

 private:
  const Prices* prices_;
  Pass pass_;
};

/// Seconds of a whole document over all stages, in both passes, without the constants of packs. Context-parallel ranks share its
/// attention equally (Wa + Wl of WLB-LLM's Eq. 2). O(1) if the prices are polynomial, else O(stages).
[[nodiscard]] inline double document_seconds(const Prices& prices, Tokens length) {
  const PackAttention* const attention = prices.attention();
  const Slice document{0, 0, length};
  double sum = 0.0;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    double seconds = prices.pipeline_seconds(0, length, pass);
    if (attention != nullptr) {
      const double layer = attention->slice_seconds({&document, 1}, pass) / prices.ranks();
      seconds -= prices.least_attention_seconds(0, length, pass);
      seconds += prices.pipeline_attention_seconds(layer, pass);
    }
    sum += seconds;
  }
  return sum;
}

/// Adds the work of whole samples in both passes to `seconds`, one number per stage, without the constants of packs.
/// O(samples + stages) if the prices are polynomial, else O(samples * stages).
inline void add_sample_seconds(const Prices& prices, std::span<const Tokens> lengths,
                               std::span<double> seconds) {
  for (const Pass pass : {Pass::forward, Pass::backward}) prices.add_sample_seconds(lengths, pass, seconds);
}

}  // namespace slimpack
