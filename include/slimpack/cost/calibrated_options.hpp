#pragma once

#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/synchronise.hpp"
#include "slimpack/cost/zero3.hpp"

namespace slimpack {

/// Choices of the calibrated model that the hardware leaves open.
struct CalibratedOptions {
  /// Ways in which context-parallel ranks may exchange keys; slices take the cheapest one that is possible.
  ExchangeSet exchanges{KeyExchange::ring, KeyExchange::all_to_all};
  /// Share of tensor parallelism's communication that runs while dense products do, [0, 1]; never more than these
  /// last. The default is what Flux measured for both products of an MLP on 8 H800 (81 %; on 8 A800 92 to 95 %:
  /// docs/performance_report.md of bytedance/flux). NVIDIA NeMo hides what has no dependency entirely and the rest in
  /// chunks (Transformer Engine's user buffers). PyTorch's asynchronous tensor parallelism is 9 to 10 % faster on
  /// Llama 3 8B and 70B with tp 8 than none (torchtitan's benchmarks, June 2025), which is a share of about 0.4.
  /// 0: nothing is hidden.
  double tp_overlap = 0.8;
  /// Share of a ring's communication that runs while attention does, [0, 1]; never more than attention lasts. The
  /// default is what Ring Attention is made for: while keys and values move on, each rank computes with those it has.
  /// 0: nothing is hidden.
  double ring_overlap = 1.0;
  /// Whether slices pay for the keys and values of their prefix (`prefix_bytes`). If not, slicing costs no memory traffic: a
  /// way to see how much that matters.
  bool prefix = true;
  SyncOptions sync = {};                   ///< gradients and optimiser at the end of a step
  double offload = 0.0;                    ///< share of the activations moved to host memory and back, [0, 1]
  double kv_gradient_element_bytes = 2.0;  ///< of sums over slices: 2 for bf16, 4 for fp32
  Zero3Options zero3 = {};                 ///< what sharded parameters cost every pack
  /// Whether an all-to-all sends over the network only what leaves a node (`all_to_all_link`); if not, all of it, as the other
  /// exchanges do.
  bool all_to_all_by_node = false;
};

}  // namespace slimpack
