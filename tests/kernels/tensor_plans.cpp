// Here, not in tensor.cpp, for the planner takes long to compile.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/hydraulis.hpp"
#include "tests/effort.hpp"
#include "tests/kernels/trained.hpp"

using namespace slimpack;
using slimpack::testing::ExecutorCase, slimpack::testing::run_and_compare, slimpack::testing::seeds;

TEST_CASE("plans of hydraulis on pipelines of unequal tensor parallelism train as the plain transformer does",
          "[threads]") {
  const Device device = device_preset("a800");
  std::size_t unequal = 0;
  for (unsigned seed = 1; seed <= seeds(4, 2, 2); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<Tokens> lengths{60 + static_cast<Tokens>(random() % 30)};
    for (unsigned i = 0; i < 4 + seed % 5; ++i) lengths.push_back(1 + static_cast<Tokens>(random() % 40));
    const Transformer model{"small", 3, 12, 4 * static_cast<std::int32_t>(1 + random() % 2), 4, 4, 10, 30};
    // Each pipeline is a scheme of tp, cp and pp.
    const std::vector<Strategy> strategies{
        place_pipelines(model, device, 4, {{{2, 1, 1}, 1}, {{1, 1, 2}, 1}}),
        place_pipelines(model, device, 8, {{{4, 1, 1}, 1}, {{2, 1, 2}, 1}}),
        place_pipelines(model, device, 8, {{{2, 1, 2}, 1}, {{2, 1, 1}, 1}, {{1, 1, 1}, 2}})};
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      INFO("strategy " << i);
      ExecutorCase c{.plan = plan_hydraulis(lengths, model, device, std::span(&strategies[i], 1),
                                            calibrated_kinds(model, device, {}, {.reserve_bytes = 0.0})),
                     .model = model,
                     .ids = {},
                     .options = {},
                     .seed = seed};
      REQUIRE(violations(c.plan).empty());
      std::set<std::int32_t> tp;
      for (const PipelinePlan& pipeline : c.plan.pipelines) tp.insert(pipeline.tp);
      unequal += tp.size() > 1;
      c.ids = slimpack::testing::random_ids(random, c.plan, model.vocab);
      c.options.init = {.seed = seed, .deviation = 0.3};
      c.options.shard_optimiser = (seed + i) % 2 == 0;
      run_and_compare<double>(c);
    }
  }
  CHECK(unequal > 0);
}
