#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/stage.hpp"
#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "tests/effort.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels_cuda/host_device.hpp"
#include "tests/kernels_cuda/host_stage.hpp"
#include "tests/kernels_cuda/stage_case.hpp"
#include "tests/kernels_cuda/thread_links.hpp"
#include "tests/plan/sample_plan.hpp"

// Steps whose tasks' work is captured and launched as graphs have the bits of those without.
using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::bench::Outcome, slimpack::bench::StageCase;
using slimpack::kernels::cuda::Queue;
using slimpack::testing::BusyTransport, slimpack::testing::HostDevice, slimpack::testing::LinkHub,
    slimpack::testing::ThreadLinks, slimpack::testing::case_of, slimpack::testing::random_ids,
    slimpack::testing::sample_plan, slimpack::testing::SamplePlanOptions, slimpack::testing::few,
    slimpack::testing::seeds;

namespace {

using Stage = slimpack::testing::HostStage;

/// A step's plan and ids.
struct StepBatch {
  Plan plan;
  Ragged<std::int32_t> ids;
};

/// What training came to: losses of all steps, weights and gradients of all ranks, and tasks that were graphs.
struct Training {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights, gradients;
  std::vector<std::vector<std::size_t>> graphs;  ///< [rank][step]
};

struct TrainOptions {
  std::int32_t rows = kernels::cuda::attention_rows;
  bool linked = false;
};

Training train(StageCase c, const std::vector<StepBatch>& steps, bool graphs,
               const TrainOptions& options = {}) {
  c.options.stage.graphs = graphs;
  const PlanRanks table(c.plan);
  const std::size_t ranks = table.size();
  Training result{{}, {}, {}, {}};
  result.losses.resize(steps.size());
  result.weights.resize(ranks);
  result.gradients.resize(ranks);
  result.graphs.resize(ranks);
  const auto hub = std::make_shared<LinkHub>();
  run_in_process(ranks, [&](InProcessTransport& t) {
    HostDevice::next_seed() = static_cast<std::uint32_t>(100 * t.rank() + (graphs ? 3 : 50));
    HostDevice::next_attention_rows() = options.rows;
    BusyTransport busy(t, options.linked);
    const auto run = [&](auto&& executor) {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const StepReport report = executor.step(steps[i].plan, steps[i].ids);
        if (t.rank() == 0) result.losses[i] = report.loss;
        result.graphs[t.rank()].push_back(report.graph_tasks);
      }
      auto& stage = executor.stage();
      auto &weights = result.weights[t.rank()], &gradients = result.gradients[t.rank()];
      weights.resize(stage.weight_layout().size());
      gradients.resize(weights.size());
      stage.read_weights(weights);
      stage.read_gradients(gradients);
    };
    if (options.linked) {
      run(RankExecutor<Stage, BusyTransport, ThreadLinks>(
          busy, c.model, c.plan, c.options, ThreadLinks(hub, t.rank(), table, t.rank() % 2 == 0)));
    } else {
      run(RankExecutor<Stage, BusyTransport>(busy, c.model, c.plan, c.options));
    }
  });
  return result;
}

/// Tasks of a rank that are not merged.
std::size_t own_tasks(const Plan& plan, std::size_t rank) {
  const RankPlace place = PlanRanks(plan).place_of(rank);
  const StageProgram program(plan, place.pipeline, place.stage);
  return static_cast<std::size_t>(std::count_if(program.tasks().begin(), program.tasks().end(),
                                                [](const StageTask& task) { return !task.merged(); }));
}

/// The case's plan some times, with other tokens each time.
std::vector<StepBatch> repeated(const StageCase& c, std::size_t steps, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<StepBatch> batches;
  while (batches.size() < steps) batches.push_back({c.plan, random_ids(random, c.plan, c.model.vocab)});
  return batches;
}

void check_same(const Training& a, const Training& b) {
  CHECK(a.losses == b.losses);
  CHECK((a.weights == b.weights));
  CHECK((a.gradients == b.gradients));
}

/// Four steps with and without graphs; where few are run three, of which the last is the one that only launches them.
void compare(const StageCase& c, unsigned seed, const TrainOptions& options = {}) {
  const auto steps = repeated(c, few ? 3 : 4, seed);
  const Training with = train(c, steps, true, options), without = train(c, steps, false, options);
  check_same(with, without);
  for (std::size_t rank = 0; rank < with.graphs.size(); ++rank) {
    const std::size_t all = own_tasks(c.plan, rank);
    INFO("rank " << rank);
    std::vector<std::size_t> expected(steps.size(), all);
    expected[0] = 0;
    CHECK(with.graphs[rank] == expected);
    CHECK(without.graphs[rank] == std::vector<std::size_t>(steps.size(), 0));
  }
}

}  // namespace

TEST_CASE("CUDA: steps of graphs have the bits of steps without, whatever the plan") {
  for (unsigned seed = 1; seed <= seeds(4, 2); ++seed) {
    INFO("seed " << seed);
    const StageCase c = case_of(sample_plan({.seed = seed,
                                             .samples = 2 + seed % 3,
                                             .deferred = seed % 2,
                                             .pipelines = 1 + seed % 2,
                                             .stages = 1 + seed % 3,
                                             .max_tokens = 60,
                                             .split_weights = seed % 3 == 0}),
                                seed);
    compare(c, seed, {.linked = seed % 2 == 0});
  }
}

TEST_CASE("CUDA: steps of graphs have the same bits with attention's kernels for Hopper, too") {
  const StageCase c =
      case_of(sample_plan({.seed = 2, .samples = 3, .pipelines = 1, .stages = 2, .max_tokens = 150}), 2);
  compare(c, 2, {.rows = kernels::cuda::group_attention_rows});
}

TEST_CASE("CUDA: tasks next to merged ones are graphs") {
  for (unsigned seed = few ? 2 : 1; seed <= 3; ++seed) {
    INFO("seed " << seed);
    StageCase c = case_of(sample_plan({.seed = seed,
                                       .samples = 5,
                                       .merged = 1 + seed % 2,
                                       .pipelines = 2,
                                       .stages = 1 + seed % 2,
                                       .max_tokens = 60,
                                       .split_weights = seed == 2}),
                          seed);
    c.model.kv_heads = 2;
    c.model.heads = 2 + 2 * static_cast<std::int32_t>(seed % 2);
    c.options.stage.merged = MergedAttention::heads;
    c.options.block = 1 + static_cast<Tokens>(seed * 5 % 40);
    REQUIRE(own_tasks(c.plan, 0) < StageProgram(c.plan, 0, 0).tasks().size());
    REQUIRE(own_tasks(c.plan, 0) + own_tasks(c.plan, c.plan.pipelines[0].stages()) > 0);
    compare(c, seed, {.linked = seed == 3});
  }
}

TEST_CASE("CUDA: a plan that changes in between is run without graphs, and captured when it repeats") {
  const SamplePlanOptions one{
      .seed = 3, .samples = few ? 2U : 3U, .pipelines = 1, .stages = 2, .max_tokens = 60};
  SamplePlanOptions other = one;
  other.seed = 4;
  other.samples = few ? 3 : 5;
  const StageCase a = case_of(sample_plan(one), 1);
  StageCase b = a;
  b.plan = whole_stages(sample_plan(other));
  std::vector<StepBatch> steps;
  std::mt19937 random(5);
  for (const StageCase* c : std::vector<const StageCase*>{&a, &a, &b, &a, &a, &a, &b, &b})
    steps.push_back({c->plan, random_ids(random, c->plan, a.model.vocab)});
  const Training with = train(a, steps, true), without = train(a, steps, false);
  check_same(with, without);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::size_t n = own_tasks(a.plan, rank), m = own_tasks(b.plan, rank);
    CHECK(with.graphs[rank] == std::vector<std::size_t>{0, n, 0, 0, n, n, 0, m});
  }
}

TEST_CASE("CUDA: plans whose stores have the same places are told apart by their slices") {
  const auto three_packs = [](const std::vector<Tokens>& lengths) {
    Plan plan = whole_stages(sample_plan({.samples = 3, .pipelines = 1, .stages = 1}));
    plan.tokens = lengths;
    auto& order = plan.pipelines[0].order[0];
    order.clear();
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      PassPlan& packs = pass == Pass::forward ? plan.forward : plan.backward;
      packs = {};
      for (SampleId sample = 0; sample < lengths.size(); ++sample) {
        packs.packs.add({sample, 0, lengths[sample]});
        packs.packs.close();
        packs.pipelines.add_row(1, 0);
        packs.seconds.add_row(1, 1e-3);
        packs.flops.push_back({});
        packs.transfer_seconds.close();
        packs.sharding.push_back(Sharding::none);
        if (pass == Pass::backward) packs.recompute_layers.add_row(1, 0);
        order.push_back({pass, sample});
      }
    }
    return plan;
  };
  // What is held is most when the first backward pack begins.
  const StageCase a = case_of(three_packs({45, 30, 20}), 2);
  const Plan other = three_packs({45, 20, 30});
  std::vector<StepBatch> steps;
  std::mt19937 random(5);
  for (const Plan* plan : std::vector<const Plan*>{&a.plan, &a.plan, &other, &other, &other, &a.plan})
    steps.push_back({*plan, random_ids(random, *plan, a.model.vocab)});
  const Training with = train(a, steps, true), without = train(a, steps, false);
  check_same(with, without);
  CHECK(with.graphs[0] == std::vector<std::size_t>{0, 6, 0, 6, 6, 0});
}

TEST_CASE("CUDA: each update of steps of graphs has its own rate and number") {
  const StageCase c =
      case_of(sample_plan({.seed = 5, .samples = 3, .pipelines = 1, .stages = 1, .max_tokens = 60}), 5);
  const StageProgram program(c.plan, 0, 0);
  const auto steps = repeated(c, 5, 1);
  const auto run = [&](bool graphs, bool decay) {
    StageOptions options = c.options.stage;
    options.graphs = graphs;
    HostDevice::next_seed() = graphs ? 1 : 9;
    Stage stage(stage_part(c.model, c.plan, 0, 0), options);
    stage.initialise(c.options.init);
    stage.set_replicas({});
    for (std::size_t i = 0; i < steps.size(); ++i) {
      stage.begin_step(program, steps[i].ids);
      for (const StageTask& task : program.tasks()) {
        static_cast<void>(task.pass == Pass::forward ? stage.forward(task, {}) : stage.backward(task, {}));
        stage.release(task);
      }
      static_cast<void>(stage.loss());
      CHECK(stage.graph_tasks() == (graphs && i > 0 ? program.tasks().size() : 0));
      const double rate = decay ? 1e-2 / static_cast<double>(i + 1) : 1e-2;
      stage.update(static_cast<std::int64_t>(i + 1), {.learning_rate = rate});
    }
    std::vector<float> weights(stage.weight_layout().size());
    stage.read_weights(weights);
    return weights;
  };
  const auto with = run(true, true), without = run(false, true);
  CHECK((with == without));
  CHECK((with != run(true, false)));
}

TEST_CASE("CUDA: an update waits for the device, and products are tried between steps alone") {
  const StageCase c =
      case_of(sample_plan({.seed = 6, .samples = 3, .pipelines = 1, .stages = 1, .max_tokens = 60}), 6);
  const StageProgram program(c.plan, 0, 0);
  const auto steps = repeated(c, 3, 1);
  for (const bool tries : {false, true}) {
    StageOptions options = c.options.stage;
    options.try_products = tries;
    Stage stage(stage_part(c.model, c.plan, 0, 0), options);
    stage.initialise(c.options.init);
    stage.set_replicas({});
    const std::size_t before = HostDevice::products_tried();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      stage.begin_step(program, steps[i].ids);
      CHECK(HostDevice::products_tried() - before == (tries ? i + 1 : 0));
      HostDevice::memory_is_fixed() = true;
      for (const StageTask& task : program.tasks()) {
        static_cast<void>(task.pass == Pass::forward ? stage.forward(task, {}) : stage.backward(task, {}));
        stage.release(task);
      }
      static_cast<void>(stage.loss());
      stage.update(static_cast<std::int64_t>(i + 1), {});
      HostDevice::memory_is_fixed() = false;
      CHECK(HostDevice::is_idle());
    }
  }
}

TEST_CASE("CUDA: a step that ended early is not captured: not all of it has been used before") {
  const StageCase c =
      case_of(sample_plan({.seed = 5, .samples = 3, .pipelines = 1, .stages = 1, .max_tokens = 40}), 5);
  const StageProgram program(c.plan, 0, 0);
  Stage stage(stage_part(c.model, c.plan, 0, 0), c.options.stage);
  stage.initialise(c.options.init);
  const auto run = [&](std::size_t tasks) {
    stage.begin_step(program, c.ids);
    for (const StageTask& task : program.tasks().first(tasks))
      static_cast<void>(task.pass == Pass::forward ? stage.forward(task, {}) : stage.backward(task, {}));
    return stage.graph_tasks();
  };
  const std::size_t all = program.tasks().size();
  CHECK(run(1) == 0);
  CHECK(run(all) == 0);
  CHECK(run(1) == 1);
  CHECK(run(all) == all);
}

TEST_CASE("a device that captures refuses what a GPU refuses then") {
  HostDevice device;
  HostDevice::Event event, other;
  auto memory = device.memory(64, "it");
  const auto bytes = memory.bytes();
  device.record(event, Queue::arrive);
  const auto error_of = [&](const std::function<void()>& work) -> std::string {
    try {
      static_cast<void>(device.capture(work));
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(error_of([&] { device.fill(Queue::compute, bytes, 1); }).empty());
  CHECK(error_of([&] { device.fill(Queue::arrive, bytes, 1); }) ==
        "while a graph is captured, another queue is given work");
  CHECK(error_of([&] { device.copy(Queue::leave, bytes.data(), bytes.data() + 32, 8); }) != "");
  CHECK(error_of([&] { device.record(other, Queue::compute); }) ==
        "while a graph is captured, an event is recorded");
  CHECK(error_of([&] { device.wait(Queue::compute, event); }) ==
        "while a graph is captured, a queue waits for an event from elsewhere");
  CHECK(error_of([&] { device.wait(event); }) == "while a graph is captured, the host waits");
  CHECK(error_of([&] { device.wait_all(); }) == "while a graph is captured, the host waits");
  CHECK(error_of([&] { static_cast<void>(device.reached(event)); }) != "");
  CHECK(error_of([&] { static_cast<void>(device.memory(8, "it")); }) ==
        "while a graph is captured, memory is taken");
  CHECK(error_of([&] { static_cast<void>(device.host_memory(8)); }) != "");
  CHECK(error_of([&] { static_cast<void>(device.capture([] {})); }) != "");
  CHECK(error_of([&] { device.stream(Queue::from_before).add([] { return true; }); }) != "");

  const std::vector<kernels::cuda::Bf16> zeros(64);
  std::vector<float> sums(64);
  const MatrixView<const kernels::cuda::Bf16> a(zeros.data(), 8, 8);
  const MatrixView<float> c(sums.data(), 8, 8);
  const auto multiply = [&] { device.multiply(kernels::cuda::Product::multiply, a, a, c, Update::set); };
  CHECK(error_of(multiply) == "while a graph is captured, a product's way is chosen");

  // What is captured is not done, but each time that it is replayed.
  device.fill(Queue::compute, bytes, 2);
  const HostDevice::Graph graph = device.capture([&] { device.fill(Queue::compute, bytes, 3); });
  device.wait_all();
  CHECK(bytes[0] == std::byte{2});
  device.replay(graph);
  device.wait_all();
  CHECK(bytes[0] == std::byte{3});
  CHECK_THROWS_AS(device.replay({}), std::logic_error);
}
