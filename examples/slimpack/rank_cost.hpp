#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>

#include "preset_cost.hpp"
#include "slimpack/cost/measured.hpp"

namespace slimpack::command {

/// Time on ranks of a back end: by the device's constants, or by a profile of the machine. A CostModel that
/// knows recomputation and merging.
class RankCost {
 public:
  RankCost(PresetCost cost) : cost_(std::move(cost)) {}
  RankCost(MeasuredCost cost) : cost_(std::move(cost)) {}

  [[nodiscard]] std::size_t stages() const {
    return std::visit([](const auto& c) { return c.stages(); }, cost_);
  }
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    return std::visit([&](const auto& c) { return c.slice_seconds(stage, begin, end, pass); }, cost_);
  }
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return std::visit([&](const auto& c) { return c.pack_seconds(stage, pass); }, cost_);
  }
  [[nodiscard]] double transfer_seconds(Tokens tokens, Pass pass) const {
    return std::visit([&](const auto& c) { return c.transfer_seconds(tokens, pass); }, cost_);
  }
  [[nodiscard]] RankCost with_recompute(std::span<const std::int32_t> layers) const {
    return std::visit([&](const auto& c) { return RankCost(c.with_recompute(layers)); }, cost_);
  }
  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const {
    return std::visit([&](const auto& c) { return c.supports_context_parallel(group); }, cost_);
  }
  [[nodiscard]] RankCost with_context_parallel(std::int32_t group) const {
    return std::visit([&](const auto& c) { return RankCost(c.with_context_parallel(group)); }, cost_);
  }
  [[nodiscard]] double sync_seconds() const {
    return std::visit([](const auto& c) { return c.sync_seconds(); }, cost_);
  }

 private:
  std::variant<PresetCost, MeasuredCost> cost_;
};

/// The same without merging, for planners that would make a pipeline's stages of several ranks of it.
class UnmergedRankCost {
 public:
  explicit UnmergedRankCost(RankCost cost) : cost_(std::move(cost)) {}

  [[nodiscard]] std::size_t stages() const { return cost_.stages(); }
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    return cost_.slice_seconds(stage, begin, end, pass);
  }
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return cost_.pack_seconds(stage, pass);
  }
  [[nodiscard]] double transfer_seconds(Tokens tokens, Pass pass) const {
    return cost_.transfer_seconds(tokens, pass);
  }
  [[nodiscard]] UnmergedRankCost with_recompute(std::span<const std::int32_t> layers) const {
    return UnmergedRankCost(cost_.with_recompute(layers));
  }
  [[nodiscard]] double sync_seconds() const { return cost_.sync_seconds(); }

 private:
  RankCost cost_;
};

}  // namespace slimpack::command
