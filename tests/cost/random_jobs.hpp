#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/model/presets.hpp"

namespace slimpack::testing {

/// Numbers from a seed.
class Random {
 public:
  explicit Random(unsigned seed) : generator_(seed) {}

  [[nodiscard]] double number(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(generator_);
  }
  [[nodiscard]] Tokens tokens(Tokens low, Tokens high) {
    return std::uniform_int_distribution<Tokens>(low, high)(generator_);
  }
  [[nodiscard]] bool chance(double share) { return number(0.0, 1.0) < share; }
  template <class T>
  [[nodiscard]] T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(tokens(0, static_cast<Tokens>(values.size()) - 1))];
  }

 private:
  std::mt19937 generator_;
};

/// Any model that `tp` ranks can share.
[[nodiscard]] inline Transformer random_model(Random& random, std::int32_t tp) {
  const auto kv_heads = random.one_of<std::int32_t>({1, 2, 4, 8, 12, 40});
  auto heads = kv_heads * random.one_of<std::int32_t>({1, 2, 5, 8});
  while (heads % tp != 0) heads *= 2;
  const auto head_dim = random.one_of<std::int32_t>({16, 64, 128});
  return {.name = "random",
          .layers = static_cast<std::int32_t>(random.tokens(4, 30)),
          .hidden = static_cast<std::int32_t>(random.tokens(64, 8192)),
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .ffn = static_cast<std::int32_t>(random.tokens(64, 30000)),
          .vocab = static_cast<std::int32_t>(random.tokens(100, 200000))};
}

[[nodiscard]] inline Device random_device(Random& random) {
  Device d = device_preset("h100");
  d.name = "random";
  d.peak_flops = random.number(1e13, 2e15);
  d.gemm_efficiency = random.number(0.2, 0.9);
  d.gemm_backward_efficiency = random.number(0.2, 0.9);
  d.attention_forward = random.number(0.2, 0.9);
  d.attention_backward = random.number(0.2, 0.9);
  d.memory_bandwidth = random.number(2e11, 8e12);
  d.pack_overhead = random.number(0.0, 1e-3);
  d.intra_node = {random.number(1e10, 1e12), random.number(0.0, 1e-5)};
  d.inter_node = {d.intra_node.bandwidth * random.number(0.05, 1.0), random.number(0.0, 1e-4)};
  return d;
}

/// A job, options, and pipelines that run packs together.
struct CalibratedCase {
  Job job;
  CalibratedOptions options;
  std::int32_t members = 1;

  [[nodiscard]] CalibratedCost cost() const {
    const CalibratedCost alone(job, options);
    return members > 1 ? alone.with_context_parallel(members) : alone;
  }
};

/// There are at least as many pipelines as run packs together; a stage's devices may begin anywhere in a node.
[[nodiscard]] inline CalibratedCase random_calibrated(Random& random) {
  CalibratedCase out;
  out.members = random.one_of<std::int32_t>({1, 1, 2, 3, 4});
  out.job.layout = {.dp = out.members * random.one_of<std::int32_t>({1, 2, 4}),
                    .tp = random.one_of<std::int32_t>({1, 2, 4, 8, 16}),
                    .cp = random.one_of<std::int32_t>({1, 1, 2, 4}),
                    .pp = random.one_of<std::int32_t>({1, 2, 3, 4})};
  out.job.model = random_model(random, out.job.layout.tp);
  out.job.device = random_device(random);
  out.options.tp_overlap = random.number(0.0, 1.0);
  out.options.kv_gradient_element_bytes = random.chance(0.5) ? 2.0 : 4.0;
  out.options.exchanges = random.one_of<ExchangeSet>({{KeyExchange::ring},
                                                      {KeyExchange::all_gather},
                                                      {KeyExchange::ring, KeyExchange::all_to_all},
                                                      {KeyExchange::ring, KeyExchange::all_gather},
                                                      {KeyExchange::all_to_all, KeyExchange::all_gather}});
  out.options.ring_overlap = random.one_of<double>({0.0, 0.3, 0.9, 1.0, 1.0});
  out.options.prefix = random.chance(0.8);
  const std::int32_t ranks = out.job.layout.tp * out.job.layout.cp * out.members;
  if (random.chance(0.2) && all_to_all_possible(out.job.model, out.job.layout.tp, out.job.layout.cp) &&
      all_to_all_possible(out.job.model, 1, ranks)) {
    out.options.exchanges = {KeyExchange::all_to_all};
  }
  return out;
}

}  // namespace slimpack::testing
