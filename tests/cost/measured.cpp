#include "slimpack/cost/measured.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "tests/cost/random_profile.hpp"

#ifdef SLIMPACK_TEST_EIGEN
#include "slimpack/cost/profile_fit.hpp"
#endif

using namespace slimpack;
using slimpack::testing::gpu_machine, slimpack::testing::machine, slimpack::testing::profiled_model;

static_assert(CostModel<MeasuredCost>);
static_assert(PolynomialCostModel<MeasuredCost>);
static_assert(LayeredCostModel<MeasuredCost>);
static_assert(ExchangingCostModel<MeasuredCost>);
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
    for (std::size_t stage = 0; stage < 3; ++stage) {
      double recompute = recompute_pack_seconds(cost, stage);
      for (const Slice& slice : slices) recompute += cost.recompute_seconds(stage, slice.begin, slice.end);
      CHECK(recompute == Approx(p.recompute.seconds(slices)).epsilon(1e-12));
      CHECK(cost.recompute_coefficients(stage).seconds(300, 512) ==
            Approx(cost.recompute_seconds(stage, 300, 512)).epsilon(1e-12));
    }
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t stage = 0; stage < 3; ++stage) {
        const double whole = cost.slice_seconds(stage, 7, 4000, pass);
        CHECK(cost.slice_seconds(stage, 7, 900, pass) + cost.slice_seconds(stage, 900, 4000, pass) >=
              whole * (1 - 1e-12));
        CHECK(cost.coefficients(stage, pass).seconds(7, 4000) == Approx(whole).epsilon(1e-12));
      }
      CHECK(cost.slice_seconds(0, 9, 9, pass) == 0.0);
      CHECK(cost.coefficients(0, pass).splits_for_free() == (seed % 2 == 1));
    }
    CHECK(cost.transfer_seconds(1, 1000, Pass::backward) == Approx(2e-6 + 1000 * 64 * 4 / 1e9));
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
    const std::vector<std::int32_t> layers{2, 3};
    const MeasuredCost one(p, profiled_model(), layers);
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
              Approx(whole(Pass::backward) + layers[s] * backward).epsilon(1e-9));
        CHECK(merged.recompute_seconds(s, begin, end) ==
              Approx((p.recompute.per_token * 1000 +
                      p.recompute.per_twice_pair * twice_causal_pairs(begin, end)) /
                         g +
                     p.recompute.per_slice + p.recompute.per_key * keys + forward)
                  .epsilon(1e-9));
        CHECK(merged.pack_seconds(s, Pass::forward) == one.pack_seconds(s, Pass::forward));
        CHECK(g * merged.slice_seconds(s, begin, end, Pass::forward) >=
              one.slice_seconds(s, begin, end, Pass::forward) * (1 - 1e-12));
      }
      CHECK(merged.transfer_seconds(0, 999, Pass::forward) == Approx(2e-6 + 999 * 64 * 4 / 1e9 / g));
      CHECK(merged.is_polynomial());
      CHECK_FALSE(merged.coefficients(0, Pass::forward).splits_for_free());
      const MeasuredCost twice = merged.with_context_parallel(2);
      CHECK(twice.slice_seconds(1, 5, 90, Pass::backward) ==
            one.with_context_parallel(2 * g).slice_seconds(1, 5, 90, Pass::backward));
    }
    CHECK(one.with_context_parallel(1).coefficients(0, Pass::backward).splits_for_free() == !slices);
    CHECK(one.supports_context_parallel(5));
    CHECK_FALSE(one.supports_context_parallel(0));
    CHECK_THROWS_WITH(one.with_context_parallel(0), Catch::Contains("group is 0"));
  }
}

TEST_CASE("members that share heads exchange their tokens' numbers") {
  const Profile p = machine(8, true);
  const std::vector<std::int32_t> layers{5};
  const MeasuredCost one(p, profiled_model(), layers, {.exchange = KeyExchange::all_to_all});
  const MeasuredCost merged = one.with_context_parallel(2);
  const double number = 4 / 1e9 / 2 / 2, latency = 2e-6;  // a half of a half of the tokens
  const double pairs = twice_causal_pairs(300, 500);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const PackRates& r = one.rates(0, pass);
    const double q = 4 * 16, kv = 2 * 2 * 16, lse = 4;
    const double forward = 200 * number * (2 * q + kv + lse), backward = 200 * number * (4 * q + kv + lse);
    const double moved = 5 * (pass == Pass::forward ? forward : backward);
    const double messages = pass == Pass::forward ? 25 : 35;
    CHECK(merged.slice_seconds(0, 300, 500, pass) ==
          Approx(r.per_slice + (r.per_key * 500 + r.per_token * 200 + r.per_twice_pair * pairs) / 2 + moved)
              .epsilon(1e-9));
    CHECK(merged.pack_seconds(0, pass) == Approx(r.per_pack + messages * latency).epsilon(1e-9));
  }
  // What is recomputed has its keys: queries, and back outputs with their log-sum-exps.
  const PackRates& r = p.recompute;
  CHECK(merged.recompute_seconds(0, 300, 500) ==
        Approx(r.per_slice + (r.per_key * 500 + r.per_token * 200 + r.per_twice_pair * pairs) / 2 +
               200 * number * (2 * 4 * 16 + 4))
            .epsilon(1e-9));
  CHECK(merged.recompute_pack_seconds(0) == Approx(r.per_pack + 3 * latency).epsilon(1e-9));
  CHECK(one.exchanges() == ExchangeSet{KeyExchange::all_to_all});
  CHECK_THROWS_WITH(one.with_exchange(KeyExchange::ring), Catch::Contains("is ring; expected all_to_all"));
  CHECK(one.supports_context_parallel(2));
  CHECK_FALSE(one.supports_context_parallel(4));
  CHECK_FALSE(merged.supports_context_parallel(2));
  CHECK_THROWS_WITH(one.with_context_parallel(4), Catch::Contains("is 4; expected a divisor of the 2"));
  CHECK_THROWS_WITH(MeasuredCost(p, profiled_model(), layers, {.exchange = KeyExchange::all_gather}),
                    Catch::Contains("is all_gather; expected ring or all_to_all"));
}

TEST_CASE("on GPUs rows are of 2 bytes a number, weights and log-sum-exps of 4") {
  const Profile p = gpu_machine(3);
  const std::vector<std::int32_t> layers{5};
  const MeasuredCost cost(p, profiled_model(), layers, {.replicas = 2, .exchange = KeyExchange::all_to_all});
  CHECK(cost.transfer_seconds(0, 100, Pass::forward) == Approx(2e-6 + 100 * 64 * 2 / 1e9));
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
}

TEST_CASE("context ranks of a pipeline are members of all of its packs") {
  const Profile p = machine(3, true);
  const Transformer model = profiled_model();
  const std::vector<std::int32_t> layers{2, 3};
  const PipelineSpec spec{.tp = 1, .cp = 3, .layers = layers, .devices = {{0, 1, 2}, {3, 4, 5}}};
  const MeasuredCost shared(p, model, spec, {.replicas = 2}), alone(p, model, layers);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    CHECK(shared.slice_seconds(1, 100, 900, pass) ==
          alone.with_context_parallel(3).slice_seconds(1, 100, 900, pass));
    CHECK(shared.with_context_parallel(2).slice_seconds(1, 100, 900, pass) ==
          alone.with_context_parallel(6).slice_seconds(1, 100, 900, pass));
    CHECK(shared.transfer_seconds(0, 900, pass) ==
          alone.with_context_parallel(3).transfer_seconds(0, 900, pass));
  }
  CHECK(shared.sync_seconds() == MeasuredCost(p, model, layers, {.replicas = 6}).sync_seconds());
  CHECK_THROWS_WITH(MeasuredCost(p, model, spec, {.exchange = KeyExchange::all_to_all}),
                    Catch::Contains("is 3; expected a divisor of the 2"));
  PipelineSpec tensors = spec;
  tensors.tp = 3;
  tensors.cp = 1;
  CHECK_THROWS_WITH(MeasuredCost(p, model, tensors), Catch::Contains("tp is 3; expected 1"));
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
