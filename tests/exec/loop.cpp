#include "slimpack/exec/loop.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/exec/plans.hpp"

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
      const RankPlace place = place_of(rank, stages_per_pipeline(plan));
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
