#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/flops.hpp"
#include "slimpack/core/ids.hpp"

namespace campaign {

using namespace slimpack;

/// Which numbers of pipelines a user's model can price a merged pack for.
enum class Groups : std::uint8_t { any, powers_of_two, up_to_four, none };

/// Rates of a user's own model. Seconds of one layer's forward pass.
struct UserRates {
  double per_slice = 0.0, per_token = 1e-6, per_key = 0.0, per_twice_pair = 1e-10;
  double head_per_token = 0.0;   ///< in addition to the layers of the last stage
  double backward = 2.0;         ///< times the forward pass
  double per_pack = 1e-4;        ///< of a stage
  double latency = 1e-5;         ///< of a transfer
  double per_sent_token = 1e-8;  ///< of a transfer
  double merging = 0.0;          ///< share by which a merged slice takes longer in all
  double sync = 0.0;
  Groups groups = Groups::any;
};

/// A model of time that a user may write: polynomial in a slice's bounds, with prices of slices and of the keys
/// that they read.
class PlainUserCost {
 public:
  PlainUserCost(UserRates rates, std::vector<std::int32_t> layers)
      : rates_(rates), layers_(std::move(layers)), recompute_(layers_.size(), 0) {}

  [[nodiscard]] std::size_t stages() const { return layers_.size(); }
  [[nodiscard]] std::span<const std::int32_t> layers() const { return layers_; }
  [[nodiscard]] double sync_seconds() const { return rates_.sync; }
  [[nodiscard]] double pack_seconds(std::size_t, Pass) const { return rates_.per_pack; }

  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    const double layer = layer_seconds(begin, end);
    const double head =
        stage + 1 == stages() ? rates_.head_per_token * static_cast<double>(end - begin) * share() : 0.0;
    const double forward = layers_[stage] * layer + head;
    return pass == Pass::forward ? forward : rates_.backward * forward + recompute_[stage] * layer;
  }

  [[nodiscard]] double transfer_seconds(Tokens tokens, Pass) const {
    return rates_.latency + rates_.per_sent_token * static_cast<double>(tokens) / members_;
  }
  [[nodiscard]] double transfer_seconds(std::size_t, Tokens tokens, Pass pass) const {
    return transfer_seconds(tokens, pass);
  }

 protected:
  [[nodiscard]] double layer_seconds(Tokens begin, Tokens end) const {
    return share() * (rates_.per_slice + rates_.per_token * static_cast<double>(end - begin) +
                      rates_.per_key * static_cast<double>(end) +
                      rates_.per_twice_pair * twice_causal_pairs(begin, end));
  }
  [[nodiscard]] double share() const { return members_ > 1.0 ? (1.0 + rates_.merging) / members_ : 1.0; }

  UserRates rates_;
  std::vector<std::int32_t> layers_;
  std::vector<std::int32_t> recompute_;
  double members_ = 1.0;
};

/// The same where pipelines can run packs together.
class MergingUserCost : public PlainUserCost {
 public:
  using PlainUserCost::PlainUserCost;

  [[nodiscard]] bool supports_context_parallel(std::int32_t group) const {
    if (group == 1) return true;
    switch (rates_.groups) {
      case Groups::any:
        return true;
      case Groups::powers_of_two:
        return (group & (group - 1)) == 0;
      case Groups::up_to_four:
        return group <= 4;
      case Groups::none:
        break;
    }
    return false;
  }
  [[nodiscard]] MergingUserCost with_context_parallel(std::int32_t group) const {
    MergingUserCost copy = *this;
    copy.members_ *= group;
    return copy;
  }
};

/// The same where layers can also be recomputed.
class FullUserCost : public MergingUserCost {
 public:
  using MergingUserCost::MergingUserCost;
  explicit FullUserCost(const MergingUserCost& other) : MergingUserCost(other) {}

  [[nodiscard]] double recompute_seconds(std::size_t, Tokens begin, Tokens end) const {
    return layer_seconds(begin, end);
  }
  [[nodiscard]] FullUserCost with_recompute(std::span<const std::int32_t> layers) const {
    FullUserCost copy = *this;
    copy.recompute_.assign(layers.begin(), layers.end());
    return copy;
  }
  [[nodiscard]] FullUserCost with_context_parallel(std::int32_t group) const {
    return FullUserCost(MergingUserCost::with_context_parallel(group));
  }
};

}  // namespace campaign
