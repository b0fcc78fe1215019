#pragma once

#include "options.hpp"
#include "slimpack/core/flops.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/sharding/attention_model.hpp"

namespace slimpack::command {

/// A kernel of the CPU back end that was not measured: no tiles, a rate for each pair. A BoundedAttentionModel.
class PlainAttention {
 public:
  explicit PlainAttention(const JobOptions& o)
      : forward_(attention_flops_per_twice_pair(o.job.model) /
                 (o.job.device.peak_flops * o.job.device.attention_forward)),
        backward_(attention_flops_per_twice_pair(o.job.model) * backward_attention_ratio /
                  (o.job.device.peak_flops * o.job.device.attention_backward)) {}

  [[nodiscard]] AttentionSeconds chunk_seconds(Tokens begin, Tokens end) const {
    const double pairs = twice_causal_pairs(begin, end);
    return {forward_ * pairs, backward_ * pairs};
  }
  [[nodiscard]] AttentionSeconds launch_seconds() const { return {}; }
  [[nodiscard]] AttentionSeconds least_seconds_per_twice_pair() const { return {forward_, backward_}; }

 private:
  double forward_, backward_;
};

}  // namespace slimpack::command
