#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/concepts.hpp"

namespace slimpack {

/// A memory model of any type as one type, for the stages of one pipeline. Bytes per token are tabulated; workspace is
/// asked of the model, of which this holds a copy.
class Memory {
 public:
  /// @param layers that each stage holds. @param recomputes whether layers may be recomputed.
  /// @throws InvalidInput if what is always on a stage leaves no room for tokens.
  template <MemoryModel M>
  Memory(M memory, std::span<const std::int32_t> layers, bool recomputes)
      : model_(std::make_shared<const M>(std::move(memory))),
        workspace_(&workspace_of<M>),
        activations_(&activations_of<M>),
        transit_(&transit_of<M>),
        offloads_(OffloadingMemoryModel<M>),
        capacity_(static_cast<const M*>(model_.get())->capacity_bytes()),
        reserve_(reserve_bytes(*static_cast<const M*>(model_.get()))) {
    const M& model = *static_cast<const M*>(model_.get());
    require_room(model, layers.size());
    for (std::size_t s = 0; s < layers.size(); ++s) {
      Stage& stage = stages_.emplace_back();
      stage.layers = recomputes ? layers[s] : 0;
      stage.fixed = model.static_bytes(s);
      stage.room = capacity_ - stage.fixed;
      stage.kv_gradient = model.kv_gradient_bytes(s);
      for (std::int32_t r = 0; r <= stage.layers; ++r)
        stage.activation.push_back(model.activation_bytes(s, r));
      stage.least_saving = least_saving(stage.activation);
    }
  }

  [[nodiscard]] std::size_t stages() const { return stages_.size(); }
  [[nodiscard]] double capacity_bytes() const { return capacity_; }
  /// The same for messages, with what is kept free of it.
  [[nodiscard]] std::string capacity_text() const {
    const std::string text = concat(capacity_ / 1e9, " GB per device");
    return reserve_ > 0 ? concat(text, ", of which ", reserve_ / 1e9, " GB are kept free (reserve_bytes),")
                        : text;
  }
  /// What is always on a stage.
  [[nodiscard]] double static_bytes(std::size_t stage) const { return stages_[stage].fixed; }
  /// What a stage has for tokens and workspace.
  [[nodiscard]] double room_bytes(std::size_t stage) const { return stages_[stage].room; }
  /// Most layers that a stage may recompute.
  [[nodiscard]] std::int32_t recompute_limit(std::size_t stage) const { return stages_[stage].layers; }
  /// Whether any stage may recompute layers.
  [[nodiscard]] bool recomputes() const {
    return std::any_of(stages_.begin(), stages_.end(), [](const Stage& stage) { return stage.layers > 0; });
  }
  /// Per token from its forward pass to its backward pass, if so many layers are recomputed.
  [[nodiscard]] double activation_bytes(std::size_t stage, std::int32_t recompute) const {
    return stages_[stage].activation[static_cast<std::size_t>(recompute)];
  }
  /// The same if so many layers wait in the host's memory.
  [[nodiscard]] double activation_bytes(std::size_t stage, std::int32_t recompute,
                                        std::int32_t offload) const {
    return offload == 0 ? activation_bytes(stage, recompute)
                        : activations_(model_.get(), stage, recompute, offload);
  }
  /// Whether the model knows of layers in the host's memory; if not, they take as much of the device's as others.
  [[nodiscard]] bool offloads() const { return offloads_; }
  /// Layers on their way, while a pack runs of which so many tokens on each member have offloaded layers.
  [[nodiscard]] double transit_bytes(std::size_t stage, Tokens tokens) const {
    return transit_(model_.get(), stage, tokens);
  }
  /// Saved per token by each layer that is recomputed, at least; zero if none may be.
  [[nodiscard]] double least_recompute_saving(std::size_t stage) const { return stages_[stage].least_saving; }
  /// Per token of a sample whose backward pass has begun.
  [[nodiscard]] double kv_gradient_bytes(std::size_t stage) const { return stages_[stage].kv_gradient; }

  /// While a pack runs on a stage of one of `members` pipelines, what these exchange included.
  /// @param own tokens of the pack on this member. @param all tokens of all members. @param exchange of keys between them.
  [[nodiscard]] double workspace_bytes(std::size_t stage, Pass pass, Tokens own, Tokens all,
                                       std::size_t members, std::int32_t recompute,
                                       KeyExchange exchange = KeyExchange::none) const {
    return workspace_(model_.get(), stage, pass, own, all, members, recompute, exchange);
  }

 private:
  struct Stage {
    std::int32_t layers = 0;
    double fixed = 0.0;
    double room = 0.0;
    double kv_gradient = 0.0;
    double least_saving = 0.0;
    std::vector<double> activation;  // [recomputed layers]
  };

  /// @param activation bytes, [recomputed layers].
  [[nodiscard]] static double least_saving(std::span<const double> activation) {
    if (activation.size() < 2) return 0.0;
    double least = activation[0] - activation[1];
    for (std::size_t r = 2; r < activation.size(); ++r)
      least = std::min(least, (activation[0] - activation[r]) / static_cast<double>(r));
    return std::max(0.0, least);
  }

  template <class M>
  static double workspace_of(const void* memory, std::size_t stage, Pass pass, Tokens own, Tokens all,
                             std::size_t members, std::int32_t recompute, KeyExchange exchange) {
    const M& model = *static_cast<const M*>(memory);
    return model.workspace_bytes(stage, pass, own, recompute) +
           exchange_bytes(model, stage, pass, all, members, exchange);
  }

  template <class M>
  static double activations_of(const void* memory, std::size_t stage, std::int32_t recompute,
                               std::int32_t offload) {
    return slimpack::activation_bytes(*static_cast<const M*>(memory), stage, recompute, offload);
  }

  template <class M>
  static double transit_of(const void* memory, std::size_t stage, Tokens tokens) {
    return slimpack::transit_bytes(*static_cast<const M*>(memory), stage, tokens);
  }

  std::shared_ptr<const void> model_;
  double (*workspace_)(const void*, std::size_t, Pass, Tokens, Tokens, std::size_t, std::int32_t,
                       KeyExchange);
  double (*activations_)(const void*, std::size_t, std::int32_t, std::int32_t);
  double (*transit_)(const void*, std::size_t, Tokens);
  bool offloads_;
  double capacity_, reserve_;
  std::vector<Stage> stages_;
};

}  // namespace slimpack
