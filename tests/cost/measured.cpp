#include "slimpack/cost/measured.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "slimpack/cost/inverse.hpp"
#include "slimpack/cost/packs.hpp"
#include "tests/cost/random_profile.hpp"

#ifdef SLIMPACK_TEST_EIGEN
#include "slimpack/cost/profile_fit.hpp"
#endif

using namespace slimpack;
using slimpack::testing::gpu_machine, slimpack::testing::machine, slimpack::testing::profiled_model;

static_assert(CostModel<MeasuredCost>);
static_assert(QuadraticCostModel<MeasuredCost>);
static_assert(RecomputingCostModel<MeasuredCost>);
static_assert(MergeableCostModel<MeasuredCost>);

TEST_CASE("a measured stage costs what its layers, its ends and its recomputation cost") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const Profile p = machine(seed, seed % 2 == 0);
    const std::vector<std::int32_t> layers{2, 0, 3};
    const MeasuredCost cost(p, profiled_model(), layers);
    const Slice slices[] = {{0, 0, 100}, {1, 300, 512}};
    const auto sum = [&](const MeasuredCost& of, std::size_t stage, Pass pass) {
      double seconds = of.pack_seconds(stage, pass);
      for (const Slice& s : slices) seconds += of.slice_seconds(stage, s.begin, s.end, pass);
      return seconds;
    };
    CHECK(sum(cost, 0, Pass::forward) ==
          Approx(p.forward.stage.seconds(slices) + 2 * p.forward.layer.seconds(slices) +
                 p.forward.first.seconds(slices))
              .epsilon(1e-12));
    CHECK(sum(cost, 1, Pass::backward) == Approx(p.backward.stage.seconds(slices)).epsilon(1e-12));
    CHECK(sum(cost, 2, Pass::forward) ==
          Approx(p.forward.stage.seconds(slices) + 3 * p.forward.layer.seconds(slices) +
                 p.forward.last.seconds(slices))
              .epsilon(1e-12));
    const MeasuredCost again = cost.with_recompute(std::vector<std::int32_t>{0, 0, 2});
    CHECK(sum(again, 2, Pass::backward) - sum(cost, 2, Pass::backward) ==
          Approx(2 * p.recompute.seconds(slices)).epsilon(1e-9));
    CHECK(sum(again, 2, Pass::forward) == sum(cost, 2, Pass::forward));
    CHECK(sum(again, 0, Pass::backward) == sum(cost, 0, Pass::backward));
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      double pipeline = 0.0;
      for (std::size_t s = 0; s < 3; ++s) pipeline += cost.slice_seconds(s, 7, 4000, pass);
      CHECK(cost.pipeline_seconds(7, 4000, pass) == Approx(pipeline).epsilon(1e-12));
      CHECK(cost.pipeline_seconds(7, 900, pass) + cost.pipeline_seconds(900, 4000, pass) >=
            pipeline * (1 - 1e-12));
      CHECK(cost.slice_seconds(0, 9, 9, pass) == 0.0);
    }
    CHECK(cost.is_quadratic() == (seed % 2 == 1));
    CHECK(cost.transfer_seconds(1000, Pass::backward) == Approx(2e-6 + 1000 * 64 * 4 / 1e9));
  }
}

TEST_CASE("budgets invert with and without prices of slices") {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const std::vector<std::int32_t> layers{3, 2};
    const MeasuredCost cost(machine(static_cast<unsigned>(i), i % 4 < 2), profiled_model(), layers);
    const Pass pass = i % 2 == 0 ? Pass::forward : Pass::backward;
    const Tokens length = std::uniform_int_distribution<Tokens>(1, 100000)(random);
    const Tokens at = std::uniform_int_distribution<Tokens>(0, length)(random);
    const double budget =
        cost.pipeline_seconds(0, length, pass) * std::uniform_real_distribution<double>(0.0, 1.1)(random);
    INFO("case " << i << ": " << at << " of " << length << " within " << budget);
    const Tokens end = longest_slice(cost, at, length, budget, pass);
    CHECK(cost.pipeline_seconds(at, end, pass) <= budget);
    CHECK((end == length || cost.pipeline_seconds(at, end + 1, pass) > budget));
    const Tokens begin = longest_slice_before(cost, at, 0, budget, pass);
    CHECK(cost.pipeline_seconds(begin, at, pass) <= budget);
    CHECK((begin == 0 || cost.pipeline_seconds(begin - 1, at, pass) > budget));
  }
}

TEST_CASE("a step ends with the exchange of gradients and the optimiser of the slowest stage") {
  const std::vector<std::int32_t> layers{5};
  const Profile p = machine(1, true);
  const double weights = parameters(profiled_model());
  CHECK(MeasuredCost(p, profiled_model(), layers).sync_seconds() == Approx(weights * 1e-9));
  CHECK(MeasuredCost(p, profiled_model(), layers, {.replicas = 4}).sync_seconds() ==
        Approx(6 * (2e-6 + weights / 4 * 4 / 1e9) + weights / 4 * 1e-9));
  CHECK(MeasuredCost(p, profiled_model(), layers, {.replicas = 4, .shard_optimiser = false}).sync_seconds() ==
        Approx(6 * (2e-6 + weights / 4 * 4 / 1e9) + weights * 1e-9));
}

TEST_CASE("members share tokens and pairs, and pass keys and values on") {
  for (const bool slices : {false, true}) {
    const Profile p = machine(7, slices);
    const std::vector<std::int32_t> layers{2, 3}, again{1, 0};
    const MeasuredCost one = MeasuredCost(p, profiled_model(), layers).with_recompute(again);
    const Tokens begin = 3000, end = 4000;
    const double key = 2.0 * 2 * 16 * 4 / 1e9, latency = 2e-6, keys = 4000.0;
    for (const std::int32_t g : {2, 3, 6}) {
      const MeasuredCost merged = one.with_context_parallel(g);
      const double rounds = g - 1;
      for (const std::size_t s : {std::size_t{0}, std::size_t{1}}) {
        const auto whole = [&](Pass pass) {
          const PackRates& r = one.rates(s, pass);
          const double shared = r.per_token * 1000 + r.per_twice_pair * twice_causal_pairs(begin, end);
          return shared / g + r.per_slice + r.per_key * keys;
        };
        const double forward = rounds * (latency + key * keys / g);
        const double backward = rounds * (latency + 2 * key * keys / g) + latency + key * keys / g;
        CHECK(merged.slice_seconds(s, begin, end, Pass::forward) ==
              Approx(whole(Pass::forward) + layers[s] * forward).epsilon(1e-9));
        CHECK(merged.slice_seconds(s, begin, end, Pass::backward) ==
              Approx(whole(Pass::backward) + layers[s] * backward + again[s] * forward).epsilon(1e-9));
        CHECK(merged.pack_seconds(s, Pass::forward) == one.pack_seconds(s, Pass::forward));
        CHECK(g * merged.slice_seconds(s, begin, end, Pass::forward) >=
              one.slice_seconds(s, begin, end, Pass::forward) * (1 - 1e-12));
      }
      CHECK(merged.transfer_seconds(999, Pass::forward) == Approx(2e-6 + 999 * 64 * 4 / 1e9 / g));
      CHECK_FALSE(merged.is_quadratic());
      const MeasuredCost twice = merged.with_context_parallel(2);
      CHECK(twice.slice_seconds(1, 5, 90, Pass::backward) ==
            one.with_context_parallel(2 * g).slice_seconds(1, 5, 90, Pass::backward));
    }
    CHECK(one.with_context_parallel(1).is_quadratic() == !slices);
    CHECK(one.supports_context_parallel(5));
    CHECK_FALSE(one.supports_context_parallel(0));
    CHECK_THROWS_WITH(one.with_context_parallel(0), Catch::Contains("group is 0"));
  }
}

TEST_CASE("members that share heads exchange their tokens' numbers") {
  const Profile p = machine(8, true);
  const std::vector<std::int32_t> layers{5}, again{2};
  const MeasuredCost one =
      MeasuredCost(p, profiled_model(), layers, {.exchange = ContextExchange::ulysses}).with_recompute(again);
  const MeasuredCost merged = one.with_context_parallel(2);
  const double number = 4 / 1e9 / 2 / 2, latency = 2e-6;  // a half of a half of the tokens
  const double pairs = twice_causal_pairs(300, 500);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const PackRates& r = one.rates(0, pass);
    const double q = 4 * 16, kv = 2 * 2 * 16, lse = 4;
    const double forward = 200 * number * (2 * q + kv + lse), backward = 200 * number * (4 * q + kv + lse),
                 recompute = 200 * number * (2 * q + lse);
    const double moved = pass == Pass::forward ? 5 * forward : 5 * backward + 2 * recompute;
    const double messages = pass == Pass::forward ? 25 : 35 + 6;
    CHECK(merged.slice_seconds(0, 300, 500, pass) ==
          Approx(r.per_slice + (r.per_key * 500 + r.per_token * 200 + r.per_twice_pair * pairs) / 2 + moved)
              .epsilon(1e-9));
    CHECK(merged.pack_seconds(0, pass) == Approx(r.per_pack + messages * latency).epsilon(1e-9));
  }
  CHECK(one.supports_context_parallel(2));
  CHECK_FALSE(one.supports_context_parallel(4));
  CHECK_FALSE(merged.supports_context_parallel(2));
  CHECK_THROWS_WITH(one.with_context_parallel(4), Catch::Contains("is 4; expected a divisor of the 2"));
  CHECK_THROWS_WITH(MeasuredCost(p, profiled_model(), layers, {.exchange = ContextExchange::cheapest}),
                    Catch::Contains("expected ring or ulysses"));
}

TEST_CASE("on GPUs rows are of 2 bytes a number, weights and log-sum-exps of 4") {
  const Profile p = gpu_machine(3);
  const std::vector<std::int32_t> layers{5};
  const MeasuredCost cost(p, profiled_model(), layers, {.replicas = 2, .exchange = ContextExchange::ulysses});
  CHECK(cost.transfer_seconds(100, Pass::forward) == Approx(2e-6 + 100 * 64 * 2 / 1e9));
  const double weights = parameters(profiled_model());
  CHECK(cost.sync_seconds() == Approx(2 * (2e-6 + weights / 2 * 4 / 1e9) + weights / 2 * 1e-9));
  const MeasuredCost merged = cost.with_context_parallel(2);
  const double q = 4 * 16, kv = 2 * 2 * 16, lse = 4;
  CHECK(merged.rates(0, Pass::forward).per_token ==
        Approx(cost.rates(0, Pass::forward).per_token / 2 + 5 * (2 * (2 * q + kv) + 4 * lse) / 1e9 / 2 / 2));
  CHECK(merged.rates(0, Pass::backward).per_token ==
        Approx(cost.rates(0, Pass::backward).per_token / 2 + 5 * (2 * (3 * q + kv) + 8 * lse) / 1e9 / 2 / 2));
  for (const Pass pass : {Pass::forward, Pass::backward})
    CHECK(merged.pack_seconds(0, pass) == Approx(cost.pack_seconds(0, pass) + 5 * 2 * 2e-6));
}

TEST_CASE("in a ring of GPUs gradients go home in float from each round") {
  const Profile p = gpu_machine(3);
  const std::vector<std::int32_t> layers{5};
  const MeasuredCost cost(p, profiled_model(), layers, {.replicas = 3});
  const MeasuredCost merged = cost.with_context_parallel(3);
  const double kv = 2 * 2 * 16;  // numbers of a key and a value
  CHECK(merged.rates(0, Pass::forward).per_key ==
        Approx(cost.rates(0, Pass::forward).per_key + 5 * 2 * kv * 2 / 1e9 / 3));
  CHECK(merged.rates(0, Pass::backward).per_key ==
        Approx(cost.rates(0, Pass::backward).per_key + 5 * 2 * kv * (2 + 4) / 1e9 / 3));
  CHECK(merged.rates(0, Pass::forward).per_slice ==
        Approx(cost.rates(0, Pass::forward).per_slice + 5 * 2 * 2e-6));
  CHECK(merged.rates(0, Pass::backward).per_slice ==
        Approx(cost.rates(0, Pass::backward).per_slice + 5 * 4 * 2e-6));
}

TEST_CASE("attention's share of a peak is what a layer's pairs take") {
  Profile p = gpu_machine(1);
  p.forward.layer.per_twice_pair = 2.0 * 4 * 16 / 6e14;
  p.backward.layer.per_twice_pair = 5.0 * 4 * 16 / 5e14;
  CHECK(attention_share(p, Pass::forward, 8e14) == Approx(0.75));
  CHECK(attention_share(p, Pass::backward, 8e14) == Approx(0.625));
  p.backward.layer.per_twice_pair = 0.0;
  CHECK(attention_share(p, Pass::backward, 8e14) == 0.0);
}

TEST_CASE("profiles that do not fit are refused") {
  const std::vector<std::int32_t> layers{3, 2};
  const Profile good = machine(1, true);
  Transformer other = profiled_model();
  other.ffn = 100;
  CHECK_THROWS_WITH(MeasuredCost(good, other, layers), Catch::Contains("ffn 96, but model 'tiny' has 100"));
  other = profiled_model();
  other.layers = 7;
  CHECK_THROWS_WITH(MeasuredCost(good, other, layers), Catch::Contains("5 layers; expected the 7"));
  CHECK_NOTHROW(MeasuredCost(good, other, std::vector<std::int32_t>{3, 4}));
  Profile bad = good;
  bad.backward.last.per_key = -1e-9;
  CHECK_THROWS_WITH(MeasuredCost(bad, profiled_model(), layers),
                    Catch::Contains("backward.last.per_key is -1e-09"));
  bad = good;
  bad.recompute.per_pack = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH(MeasuredCost(bad, profiled_model(), layers),
                    Catch::Contains("recompute.per_pack is nan"));
  bad = good;
  bad.forward.layer.per_token = 0.0;
  CHECK_THROWS_WITH(MeasuredCost(bad, profiled_model(), layers),
                    Catch::Contains("forward.layer.per_token is 0"));
  bad = good;
  bad.transfer.bandwidth = 0.0;
  CHECK_THROWS_WITH(MeasuredCost(bad, profiled_model(), layers), Catch::Contains("transfer.bandwidth is 0"));
  CHECK_THROWS_WITH(MeasuredCost(good, profiled_model(), layers, {.replicas = 0}),
                    Catch::Contains("replicas is 0"));
  const MeasuredCost cost(good, profiled_model(), layers);
  CHECK_THROWS_WITH(cost.with_recompute(std::vector<std::int32_t>{4, 0}),
                    Catch::Contains("stage 0 is 4; expected 0 to 3"));
  CHECK_THROWS_WITH(cost.with_recompute(std::vector<std::int32_t>{4}), Catch::Contains("expected 2"));
}

#ifdef SLIMPACK_TEST_EIGEN
namespace {

/// Tasks on all kinds of stages, priced by a machine.
std::vector<MeasuredTask> tasks(const Profile& machine, unsigned seed, double noise) {
  std::mt19937 random(seed);
  std::normal_distribution<double> error(1.0, std::max(noise, 1e-12));
  std::vector<MeasuredTask> out;
  for (int i = 0; i < 200; ++i) {
    MeasuredTask task{.pass = i % 2 == 0 ? Pass::forward : Pass::backward,
                      .layers = 1 + i / 2 % 3,
                      .first = i % 7 == 0 || i % 7 == 1,
                      .last = i % 5 == 0 || i % 5 == 1};
    if (i % 2 == 1) task.recompute_layers = i / 6 % (task.layers + 1);
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      const Tokens begin = random() % 3 == 0 ? 0 : Tokens(random() % 4000);
      task.slices.push_back({0, begin, begin + 1 + Tokens(random() % 1000)});
    }
    task.seconds = predicted_seconds(machine, task) * (noise > 0.0 ? error(random) : 1.0);
    out.push_back(std::move(task));
  }
  return out;
}

}  // namespace

TEST_CASE("a fit recovers a machine's constants") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const Profile truth = machine(seed, seed % 3 != 0);
    Profile found;
    fit_tasks(tasks(truth, seed, 0.0), found);
    const auto same = [&](const PackRates& a, const PackRates& b) {
      const double to[] = {a.per_pack, a.per_slice, a.per_key, a.per_token, a.per_twice_pair};
      std::size_t i = 0;
      visit_rates(b, [&](const char* name, double value) {
        INFO(name);
        CHECK(to[i] == Approx(value).epsilon(1e-6).margin(1e-15));
        ++i;
      });
    };
    visit_parts(truth.forward, [&](const char* name, const PackRates& rates) {
      INFO("forward " << name);
      visit_parts(found.forward, [&](const std::string& other, const PackRates& r) {
        if (other == name) same(r, rates);
      });
    });
    visit_parts(truth.backward, [&](const char* name, const PackRates& rates) {
      INFO("backward " << name);
      visit_parts(found.backward, [&](const std::string& other, const PackRates& r) {
        if (other == name) same(r, rates);
      });
    });
    same(found.recompute, truth.recompute);
    CHECK(found.fit.worst < 1e-9);
    CHECK(found.fit.tasks == 200);
  }
}

TEST_CASE("a fit of noisy times predicts others and has no negative rate") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const Profile truth = machine(seed, true);
    Profile found = truth;
    fit_tasks(tasks(truth, seed, 0.05), found);
    CHECK_NOTHROW(validate(found));
    CHECK(found.fit.median > 0.005);
    CHECK(found.fit.median < 0.08);
    CHECK(found.fit.worst >= found.fit.median);
    CHECK(prediction_error(found, tasks(truth, seed + 100, 0.0)).median < 0.05);
  }
}

TEST_CASE("measurements that say too little are refused") {
  Profile found;
  const MeasuredTask forward{.layers = 1, .slices = {{0, 0, 5}}, .seconds = 1.0};
  MeasuredTask backward = forward;
  backward.pass = Pass::backward;
  CHECK_THROWS_WITH(fit_tasks(std::vector{forward}, found), Catch::Contains("no measured backward tasks"));
  CHECK_THROWS_WITH(fit_tasks(std::vector{backward}, found), Catch::Contains("no measured forward tasks"));
  CHECK_NOTHROW(fit_tasks(std::vector{forward, backward}, found));
  backward.seconds = 0.0;
  CHECK_THROWS_WITH(fit_tasks(std::vector{forward, backward}, found),
                    Catch::Contains("measured task 1 has 0 seconds"));
  backward.seconds = 1.0;
  backward.slices[0].end = 0;
  CHECK_THROWS_WITH(fit_tasks(std::vector{forward, backward}, found), Catch::Contains("slice [0, 0)"));
}
#endif
