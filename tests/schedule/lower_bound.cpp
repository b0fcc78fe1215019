#include "slimpack/schedule/lower_bound.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "exact.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"

using namespace slimpack;

namespace {

/// Polynomial costs; merged slices repeat some communication.
struct TinyCost {
  std::size_t number_of_stages = 1;
  double token = 1.0, pair = 0.1, constant = 0.2, latency = 0.1, per_sent_token = 0.05, exchange = 0.1;
  std::int32_t group = 1;

  std::size_t stages() const { return number_of_stages; }
  double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    const double weight = (pass == Pass::forward ? 1.0 : 2.2) * (stage + 1 == number_of_stages ? 1.3 : 1.0);
    const double whole =
        weight * (token * static_cast<double>(end - begin) + pair * twice_causal_pairs(begin, end));
    return group == 1 ? whole : whole / group + exchange;
  }
  double pack_seconds(std::size_t, Pass) const { return constant; }
  double transfer_seconds(Tokens tokens, Pass) const {
    return latency + per_sent_token * static_cast<double>(tokens) / group;
  }
  bool supports_context_parallel(std::int32_t) const { return true; }
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
  // Merging takes half the time where exchange is free, and pays for a long sample beside a short one.
  TinyCost merged = one;
  merged.exchange = 0.0;
  CHECK(exact::shortest_step(std::vector<Tokens>{4, 1}, 2, merged, false) == Approx(4 * 1.3 * 3.2 + 1.0));
  CHECK(exact::shortest_step(std::vector<Tokens>{4, 1}, 2, merged, true) == Approx(2.5 * 1.3 * 3.2 + 1.0));
}

TEST_CASE("lower bound <= exact <= heuristic") {
  std::mt19937 random(31);
  double tightest = 0.0;
  int merging_pays = 0;
  for (int instance = 0; instance < 100; ++instance) {
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
    CHECK(shortest <= local * (1.0 + 1e-12));
    CHECK(local <= heuristic(i, false) * (1.0 + 1e-12));
    merging_pays += shortest < local * 0.99 ? 1 : 0;
  }
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

TEST_CASE("the longest sample's last piece is indivisible") {
  TinyCost cost{.number_of_stages = 3};
  cost.exchange = 1e4;
  const std::vector<Tokens> lengths{50, 1};
  double before = 0.0;
  for (const Tokens tile : {1, 8, 20, 50, 64}) {
    const double bound = step_lower_bound(lengths, 1, cost, tile).sample;
    CHECK(bound >= before * (1 - 1e-12));  // last pieces of 1, 2, 10, 50, 50 tokens
    before = bound;
  }
  // In one piece, the sample passes one stage after the other.
  double chain = 0.0;
  for (std::size_t s = 0; s < 3; ++s) {
    for (const Pass pass : {Pass::forward, Pass::backward})
      chain += cost.slice_seconds(s, 0, 50, pass) + cost.constant;
  }
  const double sent = cost.transfer_seconds(50, Pass::forward);
  CHECK(before == Approx(chain + 4 * sent).epsilon(1e-14));
  CHECK_THROWS_WITH(step_lower_bound(lengths, 1, cost, 0), Catch::Contains("tile is 0"));
}
