#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "slimpack/core/ids.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/exchange.hpp"
#include "slimpack/cost/polynomial.hpp"

namespace slimpack {

/// Holds a cost model of any type, so that code that uses it need not be a template. Optional members that the model lacks
/// (`cost/concepts.hpp`) are reported as absent, or cost nothing. If they are faster than a call for each stage, a model may
/// have `pipeline_seconds(begin, end, pass)`, the sum over all stages, `add_slice_seconds(begin, end, pass, seconds)`, which
/// adds the time of each stage, and `add_sample_seconds(lengths, pass, seconds)`, which does so for many whole samples.
///
/// A value: all copies share one copy of the model.
class AnyCost {
 public:
  template <CostModel C>
  explicit AnyCost(C cost)
      : model_(std::make_shared<const C>(std::move(cost))), operations_(&operations_of<C>) {}

  [[nodiscard]] std::size_t stages() const { return operations_->stages(model_.get()); }
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    return operations_->slice(model_.get(), stage, begin, end, pass);
  }
  /// Sum over all stages.
  [[nodiscard]] double pipeline_seconds(Tokens begin, Tokens end, Pass pass) const {
    return operations_->pipeline(model_.get(), begin, end, pass);
  }
  /// Adds a slice's time on each stage to `seconds`. @pre seconds.size() == stages().
  void add_slice_seconds(Tokens begin, Tokens end, Pass pass, std::span<double> seconds) const {
    operations_->add_slice(model_.get(), begin, end, pass, seconds.data());
  }
  /// Adds the time of whole samples on each stage to `seconds`. @pre seconds.size() == stages().
  void add_sample_seconds(std::span<const Tokens> lengths, Pass pass, std::span<double> seconds) const {
    operations_->add_samples(model_.get(), lengths, pass, seconds.data());
  }
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return operations_->pack(model_.get(), stage, pass);
  }
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return operations_->transfer(model_.get(), stage, tokens, pass);
  }
  /// Between all neighbours. @param[out] seconds stages() - 1 numbers.
  void transfer_seconds(Tokens tokens, Pass pass, std::span<double> seconds) const {
    operations_->transfers(model_.get(), tokens, pass, seconds.data());
  }
  [[nodiscard]] double sync_seconds() const { return operations_->sync(model_.get()); }

  [[nodiscard]] bool recomputes() const { return operations_->recompute != nullptr; }
  /// @pre recomputes().
  [[nodiscard]] double recompute_seconds(std::size_t stage, Tokens begin, Tokens end) const {
    return operations_->recompute(model_.get(), stage, begin, end);
  }
  [[nodiscard]] double recompute_pack_seconds(std::size_t stage) const {
    return operations_->recompute_pack(model_.get(), stage);
  }

  [[nodiscard]] bool offloads() const { return operations_->offload != nullptr; }
  /// @pre offloads().
  [[nodiscard]] double offload_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return operations_->offload(model_.get(), stage, tokens, pass);
  }

  [[nodiscard]] bool merges(std::size_t group) const {
    return group == 1 || (operations_->merges != nullptr &&
                          operations_->merges(model_.get(), static_cast<std::int32_t>(group)));
  }
  /// The model of each of `group` pipelines that run packs together. @pre merges(group).
  [[nodiscard]] AnyCost merged(std::size_t group) const {
    return group == 1 ? *this : operations_->merged(model_.get(), static_cast<std::int32_t>(group));
  }

  /// Ways to exchange keys that the model prices; empty if it does not say.
  [[nodiscard]] ExchangeSet exchanges() const { return operations_->exchanges(model_.get()); }
  /// The model with this way alone. @pre exchanges() contains it.
  [[nodiscard]] AnyCost with_exchange(KeyExchange exchange) const {
    return operations_->exchange(model_.get(), exchange);
  }

  /// Whether the model can tell attention from the rest.
  [[nodiscard]] bool separable() const { return operations_->attention != nullptr; }
  /// Seconds that a stage's attention takes per second of one layer's; zero unless separable().
  [[nodiscard]] double attention_weight(std::size_t stage, Pass pass) const {
    return separable() ? operations_->attention(model_.get(), stage, pass) : 0.0;
  }

  /// Whether the coefficients are the whole price of a slice.
  [[nodiscard]] bool polynomial() const {
    return operations_->polynomial != nullptr && operations_->polynomial(model_.get());
  }
  /// @pre polynomial().
  [[nodiscard]] SliceCoefficients coefficients(std::size_t stage, Pass pass) const {
    return operations_->coefficients(model_.get(), stage, pass);
  }
  /// @pre polynomial() and recomputes().
  [[nodiscard]] SliceCoefficients recompute_coefficients(std::size_t stage) const {
    return operations_->recompute_coefficients(model_.get(), stage);
  }

 private:
  using Model = const void*;

  struct Operations {
    std::size_t (*stages)(Model);
    double (*slice)(Model, std::size_t, Tokens, Tokens, Pass);
    double (*pipeline)(Model, Tokens, Tokens, Pass);
    void (*add_slice)(Model, Tokens, Tokens, Pass, double*);
    void (*add_samples)(Model, std::span<const Tokens>, Pass, double*);
    double (*pack)(Model, std::size_t, Pass);
    double (*transfer)(Model, std::size_t, Tokens, Pass);
    void (*transfers)(Model, Tokens, Pass, double*);
    double (*sync)(Model);
    double (*recompute_pack)(Model, std::size_t);
    ExchangeSet (*exchanges)(Model);
    // Null where the model lacks them.
    double (*recompute)(Model, std::size_t, Tokens, Tokens) = nullptr;
    double (*offload)(Model, std::size_t, Tokens, Pass) = nullptr;
    bool (*merges)(Model, std::int32_t) = nullptr;
    AnyCost (*merged)(Model, std::int32_t) = nullptr;
    AnyCost (*exchange)(Model, KeyExchange) = nullptr;
    double (*attention)(Model, std::size_t, Pass) = nullptr;
    bool (*polynomial)(Model) = nullptr;
    SliceCoefficients (*coefficients)(Model, std::size_t, Pass) = nullptr;
    SliceCoefficients (*recompute_coefficients)(Model, std::size_t) = nullptr;
  };

  template <class C>
  [[nodiscard]] static const C& as(Model model) {
    return *static_cast<const C*>(model);
  }

  template <class C>
  [[nodiscard]] static std::size_t stages_of(const C& cost) {
    return static_cast<std::size_t>(cost.stages());
  }

  template <class C>
  static double pipeline_of(Model model, Tokens begin, Tokens end, Pass pass) {
    const C& cost = as<C>(model);
    if constexpr (requires { cost.pipeline_seconds(begin, end, pass); })
      return cost.pipeline_seconds(begin, end, pass);
    double sum = 0.0;
    for (std::size_t s = 0; s < stages_of(cost); ++s) sum += cost.slice_seconds(s, begin, end, pass);
    return sum;
  }

  template <class C>
  static void add_slice_of(Model model, Tokens begin, Tokens end, Pass pass, double* seconds) {
    const C& cost = as<C>(model);
    if constexpr (requires { cost.add_slice_seconds(begin, end, pass, std::span<double>()); })
      return cost.add_slice_seconds(begin, end, pass, {seconds, stages_of(cost)});
    for (std::size_t s = 0; s < stages_of(cost); ++s) seconds[s] += cost.slice_seconds(s, begin, end, pass);
  }

  template <class C>
  static void add_samples_of(Model model, std::span<const Tokens> lengths, Pass pass, double* seconds) {
    const C& cost = as<C>(model);
    if constexpr (requires { cost.add_sample_seconds(lengths, pass, std::span<double>()); })
      return cost.add_sample_seconds(lengths, pass, {seconds, stages_of(cost)});
    for (const Tokens length : lengths) add_slice_of<C>(model, 0, length, pass, seconds);
  }

  template <class C>
  static void transfers_of(Model model, Tokens tokens, Pass pass, double* seconds) {
    const C& cost = as<C>(model);
    for (std::size_t s = 0; s + 1 < stages_of(cost); ++s) seconds[s] = cost.transfer_seconds(s, tokens, pass);
  }

  template <class C>
  static ExchangeSet exchanges_of(Model model) {
    if constexpr (ExchangingCostModel<C>) return as<C>(model).exchanges();
    return {};
  }

  /// What every model has.
  template <class C>
  static constexpr Operations required_operations() {
    return {.stages = [](Model m) { return stages_of(as<C>(m)); },
            .slice =
                [](Model m, std::size_t stage, Tokens begin, Tokens end, Pass pass) {
                  return static_cast<double>(as<C>(m).slice_seconds(stage, begin, end, pass));
                },
            .pipeline = &pipeline_of<C>,
            .add_slice = &add_slice_of<C>,
            .add_samples = &add_samples_of<C>,
            .pack = [](Model m, std::size_t s,
                       Pass pass) { return static_cast<double>(as<C>(m).pack_seconds(s, pass)); },
            .transfer =
                [](Model m, std::size_t stage, Tokens tokens, Pass pass) {
                  return static_cast<double>(as<C>(m).transfer_seconds(stage, tokens, pass));
                },
            .transfers = &transfers_of<C>,
            .sync = [](Model m) { return slimpack::sync_seconds(as<C>(m)); },
            .recompute_pack = [](Model m,
                                 std::size_t s) { return slimpack::recompute_pack_seconds(as<C>(m), s); },
            .exchanges = &exchanges_of<C>};
  }

  template <class C>
  static constexpr Operations make_operations() {
    Operations out = required_operations<C>();
    if constexpr (RecomputingCostModel<C>) {
      out.recompute = [](Model m, std::size_t stage, Tokens begin, Tokens end) {
        return static_cast<double>(as<C>(m).recompute_seconds(stage, begin, end));
      };
    }
    if constexpr (OffloadingCostModel<C>) {
      out.offload = [](Model m, std::size_t stage, Tokens tokens, Pass pass) {
        return static_cast<double>(as<C>(m).offload_seconds(stage, tokens, pass));
      };
    }
    if constexpr (MergeableCostModel<C>) {
      out.merges = [](Model m, std::int32_t group) {
        return static_cast<bool>(as<C>(m).supports_context_parallel(group));
      };
      out.merged = [](Model m, std::int32_t group) {
        return AnyCost(C(as<C>(m).with_context_parallel(group)));
      };
    }
    if constexpr (ExchangingCostModel<C>)
      out.exchange = [](Model m, KeyExchange e) { return AnyCost(C(as<C>(m).with_exchange(e))); };
    if constexpr (SeparableCostModel<C>)
      out.attention = [](Model m, std::size_t s, Pass p) {
        return static_cast<double>(as<C>(m).attention_seconds(s, p, 1.0));
      };
    if constexpr (PolynomialCostModel<C>) {
      out.polynomial = [](Model m) { return static_cast<bool>(as<C>(m).is_polynomial()); };
      out.coefficients = [](Model m, std::size_t s, Pass p) {
        return static_cast<SliceCoefficients>(as<C>(m).coefficients(s, p));
      };
    }
    if constexpr (PolynomialCostModel<C> && RecomputingCostModel<C>) {
      out.recompute_coefficients = [](Model m, std::size_t s) {
        return static_cast<SliceCoefficients>(as<C>(m).recompute_coefficients(s));
      };
    }
    return out;
  }

  template <class C>
  static constexpr Operations operations_of = make_operations<C>();

  std::shared_ptr<const void> model_;
  const Operations* operations_;
};

}  // namespace slimpack
