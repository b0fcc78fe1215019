#include "slimpack/exec/hash.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#ifdef SLIMPACK_TEST_JSON
#include "slimpack/plan/json.hpp"
#endif
#include "tests/effort.hpp"
#include "tests/exec/plans.hpp"
#include "tests/plan/equal_plan.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using slimpack::testing::for_each_plan;

namespace {

using Change = std::pair<std::string, std::function<void(Plan&)>>;

/// The same packs with one slice changed.
void change_slice(PassPlan& pass, const std::function<void(Slice&)>& change) {
  Packs changed;
  for (std::size_t k = 0; k < pass.packs.size(); ++k) {
    for (Slice slice : pass.packs[k]) {
      if (k == 0) change(slice);
      changed.add(slice);
    }
    changed.close();
  }
  pass.packs = changed;
}

/// The same slices in one pack less: where one ends and the next begins is all that differs.
void join_packs(PassPlan& pass) {
  Packs joined;
  for (std::size_t k = 0; k < pass.packs.size(); ++k) {
    for (const Slice& slice : pass.packs[k]) joined.add(slice);
    if (k != 0) joined.close();
  }
  joined.close();
  pass.packs = joined;
}

std::vector<Change> changes_that_matter() {
  std::vector<Change> changes{
      {"layers of the model", [](Plan& p) { ++p.model.layers; }},
      {"hidden", [](Plan& p) { ++p.model.hidden; }},
      {"heads", [](Plan& p) { ++p.model.heads; }},
      {"kv_heads", [](Plan& p) { ++p.model.kv_heads; }},
      {"head_dim", [](Plan& p) { ++p.model.head_dim; }},
      {"ffn", [](Plan& p) { ++p.model.ffn; }},
      {"vocab", [](Plan& p) { ++p.model.vocab; }},
      {"a length", [](Plan& p) { ++p.tokens.back(); }},
      {"two lengths swapped",
       [](Plan& p) {
         p.tokens[0] += 1000;
         std::swap(p.tokens[0], p.tokens[1]);
       }},
      {"a further sample", [](Plan& p) { p.tokens.push_back(1); }},
      {"a deferred sample", [](Plan& p) { p.deferred.push_back(0); }},
      {"document ids", [](Plan& p) { p.document_ids.assign(p.tokens.size(), 0); }},
      {"a pipeline's id", [](Plan& p) { p.pipelines[1].id = 5; }},
      {"tp", [](Plan& p) { ++p.pipelines[0].tp; }},
      {"cp", [](Plan& p) { ++p.pipelines[0].cp; }},
      {"layers of stages",
       [](Plan& p) {
         ++p.pipelines[0].layers[0];
         --p.pipelines[0].layers[1];
       }},
      {"an order", [](Plan& p) { std::swap(p.pipelines[0].order[0][0], p.pipelines[0].order[0][1]); }},
      {"a task's pass", [](Plan& p) { p.pipelines[0].order[0][0].pass = Pass::weight; }},
      {"a task more",
       [](Plan& p) {
         p.pipelines[0].order[1].push_back({Pass::weight, 0});
       }},
      {"a pipeline less", [](Plan& p) { p.pipelines.pop_back(); }},
      {"devices",
       [](Plan& p) {
         p.pipelines[1].devices = {{1}, {2}, {0}};
       }},
      {"offloaded layers",
       [](Plan& p) {
         const std::vector<std::int32_t> row(3, 1);
         p.backward.offload_layers.repeat_row(p.backward.packs.size(), row);
       }},
      {"recomputed layers", [](Plan& p) { ++p.backward.recompute_layers[0][1]; }}};
  for (const bool forward : {true, false}) {
    const std::string pass = forward ? "forward: " : "backward: ";
    const auto of = [forward](Plan& p) -> PassPlan& { return forward ? p.forward : p.backward; };
    changes.push_back(
        {pass + "a slice's sample", [of](Plan& p) { change_slice(of(p), [](Slice& s) { s.sample += 1; }); }});
    changes.push_back(
        {pass + "a slice's begin", [of](Plan& p) { change_slice(of(p), [](Slice& s) { s.begin += 1; }); }});
    changes.push_back(
        {pass + "a slice's end", [of](Plan& p) { change_slice(of(p), [](Slice& s) { s.end += 1; }); }});
    changes.push_back({pass + "bounds of packs", [of](Plan& p) { join_packs(of(p)); }});
    changes.push_back({pass + "members", [of](Plan& p) { of(p).pipelines[0][0] ^= 1u; }});
    changes.push_back({pass + "sharding", [of](Plan& p) { of(p).sharding[0] = Sharding::per_document; }});
    changes.push_back({pass + "block", [of](Plan& p) { of(p).block += 64; }});
    changes.push_back({pass + "exchange of keys",
                       [of](Plan& p) { of(p).exchange.assign(of(p).packs.size(), KeyExchange::ring); }});
    changes.push_back({pass + "slices by themselves", [of](Plan& p) { of(p).per_document.add_row(1); }});
  }
  return changes;
}

std::vector<Change> changes_that_only_describe() {
  return {{"planner", [](Plan& p) { p.planner = "another"; }},
          {"name of the model", [](Plan& p) { p.model.name = "another"; }},
          {"device", [](Plan& p) { p.device.peak_flops *= 2; }},
          {"seconds", [](Plan& p) { p.forward.seconds[0][0] *= 2; }},
          {"transfer_seconds",
           [](Plan& p) {
             for (double& seconds : p.backward.transfer_seconds[0]) seconds += 1;
           }},
          {"weight_seconds",
           [](Plan& p) {
             const std::vector<double> row(p.pipelines[0].stages(), 0.5);
             p.backward.weight_seconds.repeat_row(p.backward.packs.size(), row);
           }},
          {"flops", [](Plan& p) { p.forward.flops[0].linear += 1; }},
          {"step", [](Plan& p) { p.step = {}; }},
          {"notes", [](Plan& p) { p.notes.clear(); }}};
}

}  // namespace

TEST_CASE("the hash changes with all that decides what is run, each in its own way") {
  testing::SamplePlanOptions options;
  options.seed = 4;
  const Plan plan = testing::sample_plan(options);
  std::set<std::uint64_t> hashes{plan_hash(plan)};
  std::size_t count = 1;
  for (const auto& [what, change] : changes_that_matter()) {
    INFO(what);
    Plan changed = plan;
    change(changed);
    CHECK(plan_hash(changed) != plan_hash(plan));
    hashes.insert(plan_hash(changed));
    ++count;
  }
  CHECK(hashes.size() == count);
}

TEST_CASE("the hash does not change with what only describes") {
  const Plan plan = testing::sample_plan();
  for (const auto& [what, change] : changes_that_only_describe()) {
    INFO(what);
    Plan changed = plan;
    change(changed);
    CHECK(plan_hash(changed) == plan_hash(plan));
  }
}

#ifdef SLIMPACK_TEST_JSON
namespace {

/// A plan without what only describes it, as text.
std::string executed_text(Plan plan) {
  for (const auto& [what, change] : changes_that_only_describe()) change(plan);
  plan.planner.clear();
  plan.device = {};
  for (PassPlan* pass : {&plan.forward, &plan.backward}) {
    for (std::size_t k = 0; k < pass->packs.size(); ++k) {
      for (double& seconds : pass->seconds[k]) seconds = 0.0;
      for (double& seconds : pass->transfer_seconds[k]) seconds = 0.0;
      pass->flops[k] = {};
    }
  }
  return to_json(plan);
}

}  // namespace

TEST_CASE("different plans have different hashes, and the same plan the same") {
  std::map<std::string, std::uint64_t> hash_of;
  std::set<std::uint64_t> hashes;
  for_each_plan(60, [&](const Plan& plan) {
    const std::uint64_t hash = plan_hash(plan);
    CHECK(hash == plan_hash(Plan(plan)));
    CHECK(hash != no_plan_hash);
    CHECK(hash_of.try_emplace(executed_text(plan), hash).first->second == hash);
    hashes.insert(hash);
  });
  CHECK(hashes.size() == hash_of.size());
  CHECK(hashes.size() > slimpack::testing::seeds(200, 100, 100));
}

TEST_CASE("a plan that went through a file has the same hash") {
  for_each_plan(5, [](const Plan& plan) { CHECK(plan_hash(read_json(to_json(plan))) == plan_hash(plan)); });
}
#endif

TEST_CASE("a salt tells settings apart") {
  const Plan plan = testing::sample_plan();
  CHECK(plan_hash(plan, 64) != plan_hash(plan));
  CHECK(plan_hash(plan, 64) != plan_hash(plan, 128));
}

TEST_CASE("the hash is the same everywhere") {
  // Both were calculated apart from this code, in another language.
  CHECK(plan_hash(Plan{}) == 0xd6d7a23f47a88026u);
  CHECK(plan_hash(testing::equal_plan(2, 3, 1.0, 2.0)) == 0x4c589a18b31887a9u);
}
