#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/gpu/stage_run.hpp"
#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "tests/effort.hpp"
#include "tests/kernels_cuda/host_device.hpp"
#include "tests/kernels_cuda/host_stage.hpp"
#include "tests/kernels_cuda/stage_case.hpp"
#include "tests/kernels_cuda/thread_links.hpp"
#include "tests/kernels_cuda_device/random_bf16.hpp"
#include "tests/plan/naive_run.hpp"
#include "tests/plan/sample_plan.hpp"

// Whole training steps of a GPU's stages whose rows, gradients and weights go from device to device.
using namespace slimpack;
using namespace slimpack::kernels;
using namespace std::chrono_literals;
using slimpack::bench::Outcome, slimpack::bench::StageCase, slimpack::bench::run_executors;
using slimpack::testing::BusyTransport, slimpack::testing::HostDevice, slimpack::testing::LinkHub,
    slimpack::testing::ThreadLinks, slimpack::testing::case_of, slimpack::testing::few,
    slimpack::testing::seeds;

namespace {

using Stage = slimpack::testing::HostStage;
using Linked = RankExecutor<Stage, BusyTransport, ThreadLinks>;

struct LinkOptions {
  std::size_t order = 1;  ///< seed of the times at which queues do their work
  bool early = false;     ///< sends may be over before their receives
  std::function<void(BusyTransport&, std::string_view task)> hook = {};
  InProcessOptions transport = {};
};

Outcome run_linked(const StageCase& c, const LinkOptions& options = {}) {
  const PlanRanks table(c.plan);
  const auto hub = std::make_shared<LinkHub>();
  std::vector<std::unique_ptr<BusyTransport>> transports(table.size());
  StageCase with_waits = c;
  with_waits.options.waits = options.transport;
  return run_executors(
      with_waits,
      [&](InProcessTransport& t) {
        HostDevice::next_seed() = static_cast<std::uint32_t>(100 * t.rank() + options.order);
        auto& busy = transports[t.rank()] = std::make_unique<BusyTransport>(t, true);
        if (options.hook) busy->set_hook([&](std::string_view task) { options.hook(*busy, task); });
        return Linked(*busy, c.model, c.plan, with_waits.options,
                      ThreadLinks(hub, t.rank(), table, options.early));
      },
      options.transport);
}

Outcome run_through_host(const StageCase& c) {
  return slimpack::testing::run_through_host<Stage>(
      c, [](std::size_t rank) { HostDevice::next_seed() = static_cast<std::uint32_t>(100 * rank + 7); });
}

void check_same(const StageCase& c, const Outcome& result, const Outcome& expected) {
  CHECK(result.loss == expected.loss);
  CHECK((result.weights == expected.weights));
  // Sharded, replicas keep the sums of their shares alone.
  if (!c.options.shard_optimiser || c.plan.pipelines.size() == 1)
    CHECK((result.gradients == expected.gradients));
}

/// With sends that are over early, and with none; where few are run, with the one or the other.
void check_linked(const StageCase& c, const Outcome& expected, unsigned seed) {
  for (const bool early : {false, true}) {
    if (few && early == (seed % 2 == 0)) continue;
    check_same(c, run_linked(c, {.order = seed + 40 * early, .early = early}), expected);
  }
}

}  // namespace

TEST_CASE("CUDA: rows from device to device give the same bits as through the host", "[threads]") {
  for (unsigned seed = 1; seed <= seeds(5, 4, 4); ++seed) {
    // Where few are run: both ways of sends, the second with shuffled orders and split weights, of no more than six ranks.
    if (few && seed != 1 && seed != 4) continue;
    INFO("seed " << seed);
    StageCase c = case_of(slimpack::testing::sample_plan({.seed = seed,
                                                          .samples = 3 + seed % 4,
                                                          .deferred = seed % 2,
                                                          .pipelines = 1 + seed % 3,
                                                          .stages = 1 + (seed + 1) % 4,
                                                          .max_tokens = 60,
                                                          .split_weights = seed % 4 == 0}),
                          seed);
    if (seed % 2 == 0) slimpack::testing::shuffle_orders(c.plan, seed);
    c.steps = seed % 3 == 0 ? 2 : 1;
    const Outcome expected = run_through_host(c);
    check_linked(c, expected, seed);
    const Outcome reference = slimpack::bench::run_reference(c);
    CHECK(std::abs(expected.loss - reference.loss) <=
          slimpack::testing::bf16_tolerance * std::abs(reference.loss));
  }
}

namespace {

/// Some of whose packs are merged.
StageCase merged_case(unsigned seed, MergedAttention merged, std::size_t stages = 0) {
  StageCase c = case_of(slimpack::testing::sample_plan({.seed = seed,
                                                        .samples = 4,
                                                        .merged = 1 + seed % 3,
                                                        .members = 2 + seed % 3,
                                                        .pipelines = 2 + seed % 3,
                                                        .stages = stages > 0 ? stages : 1 + seed % 3,
                                                        .max_tokens = 60,
                                                        .split_weights = seed % 3 == 0}),
                        seed);
  if (merged == MergedAttention::heads) {
    c.model.kv_heads = static_cast<std::int32_t>((2 + seed % 3) * (1 + seed % 2));
    c.model.heads = c.model.kv_heads * (1 + static_cast<std::int32_t>(seed / 2 % 2));
  }
  c.options.stage.merged = merged;
  c.options.stage.ring_tokens = 1 + seed * 7 % 20;
  c.options.block = 1 + static_cast<Tokens>(seed * 5 % 40);
  return c;
}

std::string linked_error(const StageCase& c, const LinkOptions& options) {
  try {
    run_linked(c, options);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
  return {};
}

/// A rank fails, or stands still, before each task of some passes: all others hear of it.
void check_ends(const StageCase& c, std::initializer_list<std::size_t> ranks) {
  for (const std::size_t rank : ranks) {
    for (const char first : {'F', 'B'}) {
      INFO("rank " << rank << " in its first " << first);
      const auto at_fault = [&](BusyTransport& t, std::string_view task) {
        return t.rank() == rank && task.size() > 1 && task[0] == first && task[1] <= '9';
      };
      CHECK(linked_error(c, {.hook = [&](BusyTransport& t, std::string_view task) {
                           if (at_fault(t, task)) throw std::runtime_error("no more");
                         }}) == "no more");
    }
  }
  LinkOptions still{.hook = [](BusyTransport& t, std::string_view task) {
    while (t.rank() == 1 && task[0] == 'B') {  // until the others have given up
      t.check();
      std::this_thread::sleep_for(1ms);
    }
  }};
  still.transport.timeout = 300ms;
  still.transport.grace = 200ms;
  CHECK_THAT(linked_error(c, still), Catch::Contains("work on the device is not done after 0.3 s"));
}

}  // namespace

// Where few are run: of these cases, seeds 3 with split weights and sends that are over early, 4 with three members on two
// stages each, and none with twelve ranks.
TEST_CASE("CUDA: members share heads from device to device with the same bits as through the host",
          "[threads]") {
  for (unsigned seed = seeds(1, 3, 4); seed <= 4; ++seed) {
    INFO("seed " << seed);
    const StageCase c = merged_case(seed, MergedAttention::heads);
    const Outcome expected = run_through_host(c);
    check_linked(c, expected, seed);
  }
}

TEST_CASE("CUDA: keys go round from device to device with the same bits as through the host", "[threads]") {
  for (unsigned seed = seeds(1, 3, 4); seed <= 4; ++seed) {
    INFO("seed " << seed);
    const StageCase c = merged_case(seed, MergedAttention::ring);
    const Outcome expected = run_through_host(c);
    check_linked(c, expected, seed);
  }
}

TEST_CASE("CUDA: when a rank fails or stands still within a step, links end on all", "[threads]") {
  check_ends(case_of(slimpack::testing::sample_plan(
                         {.seed = 3, .samples = 4, .pipelines = 2, .stages = 3, .max_tokens = 40}),
                     3),
             {0U, 1U, 2U, 4U});
}

TEST_CASE("CUDA: when a member of a merged pack fails or stands still, links end on all", "[threads]") {
  // Without neighbours: it is members alone that wait for each other.
  for (const MergedAttention merged : {MergedAttention::heads, MergedAttention::ring}) {
    INFO((merged == MergedAttention::ring ? "in a ring" : "by heads"));
    check_ends(merged_case(3, merged, 1), {0U, 1U});
  }
}

TEST_CASE("CUDA: waiting of the host within a step's tasks is an error") {
  HostDevice device;
  HostDevice::Event event;
  device.record(event, kernels::cuda::Queue::compute);
  HostDevice::host_may_not_wait() = true;
  CHECK_THROWS_WITH(device.wait(event), "within a step's tasks, the host waits for the device");
  CHECK_THROWS_AS(device.wait_all(), std::logic_error);
  HostDevice::host_may_not_wait() = false;
  CHECK_NOTHROW(device.wait_all());
  // Where rows go through the host, it has to wait: the same flag ends such a step.
  const StageCase c = case_of(slimpack::testing::sample_plan(
                                  {.seed = 1, .samples = 3, .pipelines = 1, .stages = 2, .max_tokens = 30}),
                              1);
  std::vector<std::unique_ptr<BusyTransport>> transports(rank_count(c.plan));
  CHECK_THROWS_WITH(run_executors(c,
                                  [&](InProcessTransport& t) {
                                    transports[t.rank()] = std::make_unique<BusyTransport>(t, true);
                                    return RankExecutor<Stage, BusyTransport>(*transports[t.rank()], c.model,
                                                                              c.plan, c.options);
                                  }),
                    Catch::Contains("within a step's tasks, the host waits for the device"));
}
