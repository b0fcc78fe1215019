#include "slimpack/cost/priced_models.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/model/presets.hpp"

using namespace slimpack;

namespace {

Job some_job(std::int32_t pp) {
  return {.model = transformer_preset("llama-7b"),
          .device = device_preset("h100"),
          .layout = {.dp = 2, .tp = 4, .cp = 2, .pp = pp}};
}

/// A user's model that prices no recomputation.
struct PlainCost {
  std::size_t count;

  std::size_t stages() const { return count; }
  double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass) const {
    return 1e-6 * static_cast<double>(end - begin);
  }
  double pack_seconds(std::size_t, Pass) const { return 1e-5; }
  double transfer_seconds(std::size_t, Tokens, Pass) const { return 0.0; }
};

}  // namespace

TEST_CASE("wrapped models price and hold what they do themselves, for the ranks of the layout") {
  const Job job = some_job(4);
  const CalibratedCost cost(job);
  const TransformerMemory memory(job);
  const PricedModels with = price_models(job, cost, memory, assumed_attention(job));
  const PricedModels without = price_models(job, cost, memory, NoAttentionModel{});
  CHECK(with.prices.alone().attention() != nullptr);
  CHECK(without.prices.alone().attention() == nullptr);
  for (const PricedModels* models : {&with, &without}) {
    CHECK(models->prices.alone().ranks() == 2);
    REQUIRE(models->prices.alone().stages() == 4);
    REQUIRE(models->memory.stages() == 4);
    for (std::size_t s = 0; s < 4; ++s) {
      CHECK(models->memory.static_bytes(s) == memory.static_bytes(s));
      CHECK(models->memory.recompute_limit(s) == memory.layers()[s]);
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    const auto begin = static_cast<Tokens>(random() % 5000),
               end = begin + static_cast<Tokens>(random() % 5000);
    INFO("tokens " << begin << " to " << end);
    for (std::size_t s = 0; s < 4; ++s) {
      CHECK(without.prices.alone().slice_seconds(s, begin, end, Pass::forward) ==
            Approx(cost.slice_seconds(s, begin, end, Pass::forward)));
    }
  }
}

TEST_CASE("what a model can't price is not used, and models of other pipelines are refused") {
  const Job job = some_job(4);
  const PricedModels plain = price_models(job, PlainCost{4}, TransformerMemory(job), NoAttentionModel{});
  for (std::size_t s = 0; s < 4; ++s) CHECK(plain.memory.recompute_limit(s) == 0);
  CHECK_THROWS_WITH(price_models(job, PlainCost{3}, TransformerMemory(job), NoAttentionModel{}),
                    Catch::Contains("the cost model has 3 stages; expected the 4 of the strategy"));
  CHECK_THROWS_WITH(price_models(some_job(0), PlainCost{4}, TransformerMemory(job), NoAttentionModel{}),
                    Catch::Contains("pp is 0"));
}
