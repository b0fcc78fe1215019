#include "slimpack/planners/auto.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "github.hpp"
#include "note_of.hpp"
#include "oracle.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

using namespace slimpack;
using slimpack::testing::has_note;

namespace {

const NamedPlanner megatron{
    "megatron", [](std::span<const Tokens> lengths, const Job& job) { return plan_megatron(lengths, job); }};
const NamedPlanner slimpacks{
    "slimpack", [](std::span<const Tokens> lengths, const Job& job) { return plan_slimpack(lengths, job); }};
const NamedPlanner never_plans{
    "refuses", [](std::span<const Tokens>, const Job&) -> Plan { throw InvalidInput("never plans"); }};
/// Trains nothing but the first samples, in a tenth of the time.
const NamedPlanner lazy{"lazy", [](std::span<const Tokens> lengths, const Job& job) {
                          Plan plan = plan_slimpack(lengths, job);
                          plan.step.seconds /= 10.0;
                          plan.deferred = {0};
                          return plan;
                        }};

}  // namespace

TEST_CASE("the best of several planners is the plan of the fastest, in whatever order they are asked") {
  for (const Tokens context : {16384, 65536}) {
    const std::vector<Tokens> lengths = oracle::github(128, context);
    const Job job = oracle::llama_13b(4, 4, 4);
    const Plan slow = plan_megatron(lengths, job);
    Plan fast = plan_slimpack(lengths, job);
    REQUIRE(fast.step.seconds < slow.step.seconds);
    for (const auto& planners :
         {std::vector{megatron, slimpacks, never_plans, lazy}, std::vector{lazy, slimpacks, megatron}}) {
      Plan plan = plan_auto(lengths, job, planners);
      CHECK(violations(plan).empty());
      CHECK(has_note(plan, "auto chose slimpack: the next best, megatron, takes "));
      CHECK(has_note(plan, "without a plan: "));
      CHECK(has_note(plan, "lazy"));
      plan.notes.pop_back();
      CHECK(to_json(plan) == to_json(fast));
    }
  }
}

TEST_CASE("of equal planners the first one is chosen, and one alone says so") {
  const std::vector<Tokens> lengths(8, 1000);
  const Job job = oracle::llama_13b(2, 2, 4);
  const std::vector<NamedPlanner> twins{{"first", slimpacks.plan}, {"second", slimpacks.plan}},
      one{slimpacks, never_plans};
  CHECK(has_note(plan_auto(lengths, job, twins),
                 "auto chose first: the next best, second, takes as long per trained token"));
  CHECK(has_note(plan_auto(lengths, job, one), "the only planner with a plan; without a plan: refuses"));
  CHECK_THROWS_WITH(plan_auto(lengths, job, std::vector{never_plans, never_plans}),
                    "no planner has a plan: refuses: never plans; refuses: never plans");
  CHECK_THROWS_WITH(plan_auto(lengths, job, std::vector<NamedPlanner>{}), Catch::Contains("no planners"));
}

TEST_CASE("of a number of devices, each planner gets its best layout") {
  const std::vector<Tokens> lengths = oracle::github(48, 32768);
  const auto bound = [](std::span<const Tokens> tokens, const Job& job) { return layout_bound(tokens, job); };
  const Job job = oracle::llama_13b(1, 1);
  const LayoutSpace space{.devices = 32};
  double least = std::numeric_limits<double>::infinity();
  for (const NamedPlanner& planner : {megatron, slimpacks})
    least = std::min(least, plan_best_layout(lengths, job, space, planner.plan, bound).planned.step.seconds);
  const Plan plan = plan_auto(lengths, job, space, std::vector{megatron, slimpacks}, bound, 2);
  CHECK(plan.step.seconds == least);
  CHECK(has_note(plan, "auto chose slimpack (dp "));
  CHECK(has_note(plan, "the next best, megatron (dp "));
}
