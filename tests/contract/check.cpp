#include "slimpack/cost/check.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/priced_models.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/hotspa.hpp"
#include "slimpack/planners/hydraulis.hpp"
#include "slimpack/planners/micro_batches.hpp"
#include "slimpack/planners/slimpack.hpp"

using namespace slimpack;

namespace {

Job job() { return {transformer_preset("llama-13b"), device_preset("h100"), {.dp = 2, .tp = 8, .pp = 4}}; }

/// The least that a user may write.
struct Least {
  std::size_t count = 4;
  double slice = 1e-6, transfer = 1e-6;

  std::size_t stages() const { return count; }
  double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass) const {
    return slice * double(end - begin);
  }
  double pack_seconds(std::size_t, Pass) const { return 0.0; }
  double transfer_seconds(std::size_t, Tokens, Pass) const { return transfer; }
};

struct LeastMemory {
  double always = 1e9, work = 0.0;

  double capacity_bytes() const { return 8e10; }
  double static_bytes(std::size_t) const { return always; }
  double activation_bytes(std::size_t, int) const { return 1e4; }
  double kv_gradient_bytes(std::size_t) const { return 1e3; }
  double workspace_bytes(std::size_t, Pass, Tokens, int) const { return work; }
};

/// Its groups of pipelines have other stages than one pipeline.
struct MergesWrongly : Least {
  bool supports_context_parallel(std::int32_t) const { return true; }
  MergesWrongly with_context_parallel(std::int32_t group) const {
    MergesWrongly copy = *this;
    if (group > 1) copy.count = 6;
    return copy;
  }
};

/// Two kinds: two pipelines of two stages, one of three.
Strategy mixed() {
  const PipelineSpec small{.tp = 1, .cp = 1, .layers = {20, 20}, .devices = {{0}, {1}}};
  PipelineSpec twin = small;
  twin.devices = {{2}, {3}};
  const PipelineSpec deep{.tp = 2, .cp = 1, .layers = {20, 12, 8}, .devices = {{4, 5}, {6, 7}, {8, 9}}};
  return {{small, deep, twin}, {0, 1, 0}};
}

}  // namespace

TEST_CASE("models of a strategy's stages are accepted") {
  const Strategy strategy = layout_strategy(job());
  CHECK_NOTHROW(check_models(CalibratedCost(job()), TransformerMemory(job()), strategy));
  CHECK_NOTHROW(check_models(Least{}, LeastMemory{}, strategy));
  CHECK_NOTHROW(check_models(Least{}, TransformerMemory(job()), strategy));
}

TEST_CASE("stages that differ from the strategy's are refused by name") {
  const Strategy strategy = layout_strategy(job());
  for (const std::size_t stages : {1u, 3u, 5u}) {
    CHECK_THROWS_WITH(check_models(Least{.count = stages}, LeastMemory{}, strategy),
                      Catch::Contains(concat("the cost model has ", stages, " stages; expected the 4")));
  }
  Job deeper = job();
  deeper.layout.pp = 8;
  CHECK_THROWS_WITH(check_models(CalibratedCost(deeper), TransformerMemory(job()), strategy),
                    Catch::Contains("the cost model has 8 stages; expected the 4"));
  CHECK_THROWS_WITH(check_models(CalibratedCost(job()), TransformerMemory(deeper), strategy),
                    Catch::Contains("the memory model has 8 stages; expected the 4"));
}

TEST_CASE("merged pipelines of other stages are refused by name") {
  const std::vector<Tokens> lengths{90000, 200, 100};
  CHECK_THROWS_WITH(plan_slimpack(lengths, job(), MergesWrongly{}, LeastMemory{}),
                    Catch::Contains("the cost model of 2 pipelines that run packs together has 6 stages; "
                                    "expected the 4 that one pipeline has"));
}

TEST_CASE("layers that differ from the strategy's are refused by name") {
  Strategy strategy = layout_strategy(job());
  for (PipelineSpec& p : strategy.pipelines) p.layers = {11, 10, 10, 9};
  CHECK_THROWS_WITH(
      check_models(CalibratedCost(job()), LeastMemory{}, strategy),
      Catch::Contains(
          "the cost model has 10 layers on stage 0; expected the 11 of the strategy's pipelines of kind 0"));
  CHECK_THROWS_WITH(check_models(Least{}, TransformerMemory(job()), strategy),
                    Catch::Contains("the memory model has 10 layers on stage 0; expected the 11"));
  CHECK_NOTHROW(check_models(Least{}, LeastMemory{}, strategy));  // neither says what it is of
}

TEST_CASE("what is no duration and what are no bytes is refused") {
  const Strategy strategy = layout_strategy(job());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH(
      check_models(Least{.slice = nan}, LeastMemory{}, strategy),
      Catch::Contains("the cost model takes nan seconds for sample 0 of 1 tokens, forward on stage 0"));
  CHECK_THROWS_WITH(
      check_models(Least{.transfer = -1.0}, LeastMemory{}, strategy),
      Catch::Contains("takes -1 seconds for a forward transfer of one token between stages 0 and 1"));
  CHECK_THROWS_WITH(check_models(Least{}, LeastMemory{.always = nan}, strategy),
                    Catch::Contains("the memory model has nan bytes for what is always there on stage 0"));
  CHECK_THROWS_WITH(check_models(Least{}, LeastMemory{.work = -1.0}, strategy),
                    Catch::Contains("the workspace of one token, forward on stage 0"));
}

TEST_CASE("each kind of pipelines has models of its own") {
  const Strategy strategy = mixed();
  const Transformer model = transformer_preset("llama-13b");
  const Device device = device_preset("h100");
  std::vector<CalibratedCost> costs;
  std::vector<TransformerMemory> memories;
  for (std::uint32_t k = 0; k < strategy.kinds(); ++k) {
    costs.emplace_back(model, device, strategy, k);
    memories.emplace_back(model, device, strategy.spec_of_kind(k), 3);
  }
  const auto check = [&](const Strategy& s) {
    check_models(std::span<const CalibratedCost>(costs), std::span<const TransformerMemory>(memories), s);
  };
  CHECK_NOTHROW(check(strategy));
  CHECK(costs[0].sync_seconds() == costs[1].sync_seconds());
  CHECK_THROWS_WITH(check_models(costs[0], memories[0], strategy),
                    Catch::Contains("there are 1 cost models; expected 2"));
  std::swap(costs[0], costs[1]);
  CHECK_THROWS_WITH(
      check(strategy),
      Catch::Contains("the cost model has 3 stages; expected the 2 of the strategy's pipelines of kind 0"));
  std::swap(costs[0], costs[1]);
  Strategy wrong = strategy;
  wrong.pipelines[2].layers = {21, 19};
  CHECK_THROWS_WITH(check(wrong),
                    Catch::Contains("pipeline 2 is of kind 0; expected 2, for kinds are numbered"));
  wrong = strategy;
  wrong.kind = {1, 0, 1};
  CHECK_THROWS_WITH(check(wrong), Catch::Contains("pipeline 0 is of kind 1; expected 0, for kinds"));
  wrong.kind.pop_back();
  CHECK_THROWS_WITH(check(wrong), Catch::Contains("names the kinds of 2 pipelines; expected its 3"));
  CHECK_THROWS_WITH(check({}), Catch::Contains("the strategy has no pipelines"));
}

TEST_CASE("a plan's notes say what a model lacks") {
  const std::vector<std::string> notes = missing_features(Least{});
  REQUIRE(notes.size() == 5);
  CHECK(notes[0].find("no sample is merged") != std::string::npos);
  CHECK(notes[1].find("nothing is recomputed") != std::string::npos);
  CHECK(notes[2].find("nothing is offloaded") != std::string::npos);
  CHECK(notes[3].find("not checked") != std::string::npos);
  CHECK(notes[4].find("takes no time") != std::string::npos);
  REQUIRE(missing_features(MergesWrongly{}).size() == 5);
  CHECK(missing_features(MergesWrongly{})[0].find("plans name none") != std::string::npos);
  CHECK(missing_features(CalibratedCost(job())).empty());
  CHECK(missing_features<Separable, Polynomial, Mergeable>(CalibratedCost(job())).empty());
  CHECK(missing_features<Separable>(Least{}).size() == 1);
  require_features<Mergeable, Recomputing, Layered, Separable, Exchanging, Synchronised, Polynomial>(
      CalibratedCost(job()));
  require_features<>(Least{});
}

TEST_CASE("a plan's notes say what a memory model lacks") {
  const std::vector<std::string> notes = missing_memory_features(LeastMemory{});
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].find("counted as nothing") != std::string::npos);
  CHECK(notes[1].find("as much of the device's memory as others") != std::string::npos);
  CHECK(missing_memory_features<ReservingMemory>(LeastMemory{}).size() == 1);
  const TransformerMemory memory(job());
  CHECK(missing_memory_features(memory).empty());
  require_memory_features<ExchangingMemory, OffloadingMemory, ReservingMemory>(memory);
  require_memory_features<>(LeastMemory{});
  const CalibratedCost cost(job());
  CHECK(missing_capabilities(cost, memory).empty());
  CHECK(missing_capabilities(cost, LeastMemory{}) == notes);
  // What no plan asks for is not missed.
  CHECK(missing_capabilities(Least{}, LeastMemory{}) == missing_features(Least{}));
}

TEST_CASE("plans of all kinds of planners say what the model lacks") {
  const Job own = job();
  const std::vector<Tokens> lengths{300, 200, 100};
  const LeastMemory memory;
  const auto expected = missing_capabilities(Least{}, memory);
  const auto says_all = [&](const Plan& plan) {
    return std::all_of(expected.begin(), expected.end(), [&](const std::string& note) {
      return std::count(plan.notes.begin(), plan.notes.end(), note) == 1;
    });
  };
  CHECK(says_all(plan_slimpack(lengths, own, Least{}, memory)));
  Packs packs;
  for (SampleId id = 0; id < lengths.size(); ++id) {
    packs.add({id, 0, lengths[id]});
    packs.close();
  }
  MicroBatchPlanner planner(own, price_models(own, Least{}, memory, NoAttentionModel{}));
  CHECK(says_all(planner.plan("own", lengths, packs)));
  const std::vector<Strategy> strategies{layout_strategy(own)};
  const MakeKindModels make = [&](const Strategy& strategy, std::uint32_t kind) {
    return price_models(strategy.spec_of_kind(kind), Least{}, memory, NoAttentionModel{});
  };
  CHECK(says_all(plan_hydraulis(lengths, own.model, own.device, strategies, make)));
  CHECK(says_all(plan_hotspa(lengths, own.model, own.device, strategies, make)));
}
