#include "slimpack/exec/loop.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "slimpack/plan/validate.hpp"
#include "tests/effort.hpp"
#include "tests/exec/cluster.hpp"
#include "tests/exec/plans.hpp"
#include "tests/plan/equal_plan.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using slimpack::testing::for_each_plan;

namespace {

/// Writes down what the loop asks for.
struct Recorder {
  std::vector<std::string> calls;

  void add(const char* what, const StageTask& task) { calls.push_back(what + to_string(task)); }
  void receive_activations(const StageTask& task) { add("receive ", task); }
  void forward(const StageTask& task) { add("", task); }
  void send_activations(const StageTask& task) { add("send ", task); }
  void receive_gradients(const StageTask& task) { add("receive ", task); }
  void recompute(const StageTask& task) { add("recompute ", task); }
  void backward(const StageTask& task) { add("", task); }
  void send_gradients(const StageTask& task) { add("send ", task); }
  void release(const StageTask& task) { add("release ", task); }
  void end_of_step() { calls.emplace_back("end"); }
};

struct WeightRecorder : Recorder {
  void weight(const StageTask& task) { add("", task); }
};

struct PostingRecorder : WeightRecorder {
  void post_receive_activations(const StageTask& task) { add("post ", task); }
  void post_receive_gradients(const StageTask& task) { add("post ", task); }
};

struct MeasuringRecorder : WeightRecorder {
  void started(const StageTask& task) { add("started ", task); }
  void finished(const StageTask& task) { add("finished ", task); }
};

static_assert(StageCallbacks<Recorder>);
static_assert(!StageCallbacks<std::string>);

/// The calls as the loop's contract has them, from the plan alone.
std::vector<std::string> expected_calls(const Plan& plan, std::size_t p, std::size_t s) {
  std::vector<std::string> calls;
  const std::size_t last = plan.pipelines[p].stages() - 1;
  for (const Task task : plan.pipelines[p].order[s]) {
    const std::string text = to_string(task);
    const bool forward = task.pass == Pass::forward, backward = task.pass == Pass::backward;
    if ((forward && s > 0) || (backward && s < last)) calls.push_back("receive " + text);
    if (backward && plan.backward.recompute_layers[task.pack][s] > 0) calls.push_back("recompute " + text);
    calls.push_back(text);
    if ((forward && s < last) || (backward && s > 0)) calls.push_back("send " + text);
    if (!forward && !plan.backward.packs[task.pack].empty()) calls.push_back("release " + text);
  }
  calls.emplace_back("end");
  return calls;
}

std::vector<std::string> only(const std::vector<std::string>& calls, const std::string& prefix) {
  std::vector<std::string> result;
  for (const std::string& call : calls) {
    if (call.rfind(prefix, 0) == 0) result.push_back(call.substr(prefix.size()));
  }
  return result;
}

}  // namespace

TEST_CASE("every stage's tasks are walked once, in order, with transfers around them") {
  int recomputed = 0, merged = 0, weights = 0;
  for_each_plan(40, [&](const Plan& plan) {
    REQUIRE(violations(plan).empty());
    for (std::size_t rank = 0; rank < rank_count(plan); ++rank) {
      const RankPlace place = PlanRanks(plan).place_of(rank);
      const StageProgram program(plan, place.pipeline, place.stage);
      REQUIRE(program.rank() == rank);
      WeightRecorder recorder;
      run_stage(program, recorder);
      REQUIRE(recorder.calls == expected_calls(plan, place.pipeline, place.stage));
      recomputed += only(recorder.calls, "recompute ").empty() ? 0 : 1;
      weights += program.has_weight_tasks() ? 1 : 0;
      for (const StageTask& task : program.tasks()) merged += task.merged() ? 1 : 0;
    }
  });
  CHECK(recomputed > 20);
  CHECK(merged > 20);
  CHECK(weights > 20);
}

TEST_CASE("no plan deadlocks, whether sends are buffered or wait for their receive", "[threads]") {
  using testing::Channel;
  int swapped = 0;
  for_each_plan(slimpack::testing::seeds(30, 10, 10), [&](const Plan& plan) {
    const std::vector<std::string> fine(rank_count(plan));
    for (const Channel channel : {Channel::buffered, Channel::rendezvous}) {
      for (const std::size_t window : {1u, 2u, 5u}) {
        INFO((channel == Channel::buffered ? "buffered" : "rendezvous") << ", window " << window);
        REQUIRE(testing::run_ranks(plan, channel, {.window = window}) == fine);
      }
    }
    const auto& order = plan.pipelines[0].order;
    const auto forward = [](std::vector<Task> tasks) {
      std::erase_if(tasks, [](Task t) { return t.pass != Pass::forward; });
      return tasks;
    };
    swapped += forward(order.front()) != forward(order.back()) ? 1 : 0;
  });
  // Some stages take packs in another order than the stage before them sends them.
  CHECK(swapped > static_cast<int>(slimpack::testing::seeds(3, 0, 0)));
}

TEST_CASE("a plan that gets stuck is seen, with what every rank waits for", "[threads]") {
  Plan plan = testing::equal_plan(2, 2, 1.0, 1.0);
  const Task f0{Pass::forward, 0}, f1{Pass::forward, 1}, b0{Pass::backward, 0}, b1{Pass::backward, 1};
  plan.pipelines[0].order = {{f0, b0, f1, b1}, {f1, b1, f0, b0}};
  REQUIRE_FALSE(violations(plan).empty());
  for (const auto channel : {testing::Channel::buffered, testing::Channel::rendezvous}) {
    CHECK(testing::run_ranks(plan, channel) ==
          std::vector<std::string>(2, "stuck: rank 0 waits for B0; rank 1 waits for F1;"));
  }
}

TEST_CASE("an exception of one rank's callback reaches that rank's caller", "[threads]") {
  const Plan plan = testing::equal_plan(3, 4, 1.0, 2.0);
  const auto fail = [](std::size_t rank, const StageTask& task) {
    if (rank == 1 && task.pass == Pass::backward && task.pack == 2) throw std::runtime_error("out of luck");
  };
  const auto errors = testing::run_ranks(plan, testing::Channel::rendezvous, {}, fail);
  CHECK(errors[1] == "out of luck");
  CHECK(errors[0] == "another rank failed");
}

TEST_CASE("an exception ends the loop where it is thrown") {
  struct Failing : Recorder {
    void backward(const StageTask& task) {
      Recorder::backward(task);
      throw std::out_of_range("no rows");
    }
  };
  const Plan plan = testing::equal_plan(1, 2, 1.0, 2.0);
  Failing trainer;
  CHECK_THROWS_AS(run_stage(StageProgram(plan, 0, 0), trainer), std::out_of_range);
  CHECK(trainer.calls == std::vector<std::string>{"F0", "B0"});
}

TEST_CASE("receives are posted ahead, in the order of use, never more than the window") {
  for_each_plan(15, [](const Plan& plan) {
    for (std::size_t rank = 0; rank < rank_count(plan); ++rank) {
      const RankPlace place = PlanRanks(plan).place_of(rank);
      const StageProgram program(plan, place.pipeline, place.stage);
      for (const std::size_t window : {1u, 2u, 3u, 100u}) {
        PostingRecorder recorder;
        run_stage(program, recorder, {.window = window});
        const auto posted = only(recorder.calls, "post "), received = only(recorder.calls, "receive ");
        REQUIRE(posted == received);
        std::size_t ahead = 0, done = 0;
        for (const std::string& call : recorder.calls) {
          if (call.rfind("receive ", 0) == 0) {
            // As far ahead as allowed, before each receive.
            REQUIRE(ahead == std::min(window, received.size() - done));
            --ahead;
            ++done;
          }
          ahead += call.rfind("post ", 0) == 0 ? 1u : 0u;
        }
        std::vector<std::string> rest = recorder.calls;
        std::erase_if(rest, [](const std::string& call) { return call.rfind("post ", 0) == 0; });
        REQUIRE(rest == expected_calls(plan, place.pipeline, place.stage));
      }
    }
  });
}

TEST_CASE("computations are measured without their transfers") {
  Plan plan = testing::equal_plan(3, 1, 1.0, 2.0);
  plan.model.layers = 3;
  plan.backward.recompute_layers[0][1] = 1;
  MeasuringRecorder recorder;
  run_stage(StageProgram(plan, 0, 1), recorder);
  CHECK(recorder.calls == std::vector<std::string>{"receive F0", "started F0", "F0", "finished F0", "send F0",
                                                   "receive B0", "started B0", "recompute B0", "B0",
                                                   "finished B0", "send B0", "release B0", "end"});
}

TEST_CASE("a plan with weight tasks needs a trainer that has them") {
  const Plan plan = testing::plan_by_hand(3);
  const StageProgram program(plan, 0, 0);
  REQUIRE(program.has_weight_tasks());
  Recorder without;
  CHECK_THROWS_WITH(run_stage(program, without),
                    "stage 0 of pipeline 0 has weight tasks (W); expected a trainer with a weight callback");
  CHECK(without.calls.empty());
  WeightRecorder with;
  CHECK_NOTHROW(run_stage(program, with));
}

TEST_CASE("a window of nothing is refused") {
  const Plan plan = testing::equal_plan(1, 1, 1.0, 1.0);
  Recorder recorder;
  CHECK_THROWS_WITH(run_stage(StageProgram(plan, 0, 0), recorder, {.window = 0}),
                    "window is 0; expected at least one receive at a time");
}

TEST_CASE("an empty pack is walked like any other") {
  Plan plan = testing::equal_plan(2, 1, 1.0, 1.0);
  for (PassPlan* pass : {&plan.forward, &plan.backward}) {
    pass->packs.close();
    pass->pipelines.add_row(1, 0);
    pass->recompute_layers.add_row(2, 0);
  }
  for (auto& order : plan.pipelines[0].order) {
    order.push_back({Pass::forward, 1});
    order.push_back({Pass::backward, 1});
  }
  Recorder recorder;
  run_stage(StageProgram(plan, 0, 1), recorder);
  CHECK(only(recorder.calls, "receive ") == std::vector<std::string>{"F0", "F1"});
  CHECK(only(recorder.calls, "send ") == std::vector<std::string>{"B0", "B1"});
  CHECK(only(recorder.calls, "release ") == std::vector<std::string>{"B0"});
}
