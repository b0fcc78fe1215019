#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "examples/slimpack/language.hpp"
#include "examples/slimpack/preset_cost.hpp"
#include "examples/slimpack/retime.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "tests/exec/plans.hpp"
#include "tests/planners/oracle.hpp"

using namespace slimpack;
using command::preset_cost, command::rank_strategy, command::Language;

namespace {

std::vector<std::uint64_t> numbers(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

}  // namespace

TEST_CASE("texts depend on their number alone, and a longer one begins as a shorter one") {
  const Language language(50, 7), other(50, 8);
  const auto texts = language.texts(numbers(3, 4), std::vector<Tokens>{5, 40, 1, 200});
  REQUIRE(texts.size() == 4);
  const auto later = language.texts(numbers(4, 2), std::vector<Tokens>{90, 1});
  CHECK(std::equal(texts[1].begin(), texts[1].end(), later[0].begin()));
  CHECK(later[1][0] == texts[2][0]);
  const auto differ = other.texts(numbers(4, 1), std::vector<Tokens>{90});
  CHECK_FALSE(std::equal(later[0].begin(), later[0].end(), differ[0].begin()));
  for (const std::int32_t id : texts.values()) CHECK((id >= 0 && id < 50));
  CHECK(Language(1, 1).texts(numbers(0, 1), std::vector<Tokens>{9})[0][8] == 0);
  CHECK(Language(1, 1).entropy() == 0.0);
}

TEST_CASE("which words follow each other depends on a text's length, if there are topics") {
  const Language language(1000, 3, 0.0, 3);
  const std::vector<Tokens> lengths{1, 2, 3, 4, 8, 15, 16, 1023, 1024, 8192};
  const auto texts = language.texts(numbers(0, lengths.size()), lengths);
  std::map<std::pair<std::size_t, std::int32_t>, std::int32_t> successor;
  for (std::size_t t = 0; t < lengths.size(); ++t) {
    const std::size_t topic = language.topic_of(lengths[t]);
    CHECK(topic == static_cast<std::size_t>(std::log2(lengths[t])) % 3);
    for (std::size_t i = 1; i < texts[t].size(); ++i)
      CHECK(successor.try_emplace({topic, texts[t][i - 1]}, texts[t][i]).first->second == texts[t][i]);
  }
  CHECK(language.entropy() == 0.0);
}

TEST_CASE("a model that knows all pairs of words reaches the language's entropy") {
  constexpr std::int32_t words = 20;
  for (const double noise : {0.0, 0.1, 0.5, 1.0}) {
    INFO("noise " << noise);
    const Language language(words, 5, noise);
    std::map<std::pair<std::int32_t, std::int32_t>, double> pairs;
    std::map<std::int32_t, double> firsts;
    const auto texts = language.texts(numbers(0, 20), std::vector<Tokens>(20, 20'000));
    double count = 0.0;
    for (std::size_t t = 0; t < texts.size(); ++t) {
      for (std::size_t i = 1; i < texts[t].size(); ++i) {
        ++pairs[{texts[t][i - 1], texts[t][i]}];
        ++firsts[texts[t][i - 1]];
        ++count;
      }
    }
    double surprise = 0.0;
    for (const auto& [pair, n] : pairs) surprise -= n / count * std::log(n / firsts[pair.first]);
    CHECK(surprise == Approx(language.entropy()).margin(0.005));
  }
}

TEST_CASE("ranks have the device's cost, in numbers of their size") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    INFO("round " << round);
    Job job = oracle::random_job(random, 2, 1e9);
    job.layout.tp = job.layout.cp = 1;
    const auto layers = split_layers(job.model.layers, job.layout.pp);
    CHECK(rank_strategy(layers, static_cast<std::size_t>(job.layout.dp)) == layout_strategy(job));
    const std::int32_t group = 1 + static_cast<std::int32_t>(random() % 3);
    const bool heads = all_to_all_possible(job.model, 1, group) && round % 2 == 0;
    const auto exchange = heads ? KeyExchange::all_to_all : KeyExchange::ring;
    const double bytes = round % 3 == 0 ? 2 : round % 3 == 1 ? 4 : 8;
    Device device = job.device;  // of 32-bit numbers; as many 64-bit ones take twice as long
    if (bytes == 8) device.peak_flops /= 2;
    device.memory_bandwidth /= bytes / 2;
    for (Link* link : {&device.intra_node, &device.inter_node, &device.host}) link->bandwidth /= bytes / 2;
    const auto expected = CalibratedCost({job.model, device, job.layout}, {.exchanges = {exchange}})
                              .with_context_parallel(group);
    const auto cost = preset_cost(job.model, job.device, layout_strategy(job), 0, bytes, exchange)
                          .with_context_parallel(group);
    REQUIRE(cost.stages() == layers.size());
    const Tokens begin = random() % 1000, end = begin + 1 + Tokens(random() % 1000);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t s = 0; s < layers.size(); ++s) {
        CHECK(cost.slice_seconds(s, begin, end, pass) ==
              Approx(expected.slice_seconds(s, begin, end, pass)).epsilon(1e-9));
        CHECK(cost.pack_seconds(s, pass) == expected.pack_seconds(s, pass));
        if (s + 1 < layers.size()) {
          CHECK(cost.transfer_seconds(s, end, pass) ==
                Approx(expected.transfer_seconds(s, end, pass)).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE("a plan made with a cost model keeps its durations when it is timed by it again") {
  std::mt19937 random(11);
  int merged = 0, by_heads = 0;
  for (int round = 0; round < 60; ++round) {
    INFO("round " << round);
    Job job = oracle::random_job(random, 1 + round % 4, 1e12);
    job.layout.tp = job.layout.cp = 1;
    const auto lengths = oracle::random_lengths(random, 4 + random() % 20, round % 2 == 0 ? 1 : 2,
                                                round % 2 == 0 ? 3000 : 100'000);
    const auto cost = [&](const Strategy& strategy, std::uint32_t kind, KeyExchange exchange) {
      return preset_cost(job.model, job.device, strategy, kind, 4, exchange);
    };
    const KeyExchange exchange = round % 3 == 0 ? KeyExchange::all_to_all : KeyExchange::ring;
    const Plan plan = plan_slimpack(lengths, job, cost(layout_strategy(job), 0, exchange),
                                    TransformerMemory(job), {.tile = 16});
    const Plan again = command::retimed(plan, plan.model, plan.device, cost);
    CHECK(again.step.seconds == Approx(plan.step.seconds).epsilon(1e-9));
    CHECK(again.step.bubble_ratio == Approx(plan.step.bubble_ratio).margin(1e-9));
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (std::size_t k = 0; k < plan.of(pass).packs.size(); ++k) {
        const bool is_merged = plan.of(pass).pipelines[k].size() > 1;
        merged += is_merged;
        by_heads += is_merged && plan.of(pass).exchange_of(k) == KeyExchange::all_to_all;
        for (std::size_t s = 0; s < plan.of(pass).transfer_seconds[k].size(); ++s)
          CHECK(again.of(pass).transfer_seconds[k][s] ==
                Approx(plan.of(pass).transfer_seconds[k][s]).epsilon(1e-9));
        for (std::size_t s = 0; s < plan.of(pass).seconds[k].size(); ++s)
          CHECK(again.of(pass).seconds[k][s] == Approx(plan.of(pass).seconds[k][s]).epsilon(1e-9));
      }
    }
  }
  CHECK(merged > 20);
  CHECK(by_heads > 20);
}

TEST_CASE("plans of all kinds are valid for another model on another device") {
  const Device cpu = device_preset("cpu");
  slimpack::testing::for_each_plan(20, [&](const Plan& plan) {
    Transformer model = transformer_preset("tiny");
    model.layers = plan.model.layers;
    const auto cost = [&](const Strategy& strategy, std::uint32_t kind, KeyExchange exchange) {
      return preset_cost(model, cpu, strategy, kind, 8, exchange);
    };
    const Plan other = command::retimed(plan, model, cpu, cost);
    CHECK(violations(other) == std::vector<std::string>{});
    CHECK(other.model == model);
    ++model.layers;
    CHECK_THROWS_WITH(command::retimed(plan, model, cpu, cost), Catch::Contains("that the plan is for"));
  });
}
