#include "slimpack/planners/candidates.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

#include "github.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/model/parallel.hpp"

using namespace slimpack;
using oracle::llama_13b;

namespace {

/// Two pipelines that share some samples, with some of their own.
struct RandomGroup {
  explicit RandomGroup(std::mt19937& random) {
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    const auto add = [&](int samples, int least, int most, std::vector<SampleId>& to) {
      const auto first = static_cast<std::ptrdiff_t>(lengths.size());
      for (int i = 0; i < samples; ++i) {
        to.push_back(static_cast<SampleId>(lengths.size()));
        lengths.push_back(pick(least, most));
      }
      std::sort(lengths.begin() + first, lengths.end(), std::greater<>{});
    };
    group.local.resize(2);
    add(pick(1, 4), 2000, 60000, group.merged);
    for (auto& own : group.local) add(pick(0, 8), 100, 8000, own);
  }

  std::vector<Tokens> lengths;
  SampleGroup group;
};

}  // namespace

TEST_CASE("a schedule with as many packs as were asked for is completed with as many, and no slower") {
  using Evaluator = CandidateEvaluator<CalibratedCost, TransformerMemory>;
  int found = 0;
  for (unsigned seed = 1; seed <= 600; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const RandomGroup on(random);
    const Job job = llama_13b(4, std::uniform_int_distribution<std::int32_t>(1, 8)(random), 2);
    const CalibratedCost cost(job);
    const TransformerMemory memory(job);
    Evaluator evaluate(on.lengths, cost, memory, split_layers(job.model.layers, job.layout.pp), {}, true,
                       true);
    const std::size_t packs = std::uniform_int_distribution<std::size_t>(3, 40)(random);
    GroupSchedule schedule;
    if (evaluate(on.group, {.packs = packs}, schedule) != Evaluator::Outcome::fits) continue;
    ++found;
    const double seconds = schedule.seconds;
    CHECK(evaluate.complete(on.group, packs, 0.0, schedule));
    CHECK(schedule.seconds <= 1.001 * seconds);
    CHECK(schedule.merged_forward.size() + schedule.forward[0].size() == packs);
    CHECK(schedule.merged_backward.size() + schedule.backward[1].size() == packs);
  }
  CHECK(found > 400);
}
