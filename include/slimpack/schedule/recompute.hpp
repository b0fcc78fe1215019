#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack {

/// Layers that are recomputed in the backward pass, on each stage: the same for all packs, or for each backward pack. Packs may
/// also leave layers in the host's memory (`offloaded_layers`).
class Recompute {
 public:
  Recompute() = default;
  /// @param layers of each stage, for all packs.
  explicit Recompute(std::vector<std::int32_t> layers) : stages_(layers.size()), layers_(std::move(layers)) {}
  /// @param layers [backward pack * stages + stage].
  Recompute(std::size_t stages, std::vector<std::int32_t> layers)
      : stages_(stages), per_pack_(true), layers_(std::move(layers)) {}

  /// @param layers, offload that are recomputed and that wait in the host's memory, [backward pack * stages + stage].
  Recompute(std::size_t stages, std::vector<std::int32_t> layers, std::vector<std::int32_t> offload)
      : stages_(stages), per_pack_(true), layers_(std::move(layers)), offload_(std::move(offload)) {
    require(layers_.size() == offload_.size(), offload_.size(), " numbers of offloaded layers; expected the ",
            layers_.size(), " of recomputed ones");
    if (std::all_of(offload_.begin(), offload_.end(), [](std::int32_t n) { return n == 0; }))
      offload_.clear();
  }

  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] bool per_pack() const { return per_pack_; }
  [[nodiscard]] std::int32_t operator()(std::size_t pack, std::size_t stage) const {
    return layers_[per_pack_ ? pack * stages_ + stage : stage];
  }
  /// Of all stages. @pre pack is one of those given, if layers were given by pack.
  [[nodiscard]] std::span<const std::int32_t> row(std::size_t pack) const {
    return std::span(layers_).subspan(per_pack_ ? pack * stages_ : 0, stages_);
  }
  /// Whether any pack leaves a layer in the host's memory.
  [[nodiscard]] bool offloads() const { return !offload_.empty(); }
  [[nodiscard]] std::int32_t offload(std::size_t pack, std::size_t stage) const {
    return offload_.empty() ? 0 : offload_[pack * stages_ + stage];
  }
  [[nodiscard]] bool any() const {
    return std::any_of(layers_.begin(), layers_.end(), [](std::int32_t layers) { return layers > 0; });
  }
  friend bool operator==(const Recompute&, const Recompute&) = default;

 private:
  std::size_t stages_ = 0;
  bool per_pack_ = false;
  std::vector<std::int32_t> layers_;
  std::vector<std::int32_t> offload_;  // [pack * stages + stage]; empty if there are none
};

}  // namespace slimpack
