#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "github.hpp"
#include "note_of.hpp"
#include "oracle.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/effort.hpp"

using namespace slimpack;
using oracle::github, oracle::llama_13b;
using slimpack::testing::note_of;

// What a plan's notes say is true of the plan.

namespace {

double pack_imbalance(const Plan& plan) {
  const PlanMetrics metrics = plan_metrics(plan);
  return std::max(metrics.max_over_mean_forward, metrics.max_over_mean_backward);
}

/// @returns whether the plan has the note about its packs.
bool check_pack_note(const Plan& plan, const SlimPackOptions& options) {
  const std::string form = "packs are unequal by more than 2 %: ", note = note_of(plan, form);
  CHECK(note.empty() == (pack_imbalance(plan) <= 1.02));
  if (note.empty()) return false;
  CHECK(note.starts_with(form + (options.packs > 0 ? "their number was given"
                                 : !options.asymmetric
                                     ? "backward packs have the boundaries of forward packs"
                                     : "of the candidates tried, the one with the shortest step has "
                                       "unequal packs")));
  const auto tokens = static_cast<std::size_t>(plan_metrics(plan).tokens) / plan.forward.packs.size();
  const std::string coarse = "; boundaries are " + std::to_string(options.tile) +
                             " tokens apart, and packs hold " + std::to_string(tokens) + " tokens on average";
  CHECK(note.ends_with(coarse) == (tokens / 25 <= static_cast<std::size_t>(options.tile)));
  return true;
}

/// @returns whether the plan has the note about the number of packs that was asked for.
bool check_count_note(const Plan& plan, const SlimPackOptions& options) {
  const std::string note = note_of(plan, std::to_string(options.packs) + " packs were asked for; ");
  std::size_t least = options.packs, most = 0;
  bool too_few_tiles = true;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const PassPlan& all = plan.of(pass);
    for (PipelineId p = 0; p < plan.pipelines.size(); ++p) {
      std::size_t packs = 0, tiles = 0;
      for (std::size_t k = 0; k < all.packs.size(); ++k) {
        const auto on = all.pipelines[k];
        if (std::find(on.begin(), on.end(), p) == on.end()) continue;
        ++packs;
        for (const Slice& slice : all.packs[k]) {
          for (Tokens t = slice.begin; t < slice.end; ++t) tiles += t % options.tile == 0 ? 1 : 0;
        }
      }
      least = std::min(least, packs);
      most = std::max(most, packs);
      if (packs < options.packs && tiles >= options.packs) too_few_tiles = false;
    }
  }
  CHECK(note.empty() == (options.packs == 0 || least == options.packs));
  if (note.empty()) return false;
  CHECK(note == std::to_string(options.packs) + " packs were asked for; pipelines have at least " +
                    std::to_string(least) + " and at most " + std::to_string(most) + " in a pass: " +
                    (too_few_tiles
                         ? "samples have too few tiles of " + std::to_string(options.tile) + " tokens"
                         : "equal packs come out in these numbers"));
  return true;
}

}  // namespace

TEST_CASE("notes about balance hold for random batches under all options") {
  int unequal = 0, equal = 0, asked = 0, fewer = 0, plain = 0, busiest = 0;
  for (unsigned seed = 1; seed <= testing::seeds(1100, 400); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    const std::int32_t dp = pick(1, 6);
    const int samples = dp + pick(0, 60), kind = pick(0, 3), longest = pick(0, 1) == 0 ? 1500 : 6000;
    const std::vector<Tokens> lengths =
        oracle::random_lengths(random, static_cast<std::size_t>(samples), kind, longest);
    Job job = oracle::random_job(random, dp, 1e11);
    const MemoryOptions none{.reserve_bytes = 0.0};
    job.device.memory_bytes = TransformerMemory(job, none).static_bytes(0) + 2e7 * std::exp(0.5 * pick(0, 7));
    const CalibratedCost cost(job);
    const TransformerMemory memory(job, none);
    SlimPackOptions options{.tile = pick(0, 1) == 0 ? 1 : 16,
                            .merge = pick(0, 3) > 0,
                            .equal_packs = pick(0, 3) == 0,
                            .packs = pick(0, 2) > 0 ? std::size_t{0} : static_cast<std::size_t>(pick(1, 20))};
    Plan plan;
    try {
      plan = plan_slimpack(lengths, job, cost, memory, options);
    } catch (const InvalidInput&) {
      continue;
    }
    const bool noted = check_pack_note(plan, options);
    ++(noted ? unequal : equal);
    asked += noted && options.packs > 0 ? 1 : 0;
    fewer += check_count_note(plan, options) ? 1 : 0;

    const PlanMetrics metrics = plan_metrics(plan);
    const std::string replicas = note_of(plan, "replicas hold");
    CHECK(replicas.empty() ==
          (metrics.busiest_stage_imbalance <= 1.005 && metrics.replica_imbalance <= 1.005));
    CHECK(replicas.starts_with("replicas hold unequal") == (metrics.busiest_stage_imbalance > 1.005));
    busiest += replicas.starts_with("replicas hold equal work on their busiest stages") ? 1 : 0;
    if (replicas.starts_with("replicas hold unequal work: ")) {
      ++plain;
      CHECK((replicas.find("without merging") != std::string::npos) == !options.merge);
    }
  }
  CAPTURE(unequal, equal, asked, fewer, plain, busiest);
  CHECK(std::min({unequal, equal, asked, fewer, plain, busiest}) > static_cast<int>(testing::seeds(20, 1)));
}

TEST_CASE("where fewer packs would be unequal too, no note promises otherwise") {
  const std::vector<Tokens> lengths = github(64, 262144);
  const Job job = llama_13b(16, 8, 1);
  REQUIRE(check_pack_note(plan_slimpack(lengths, job), {}));
  for (std::size_t packs = 8; packs < 24; ++packs) {
    INFO("packs " << packs);
    CHECK(check_pack_note(plan_slimpack(lengths, job, {.packs = packs}), {.packs = packs}));
  }
}

TEST_CASE("where fewer packs come out than were asked for, a note says how many, and why") {
  const std::vector<Tokens> lengths = github(64, 65536);
  const auto ask = [&](SlimPackOptions options) {
    const Plan plan = plan_slimpack(lengths, llama_13b(4, 8, 1), options);
    check_count_note(plan, options);
    return note_of(plan, std::to_string(options.packs) + " packs were asked for; ");
  };
  CHECK(ask({.packs = 100000}).ends_with("samples have too few tiles of 128 tokens"));
  CHECK(ask({.merge = false, .packs = 64}).empty());
  CHECK(ask({.equal_packs = true, .packs = 200}).empty());

  const std::vector<Tokens> outliers = github(512, 262144);
  int noted = 0;
  for (std::size_t packs = 16; packs < 40; packs += 3) {
    const Plan merged = plan_slimpack(outliers, llama_13b(16, 8, 1), {.packs = packs});
    noted += check_count_note(merged, {.packs = packs}) ? 1 : 0;
  }
  CHECK(noted > 0);
}
