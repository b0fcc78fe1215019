#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "oracle.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/megatron.hpp"

using namespace slimpack;

TEST_CASE("the more communication is hidden, the shorter are the baseline's steps; no ring, no difference") {
  std::mt19937 random(7);
  int shorter_tp = 0, shorter_ring = 0;
  for (int round = 0; round < 20; ++round) {
    const std::vector<Tokens> lengths = oracle::random_lengths(random, 60, round % 4, 60000);
    const Job job{.model = transformer_preset("llama-7b"),
                  .device = device_preset("h100"),
                  .layout = {.dp = 4, .tp = 4, .cp = 1 + round % 2, .pp = 2}};
    const auto seconds = [&](const CalibratedOptions& cost, const MegatronOptions& options) {
      return plan_megatron(lengths, job, CalibratedCost(job, cost), TransformerMemory(job), options)
          .step.pipeline_seconds;
    };
    INFO("round " << round);
    const MegatronOptions context{.context = 65536}, given{.context = 65536, .choose_cp = false};
    const double hidden = seconds({.tp_overlap = 0.9}, context),
                 shown = seconds({.tp_overlap = 0.1}, context);
    CHECK(hidden <= shown * (1 + 1e-12));
    shorter_tp += hidden < shown ? 1 : 0;
    const CalibratedOptions ring{.exchanges = {KeyExchange::ring}},
        charged{.exchanges = {KeyExchange::ring}, .ring_overlap = 0.0};
    const double overlapped = seconds(ring, given), added = seconds(charged, given);
    CHECK(overlapped <= added * (1 + 1e-12));
    if (job.layout.cp == 1) CHECK(overlapped == added);
    shorter_ring += overlapped < added ? 1 : 0;
  }
  CHECK(shorter_tp == 20);
  CHECK(shorter_ring == 10);
}
