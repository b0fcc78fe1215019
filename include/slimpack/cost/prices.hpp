#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/polynomial.hpp"

namespace slimpack {

/// A cost model of any type as one type, so that everything that plans with prices is compiled once. Where the model is
/// a polynomial of a slice's bounds, its coefficients are tabulated and no price calls the model; otherwise each price
/// of a slice on all stages is one call. A model may have `pipeline_seconds(begin, end, pass)`, the sum over stages, and
/// `add_slice_seconds(begin, end, pass, seconds)`, which adds all stages' times, where these cost less than one stage
/// after another.
///
/// A value: it holds a copy of the model, which all copies of the prices share.
class Prices {
 public:
  /// @throws InvalidInput if the model has no stages.
  template <CostModel C>
  explicit Prices(C cost)
      : model_(std::make_shared<const C>(std::move(cost))), operations_(&operations_of<C>) {
    const C& model = *static_cast<const C*>(model_.get());
    stages_ = model.stages();
    require(stages_ > 0, "the cost model has 0 stages; expected at least one");
    sync_seconds_ = slimpack::sync_seconds(model);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t s = 0; s < stages_; ++s) pack_[index(pass)].push_back(model.pack_seconds(s, pass));
    }
    for (std::size_t s = 0; s < stages_; ++s) pack_again_.push_back(recompute_pack_seconds(model, s));
    if constexpr (PolynomialCostModel<C>) {
      if (model.is_polynomial()) tabulate(model);
    }
  }

  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] double sync_seconds() const { return sync_seconds_; }

  /// Whether every slice costs a polynomial of its bounds.
  [[nodiscard]] bool polynomial() const { return polynomial_; }
  /// Sum of all stages' coefficients. @pre polynomial().
  [[nodiscard]] const SliceCoefficients& pipeline_coefficients(Pass pass) const {
    return totals_[index(pass)];
  }

  /// Tokens `[begin, end)` of a sample on one stage.
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    if (polynomial_) return rates_[index(pass)][stage].seconds(begin, end);
    return operations_->slice(model_.get(), stage, begin, end, pass);
  }

  /// The same summed over all stages: the work that packs are balanced by.
  [[nodiscard]] double pipeline_seconds(Tokens begin, Tokens end, Pass pass) const {
    if (polynomial_) return totals_[index(pass)].seconds(begin, end);
    return operations_->pipeline(model_.get(), begin, end, pass);
  }

  /// Adds a slice's time on each stage to `seconds`. @pre seconds.size() == stages().
  void add_slice_seconds(Tokens begin, Tokens end, Pass pass, std::span<double> seconds) const {
    if (!polynomial_) return operations_->add_slice(model_.get(), begin, end, pass, seconds.data());
    SliceSums sums;
    sums.add(begin, end);
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] += rates_[index(pass)][s].seconds(sums);
  }

  /// Adds the time of whole samples on each stage to `seconds`. @pre seconds.size() == stages().
  void add_sample_seconds(std::span<const Tokens> lengths, Pass pass, std::span<double> seconds) const {
    if (!polynomial_) {
      for (const Tokens length : lengths) add_slice_seconds(0, length, pass, seconds);
      return;
    }
    SliceSums sums;
    for (const Tokens length : lengths) sums.add(0, length);
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] += rates_[index(pass)][s].seconds(sums);
  }

  /// The constant of a pack on a stage.
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const { return pack_[index(pass)][stage]; }

  /// From the end of a pack on `stage` (backward: `stage` + 1) until its neighbour may start it.
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return operations_->transfer(model_.get(), stage, tokens, pass);
  }
  /// The same for all pairs of neighbours. @param[out] seconds stages() - 1 numbers.
  void transfer_seconds(Tokens tokens, Pass pass, std::span<double> seconds) const {
    operations_->transfers(model_.get(), tokens, pass, seconds.data());
  }

  /// A pack on each stage: the sum over its slices plus the constant of a pack. O(slices + stages) if polynomial, else
  /// O(slices * stages). @param[out] seconds stages() numbers.
  void price_pack(std::span<const Slice> pack, Pass pass, std::span<double> seconds) const {
    for (std::size_t s = 0; s < stages_; ++s) seconds[s] = pack_[index(pass)][s];
    if (!polynomial_) {
      for (const Slice& slice : pack) add_slice_seconds(slice.begin, slice.end, pass, seconds);
    } else {
      add_sums(pack, rates_[index(pass)], seconds);
    }
  }

  /// One layer of each stage, a pack computed again in the backward pass, its constant included. @param[out] seconds stages() numbers.
  /// @pre recomputes().
  void price_recompute(std::span<const Slice> pack, std::span<double> seconds) const {
    std::copy(pack_again_.begin(), pack_again_.end(), seconds.begin());
    if (polynomial_) return add_sums(pack, again_, seconds);
    for (const Slice& slice : pack) {
      for (std::size_t s = 0; s < stages_; ++s)
        seconds[s] += operations_->recompute(model_.get(), s, slice.begin, slice.end);
    }
  }

  /// Whether the model prices recomputation.
  [[nodiscard]] bool recomputes() const { return operations_->recompute != nullptr; }

  /// Whether `group` pipelines can run a pack together.
  [[nodiscard]] bool merges(std::size_t group) const {
    return group == 1 || (operations_->merges != nullptr &&
                          operations_->merges(model_.get(), static_cast<std::int32_t>(group)));
  }

  /// Prices on each of `group` pipelines that run packs together. @pre merges(group).
  [[nodiscard]] Prices merged(std::size_t group) const {
    return group == 1 ? *this : operations_->merged(model_.get(), static_cast<std::int32_t>(group));
  }

 private:
  struct Operations {
    double (*slice)(const void*, std::size_t, Tokens, Tokens, Pass);
    double (*pipeline)(const void*, Tokens, Tokens, Pass);
    void (*add_slice)(const void*, Tokens, Tokens, Pass, double*);
    double (*transfer)(const void*, std::size_t, Tokens, Pass);
    void (*transfers)(const void*, Tokens, Pass, double*);
    double (*recompute)(const void*, std::size_t, Tokens, Tokens);  ///< null: not priced
    bool (*merges)(const void*, std::int32_t);                      ///< null: never
    Prices (*merged)(const void*, std::int32_t);
  };

  [[nodiscard]] static constexpr std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  template <class C>
  [[nodiscard]] static const C& as(const void* model) {
    return *static_cast<const C*>(model);
  }

  template <class C>
  static double pipeline_of(const void* model, Tokens begin, Tokens end, Pass pass) {
    if constexpr (requires(const C& c) { c.pipeline_seconds(begin, end, pass); })
      return as<C>(model).pipeline_seconds(begin, end, pass);
    double sum = 0.0;
    for (std::size_t s = 0; s < as<C>(model).stages(); ++s)
      sum += as<C>(model).slice_seconds(s, begin, end, pass);
    return sum;
  }

  template <class C>
  static void add_slice_of(const void* model, Tokens begin, Tokens end, Pass pass, double* seconds) {
    if constexpr (requires(const C& c) { c.add_slice_seconds(begin, end, pass, std::span<double>()); })
      return as<C>(model).add_slice_seconds(begin, end, pass, {seconds, as<C>(model).stages()});
    for (std::size_t s = 0; s < as<C>(model).stages(); ++s)
      seconds[s] += as<C>(model).slice_seconds(s, begin, end, pass);
  }

  template <class C>
  static void transfers_of(const void* model, Tokens tokens, Pass pass, double* seconds) {
    for (std::size_t s = 0; s + 1 < as<C>(model).stages(); ++s)
      seconds[s] = as<C>(model).transfer_seconds(s, tokens, pass);
  }

  template <class C>
  static constexpr Operations make_operations() {
    Operations out{
        [](const void* m, std::size_t stage, Tokens begin, Tokens end, Pass pass) {
          return double{as<C>(m).slice_seconds(stage, begin, end, pass)};
        },
        &pipeline_of<C>,
        &add_slice_of<C>,
        [](const void* m, std::size_t stage, Tokens tokens, Pass pass) {
          return double{as<C>(m).transfer_seconds(stage, tokens, pass)};
        },
        &transfers_of<C>,
        nullptr,
        nullptr,
        nullptr,
    };
    if constexpr (RecomputingCostModel<C>) {
      out.recompute = [](const void* m, std::size_t stage, Tokens begin, Tokens end) {
        return double{as<C>(m).recompute_seconds(stage, begin, end)};
      };
    }
    if constexpr (MergeableCostModel<C>) {
      out.merges = [](const void* m, std::int32_t group) {
        return bool{as<C>(m).supports_context_parallel(group)};
      };
      out.merged = [](const void* m, std::int32_t group) {
        return Prices(C(as<C>(m).with_context_parallel(group)));
      };
    }
    return out;
  }

  template <class C>
  static constexpr Operations operations_of = make_operations<C>();

  static void add_sums(std::span<const Slice> pack, const std::vector<SliceCoefficients>& rates,
                       std::span<double> seconds) {
    SliceSums sums;
    for (const Slice& slice : pack) sums.add(slice.begin, slice.end);
    for (std::size_t s = 0; s < rates.size(); ++s) seconds[s] += rates[s].seconds(sums);
  }

  template <class C>
  void tabulate(const C& model) {
    polynomial_ = true;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t s = 0; s < stages_; ++s) {
        rates_[index(pass)].push_back(model.coefficients(s, pass));
        totals_[index(pass)] += rates_[index(pass)].back();
      }
    }
    if constexpr (RecomputingCostModel<C>) {
      for (std::size_t s = 0; s < stages_; ++s) again_.push_back(model.recompute_coefficients(s));
    }
  }

  std::shared_ptr<const void> model_;
  const Operations* operations_;
  std::size_t stages_ = 0;
  double sync_seconds_ = 0.0;
  bool polynomial_ = false;
  std::vector<double> pack_[2];              // [pass][stage]
  std::vector<double> pack_again_;           // [stage] constant of one layer computed again
  std::vector<SliceCoefficients> rates_[2];  // [pass][stage], if polynomial
  std::vector<SliceCoefficients> again_;     // [stage]
  SliceCoefficients totals_[2];
};

/// Prices of packs by the number of pipelines that run them together. Made when they are first asked for.
class GroupPrices {
 public:
  explicit GroupPrices(Prices alone) { known_.push_back(std::make_unique<const Prices>(std::move(alone))); }

  [[nodiscard]] const Prices& alone() const { return *known_.front(); }
  [[nodiscard]] bool allows(std::size_t group) const { return alone().merges(group); }

  /// @pre allows(group).
  [[nodiscard]] const Prices& of(std::size_t group) {
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

/// Adds the work of whole samples, both passes, to `seconds`, one number per stage; no pack's constants.
/// O(samples + stages) if the prices are polynomial, else O(samples * stages).
inline void add_sample_seconds(const Prices& prices, std::span<const Tokens> lengths,
                               std::span<double> seconds) {
  for (const Pass pass : {Pass::forward, Pass::backward}) prices.add_sample_seconds(lengths, pass, seconds);
}

}  // namespace slimpack
