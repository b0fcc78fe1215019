#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "preset_cost.hpp"
#include "slimpack/cost/measured.hpp"

namespace slimpack::command {

/// Time on ranks of a back end: by the device's constants, or by a profile of the machine. A CostModel that
/// recomputes and merges, states its layers, and names the exchange of merged packs.
class RankCost {
 public:
  /// @param heads that members of a pack can share, each some of them; none: members pass keys around.
  RankCost(CalibratedCost cost, std::optional<std::int32_t> heads = {})
      : cost_(std::move(cost)), heads_(heads) {}
  RankCost(MeasuredCost cost) : cost_(std::move(cost)) {}

  [[nodiscard]] std::size_t stages() const { return layers().size(); }
  [[nodiscard]] std::span<const std::int32_t> layers() const {
    return std::visit([](const auto& c) { return c.layers(); }, cost_);
  }
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    return std::visit([&](const auto& c) { return c.slice_seconds(stage, begin, end, pass); }, cost_);
  }
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return std::visit([&](const auto& c) { return c.pack_seconds(stage, pass); }, cost_);
  }
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return std::visit([&](const auto& c) { return c.transfer_seconds(stage, tokens, pass); }, cost_);
  }
  [[nodiscard]] double recompute_seconds(std::size_t stage, Tokens begin, Tokens end) const {
    return std::visit([&](const auto& c) { return c.recompute_seconds(stage, begin, end); }, cost_);
  }
  [[nodiscard]] double recompute_pack_seconds(std::size_t stage) const {
    return std::visit([&](const auto& c) { return slimpack::recompute_pack_seconds(c, stage); }, cost_);
  }
  [[nodiscard]] bool is_polynomial() const {
    return std::visit([](const auto& c) { return c.is_polynomial(); }, cost_);
  }
  [[nodiscard]] SliceCoefficients coefficients(std::size_t stage, Pass pass) const {
    return std::visit([&](const auto& c) { return c.coefficients(stage, pass); }, cost_);
  }
  [[nodiscard]] SliceCoefficients recompute_coefficients(std::size_t stage) const {
    return std::visit([&](const auto& c) { return c.recompute_coefficients(stage); }, cost_);
  }
  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const {
    if (!merges_) return group == 1;
    if (group > 0 && heads_ && *heads_ % group != 0) return false;
    return std::visit([&](const auto& c) { return c.supports_context_parallel(group); }, cost_);
  }
  [[nodiscard]] RankCost with_context_parallel(std::int32_t group) const {
    RankCost copy = *this;
    std::visit([&](auto& c) { c = c.with_context_parallel(group); }, copy.cost_);
    if (copy.heads_) *copy.heads_ /= group;
    return copy;
  }
  /// The ways in which the back end's merged packs can exchange keys.
  [[nodiscard]] ExchangeSet exchanges() const {
    return std::visit([](const auto& c) { return c.exchanges(); }, cost_);
  }
  [[nodiscard]] RankCost with_exchange(KeyExchange exchange) const {
    RankCost copy = *this;
    std::visit([&](auto& c) { c = c.with_exchange(exchange); }, copy.cost_);
    return copy;
  }
  /// The same without merging, for planners that would make a pipeline's stages of several ranks of it.
  [[nodiscard]] RankCost unmerged() const {
    RankCost copy = *this;
    copy.merges_ = false;
    return copy;
  }
  [[nodiscard]] double sync_seconds() const {
    return std::visit([](const auto& c) { return c.sync_seconds(); }, cost_);
  }

 private:
  std::variant<CalibratedCost, MeasuredCost> cost_;
  std::optional<std::int32_t> heads_;  // a pipeline's ranks have shares of the model's already
  bool merges_ = true;
};

}  // namespace slimpack::command
