#include "slimpack/schedule/lower_bound.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "exact.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/effort.hpp"

using namespace slimpack;
using slimpack::testing::seeds;

namespace {

/// Polynomial costs, and prices of every slice and of the keys that it reads; merged slices repeat some
/// communication, and may take less in all.
struct TinyCost {
  std::size_t number_of_stages = 1;
  double token = 1.0, pair = 0.1, constant = 0.2, latency = 0.1, per_sent_token = 0.05, exchange = 0.1;
  double slice = 0.0, key = 0.0, merged_share = 1.0;
  std::int32_t group = 1;
  bool merges = true;

  std::size_t stages() const { return number_of_stages; }
  double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    const double weight = (pass == Pass::forward ? 1.0 : 2.2) * (stage + 1 == number_of_stages ? 1.3 : 1.0);
    const double whole = weight * (slice + token * static_cast<double>(end - begin) +
                                   key * static_cast<double>(end) + pair * twice_causal_pairs(begin, end));
    return group == 1 ? whole : merged_share * whole / group + exchange;
  }
  double pack_seconds(std::size_t, Pass) const { return constant; }
  /// The way to an odd stage is longer.
  double transfer_seconds(std::size_t stage, Tokens tokens, Pass) const {
    const double sent = latency + per_sent_token * static_cast<double>(tokens) / group;
    return stage % 2 == 0 ? sent : 0.5 * sent;
  }
  bool supports_context_parallel(std::int32_t) const { return merges; }
  TinyCost with_context_parallel(std::int32_t g) const {
    TinyCost copy = *this;
    copy.group = g;
    return copy;
  }
};

struct Roomy {
  double capacity_bytes() const { return 1e12; }
  double static_bytes(std::size_t) const { return 0.0; }
  double activation_bytes(std::size_t, int) const { return 1.0; }
  double kv_gradient_bytes(std::size_t) const { return 1.0; }
  double workspace_bytes(std::size_t, Pass, Tokens, int) const { return 0.0; }
};

struct Instance {
  std::vector<Tokens> lengths;
  std::size_t pipelines = 1;
  TinyCost cost;
};

/// Up to five tokens on up to two pipelines; on more than two stages, up to four.
Instance random_instance(std::mt19937& random) {
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  std::uniform_real_distribution<double> real(0.0, 1.0);
  Instance i;
  i.pipelines = static_cast<std::size_t>(pick(1, 2));
  i.cost.number_of_stages = static_cast<std::size_t>(pick(1, 3));
  int left = pick(2, i.cost.number_of_stages > 2 ? 4 : 5);
  while (left > 0) {
    const int length = pick(1, left);
    i.lengths.push_back(length);
    left -= length;
  }
  while (i.lengths.size() < i.pipelines) i.lengths.push_back(1);
  i.cost.pair = 0.4 * real(random);
  i.cost.constant = real(random) < 0.3 ? 0.0 : 0.8 * real(random);
  i.cost.latency = 0.3 * real(random);
  i.cost.per_sent_token = 0.2 * real(random);
  i.cost.exchange = 0.3 * real(random);
  if (real(random) < 0.5) {
    i.cost.slice = 0.3 * real(random);
    i.cost.key = 0.2 * real(random);
    i.cost.merged_share = 0.5 + 0.6 * real(random);
  }
  return i;
}

double heuristic(const Instance& i, bool merge) {
  const auto stages = static_cast<std::int32_t>(i.cost.stages());
  const Job job{.model = {"tiny", stages, 64, 4, 2, 16, 160, 500},
                .device = device_preset("h100"),
                .layout = {.dp = static_cast<std::int32_t>(i.pipelines), .pp = stages}};
  double best = exact::infinity;
  for (std::size_t packs = 1; packs <= 4; ++packs) {
    try {
      const Plan plan =
          plan_slimpack(i.lengths, job, i.cost, Roomy{}, {.tile = 1, .merge = merge, .packs = packs});
      CHECK(plan.step.lower_bound_seconds <= plan.step.seconds);
      best = std::min(best, plan.step.pipeline_seconds);
    } catch (const InvalidInput& error) {
      INFO(error.what());
      CHECK(packs == 1);  // merged and local samples need a pack each
    }
  }
  return best;
}

}  // namespace

TEST_CASE("the exact search finds what can be seen by eye") {
  // One stage: the work and the constants of two packs.
  const TinyCost one{.number_of_stages = 1,
                     .token = 1.0,
                     .pair = 0.0,
                     .constant = 0.5,
                     .latency = 0.0,
                     .per_sent_token = 0.0};
  const std::vector<Tokens> lengths{2, 1};
  CHECK(exact::shortest_step(lengths, 1, one, false) == Approx(3 * 1.3 * 3.2 + 2 * 0.5));
  // Free slices on two stages: what is left is to fill and drain around the slower, last stage.
  const TinyCost two{.number_of_stages = 2,
                     .token = 1.0,
                     .pair = 0.0,
                     .constant = 0.0,
                     .latency = 0.0,
                     .per_sent_token = 0.0};
  CHECK(exact::shortest_step(lengths, 1, two, false) == Approx(3 * 1.3 * 3.2 + 3.2));
  // Merging takes half the time where exchange is free, and pays for a long sample next to a short one.
  TinyCost merged = one;
  merged.exchange = 0.0;
  CHECK(exact::shortest_step(std::vector<Tokens>{4, 1}, 2, merged, false) == Approx(4 * 1.3 * 3.2 + 1.0));
  CHECK(exact::shortest_step(std::vector<Tokens>{4, 1}, 2, merged, true) == Approx(2.5 * 1.3 * 3.2 + 1.0));
}

TEST_CASE("lower bound <= exact <= heuristic") {
  std::mt19937 random(31);
  double tightest = 0.0;
  int merging_pays = 0;
  for (unsigned instance = 0; instance < seeds(100, 10); ++instance) {
    const Instance i = random_instance(random);
    INFO("instance " << instance << ": pipelines " << i.pipelines << ", stages " << i.cost.stages()
                     << ", lengths " << Catch::Detail::stringify(i.lengths) << ", pair " << i.cost.pair
                     << ", constant " << i.cost.constant << ", latency " << i.cost.latency << ", exchange "
                     << i.cost.exchange);
    const double bound = step_lower_bound(i.lengths, i.pipelines, i.cost).seconds();
    const double shortest = exact::shortest_step(i.lengths, i.pipelines, i.cost, true);
    CHECK(bound > 0.0);
    CHECK(bound <= shortest * (1.0 + 1e-12));
    CHECK(shortest <= heuristic(i, true) * (1.0 + 1e-12));
    tightest = std::max(tightest, bound / shortest);
    if (i.pipelines == 1) continue;
    const double local = exact::shortest_step(i.lengths, i.pipelines, i.cost, false);
    Instance alone = i;
    alone.cost.merges = false;
    CHECK(step_lower_bound(i.lengths, i.pipelines, alone.cost).seconds() <= local * (1.0 + 1e-12));
    CHECK(shortest <= local * (1.0 + 1e-12));
    CHECK(local <= heuristic(i, false) * (1.0 + 1e-12));
    merging_pays += shortest < local * 0.99 ? 1 : 0;
  }
  if (slimpack::testing::few) return;  // too few instances to meet such cases
  CHECK(tightest > 1.0 - 1e-12);
  CHECK(merging_pays > 10);
}

TEST_CASE("the bound is the work of one stage where there is nothing else") {
  const TinyCost cost{.number_of_stages = 1};
  const std::vector<Tokens> lengths{3, 2};
  const double work =
      cost.slice_seconds(0, 0, 3, Pass::forward) + cost.slice_seconds(0, 0, 3, Pass::backward) +
      cost.slice_seconds(0, 0, 2, Pass::forward) + cost.slice_seconds(0, 0, 2, Pass::backward);
  CHECK(step_lower_bound(lengths, 1, cost).seconds() == Approx(work + 2 * cost.constant).epsilon(1e-14));
}

TEST_CASE("the longest sample bounds the step where it exceeds a pipeline's share") {
  TinyCost cost{.number_of_stages = 1};
  cost.exchange = 1e4;  // merging never pays
  const std::vector<Tokens> lengths{50, 1, 1, 1};
  const StepLowerBound bound = step_lower_bound(lengths, 4, cost);
  const double chain =
      cost.slice_seconds(0, 0, 50, Pass::forward) + cost.slice_seconds(0, 0, 50, Pass::backward);
  CHECK(bound.sample == Approx(chain + 2 * cost.constant).epsilon(1e-14));
  CHECK(bound.sample > 2.0 * bound.work);
  cost.exchange = 0.0;
  CHECK(step_lower_bound(lengths, 4, cost).sample <= bound.sample / 2.0);
}

TEST_CASE("the longest sample passes all stages in one pack, or takes the constants of two") {
  TinyCost cost{.number_of_stages = 3};
  const std::vector<Tokens> lengths{50};
  const auto seconds = [&](Pass pass, std::size_t s, Tokens begin, Tokens end) {
    return cost.slice_seconds(s, begin, end, pass) + cost.constant;
  };
  const auto sent = [&](Tokens tokens) {
    return cost.transfer_seconds(0, tokens, Pass::forward) + cost.transfer_seconds(1, tokens, Pass::forward);
  };
  // The last stage is the slowest: only the first token's way to it, and back, does not overlap with its work.
  double chain = 0.0;
  for (const Pass pass : {Pass::forward, Pass::backward})
    chain +=
        seconds(pass, 0, 0, 1) + seconds(pass, 1, 0, 1) + sent(1) + seconds(pass, 2, 0, 50) + cost.constant;
  CHECK(step_lower_bound(lengths, 1, cost).sample == Approx(chain).epsilon(1e-14));
  // Where a second pack costs more than that saves, the sample goes in one.
  cost.constant = 1e4;
  double whole = 0.0;
  for (std::size_t s = 0; s < 3; ++s) {
    for (const Pass pass : {Pass::forward, Pass::backward}) whole += seconds(pass, s, 0, 50);
  }
  CHECK(step_lower_bound(lengths, 1, cost).sample == Approx(whole + 2 * sent(50)).epsilon(1e-14));
}

TEST_CASE("samples that can't be merged are whole") {
  TinyCost cost{.number_of_stages = 1};
  cost.merges = false;
  const std::vector<Tokens> lengths{9, 9, 9};
  const double sample =
      cost.slice_seconds(0, 0, 9, Pass::forward) + cost.slice_seconds(0, 0, 9, Pass::backward);
  CHECK(step_lower_bound(lengths, 2, cost).work == Approx(2 * sample + 2 * cost.constant).epsilon(1e-14));
  cost.merges = true;
  cost.exchange = 0.0;
  CHECK(step_lower_bound(lengths, 2, cost).work == Approx(1.5 * sample + 2 * cost.constant).epsilon(1e-14));
}

TEST_CASE("merging that saves work counts with what it saves") {
  TinyCost cost{.number_of_stages = 1};
  cost.exchange = 0.0;
  std::vector<Tokens> lengths;
  for (Tokens length = 1; length < 400; length += 3) lengths.push_back(length);
  const double alone = step_lower_bound(lengths, 4, cost).work - 2 * cost.constant;
  cost.merged_share = 0.7;
  CHECK(step_lower_bound(lengths, 4, cost).work == Approx(0.7 * alone + 2 * cost.constant).epsilon(1e-12));
  cost.merged_share = 1.3;
  CHECK(step_lower_bound(lengths, 4, cost).work == Approx(alone + 2 * cost.constant).epsilon(1e-12));
}

TEST_CASE("a model that prices whole samples above their parts has no bound") {
  struct Cheaper : TinyCost {
    double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass) const {
      const auto tokens = static_cast<double>(end - begin);
      return tokens * tokens;
    }
    Cheaper with_context_parallel(std::int32_t) const { return *this; }
  };
  const std::vector<Tokens> lengths{50, 7};
  const StepLowerBound bound = step_lower_bound(lengths, 1, Cheaper{});
  CHECK_FALSE(bound.exists);
  CHECK(bound.seconds() == 0.0);
  CHECK(step_lower_bound(lengths, 1, TinyCost{}).exists);
  CHECK(step_lower_bound(std::vector<Tokens>{}, 1, TinyCost{}).seconds() == 0.0);
}

TEST_CASE("fewer samples than pipelines") {
  TinyCost cost{.number_of_stages = 2};
  cost.exchange = 1e4;
  const std::vector<Tokens> lengths{30};
  const StepLowerBound one = step_lower_bound(lengths, 1, cost), many = step_lower_bound(lengths, 8, cost);
  CHECK(many.sample == one.sample);
  CHECK(many.work < one.work);
}

TEST_CASE("one sample, coarse tiles: the bound holds for finer ones") {
  const std::vector<Tokens> lengths{120};
  const Job job{.model = transformer_preset("llama-32b"),
                .device = device_preset("h100"),
                .layout = {.tp = 4, .pp = 12}};
  const Plan coarse = plan_slimpack(lengths, job), fine = plan_slimpack(lengths, job, {.tile = 1});
  CHECK(coarse.step.lower_bound_seconds > 0.0);
  CHECK(coarse.step.lower_bound_seconds <= fine.step.seconds);
  CHECK(coarse.step.lower_bound_seconds == fine.step.lower_bound_seconds);
}

namespace {

struct NamedPlan {
  std::string name;
  Plan plan;
};

/// Plans of one batch on equal pipelines under the same prices. Options under which nothing fits give none.
std::vector<NamedPlan> all_plans(std::span<const Tokens> lengths, const Job& job) {
  std::vector<NamedPlan> plans;
  const auto add = [&](const std::string& name, const auto& make) {
    try {
      plans.push_back({name, make()});
    } catch (const InvalidInput&) {
    }
  };
  for (const Tokens tile : {1, 2, 7, 128, 1024, 4096}) {
    for (const bool free : {true, false}) {
      add(concat("tile ", tile, free ? "" : ", unmerged and symmetric"),
          [&] { return plan_slimpack(lengths, job, {.tile = tile, .asymmetric = free, .merge = free}); });
    }
  }
  for (const std::size_t packs : {1U, 2U, 5U, 33U})
    add(concat(packs, " packs"), [&] { return plan_slimpack(lengths, job, {.tile = 1, .packs = packs}); });
  add("megatron", [&] {
    Plan plan = plan_megatron(lengths, job);
    require(plan.pipelines.size() == static_cast<std::size_t>(job.layout.dp), "other pipelines");
    return plan;
  });
  return plans;
}

}  // namespace

TEST_CASE("the bound of one plan is no longer than the step of any other on equal pipelines") {
  const unsigned seed = 16;
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  for (int setting = 0; setting < static_cast<int>(seeds(40, 6)); ++setting) {
    const char* const models[] = {"llama-7b", "llama-13b", "llama-32b", "tiny"};
    Job job{.model = transformer_preset(models[pick(0, 3)]),
            .device = device_preset(pick(0, 1) == 0 ? "h200" : "a100"),
            .layout = {.dp = 1 << pick(0, 3), .tp = 1 << pick(0, 1), .cp = 1 << pick(0, 2), .pp = 1}};
    job.layout.pp = std::min(job.model.layers, pick(1, 12));
    std::vector<Tokens> lengths(static_cast<std::size_t>(job.layout.dp + pick(0, 20)));
    for (Tokens& length : lengths) length = static_cast<Tokens>(std::exp2(pick(0, 160) / 10.0));
    const std::vector<NamedPlan> plans = all_plans(lengths, job);
    for (const NamedPlan& bound : plans) {
      for (const NamedPlan& step : plans) {
        INFO("seed " << seed << ", setting " << setting << ": " << job.model.name << " on " << job.device.name
                     << ", dp " << job.layout.dp << " tp " << job.layout.tp << " cp " << job.layout.cp
                     << " pp " << job.layout.pp << ", lengths " << Catch::Detail::stringify(lengths)
                     << "; bound of " << bound.name << ", step of " << step.name);
        CHECK(bound.plan.step.lower_bound_seconds > 0.0);
        CHECK(bound.plan.step.lower_bound_seconds <= step.plan.step.seconds * (1.0 + 1e-9));
      }
    }
  }
}
