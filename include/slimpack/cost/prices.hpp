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
    if (known_.size() < group) known_.resize(group);
    std::unique_ptr<const Prices>& prices = known_[group - 1];
    if (!prices) prices = std::make_unique<const Prices>(alone().merged(group));
    return *prices;
  }

 private:
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

/// Adds the work of whole samples in both passes to `seconds`, one number per stage, without the constants of packs.
/// O(samples + stages) if the prices are polynomial, else O(samples * stages).
inline void add_sample_seconds(const Prices& prices, std::span<const Tokens> lengths,
                               std::span<double> seconds) {
  for (const Pass pass : {Pass::forward, Pass::backward}) prices.add_sample_seconds(lengths, pass, seconds);
}

}  // namespace slimpack
