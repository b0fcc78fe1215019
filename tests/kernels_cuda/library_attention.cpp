#include "kernels/cuda/library_attention.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/stage.hpp"
#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "slimpack/plan/memory.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels_cuda/host_device.hpp"
#include "tests/kernels_cuda/host_stage.hpp"
#include "tests/kernels_cuda/plain_library.hpp"
#include "tests/kernels_cuda/stage_case.hpp"
#include "tests/kernels_cuda/thread_links.hpp"
#include "tests/kernels_cuda_device/random_bf16.hpp"
#include "tests/plan/sample_plan.hpp"

// A stage whose attention is another implementation's: plain loops here, cuDNN on a GPU.
using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::bench::Outcome, slimpack::bench::StageCase;
using namespace slimpack::kernels::cuda;
using slimpack::testing::bf16_tolerance, slimpack::testing::BusyTransport, slimpack::testing::case_of,
    slimpack::testing::HostDevice, slimpack::testing::LibraryOptions, slimpack::testing::plain_library,
    slimpack::testing::random_ids, slimpack::testing::relative_error, slimpack::testing::sample_plan;

namespace {

using Stage = slimpack::testing::HostStage;

/// @returns also what the ranks' last steps ran.
std::pair<Outcome, std::vector<AttentionUse>> run_with(const StageCase& c, const LibraryOptions& options,
                                                       std::int32_t rows = attention_rows) {
  std::vector<std::unique_ptr<BusyTransport>> transports(rank_count(c.plan));
  std::vector<AttentionUse> uses(rank_count(c.plan));
  struct Executor {
    Executor(BusyTransport& t, const StageCase& c, const LibraryOptions& options, AttentionUse& last)
        : executor(t, c.model, c.plan, c.options), use(last) {
      stage().set_attention(plain_library(options));
    }
    Stage& stage() { return executor.stage(); }
    StepReport step(const Plan& plan, const Ragged<std::int32_t>& ids) {
      const StepReport report = executor.step(plan, ids);
      use = executor.stage().attention_use();
      return report;
    }

    RankExecutor<Stage, BusyTransport> executor;
    AttentionUse& use;
  };
  Outcome outcome = bench::run_executors(c, [&](InProcessTransport& t) {
    HostDevice::next_seed() = static_cast<std::uint32_t>(100 * t.rank() + 1);
    HostDevice::next_attention_rows() = rows;
    transports[t.rank()] = std::make_unique<BusyTransport>(t);
    return Executor(*transports[t.rank()], c, options, uses[t.rank()]);
  });
  return {std::move(outcome), std::move(uses)};
}

void check_close(const Outcome& result, const Outcome& expected) {
  CHECK(std::abs(result.loss - expected.loss) <= bf16_tolerance * std::abs(expected.loss));
  for (const auto& [name, numbers] : expected.weights) {
    INFO(name);
    CHECK(relative_error(result.weights.at(name), numbers) <= bf16_tolerance);
  }
}

StageCase library_case(unsigned seed, const slimpack::testing::SamplePlanOptions& options) {
  StageCase c = case_of(sample_plan(options), seed);
  c.options.stage.attention = AttentionChoice::cudnn;
  c.options.stage.attention_workspace = 1000;
  return c;
}

}  // namespace

TEST_CASE("CUDA: a stage trains with a library's attention") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    StageCase c = library_case(seed, {.seed = seed,
                                      .samples = 2 + seed % 3,
                                      .deferred = seed % 2,
                                      .pipelines = 1 + seed % 2,
                                      .stages = 1 + seed % 2,
                                      .max_tokens = 60,
                                      .split_weights = seed == 4});
    c.steps = seed % 3 == 0 ? 3 : 1;  // the third one's tasks would be graphs
    const auto [outcome, uses] = run_with(c, {}, seed == 5 ? group_attention_rows : attention_rows);
    check_close(outcome, bench::run_reference(c));
    for (std::size_t rank = 0; rank < uses.size(); ++rank) {
      CHECK(uses[rank].library > 0);
      CHECK(uses[rank].ours == 0);
      CHECK(uses[rank].refusal.empty());
      CHECK(outcome.reports[rank].graph_tasks == 0);
    }
  }
}

TEST_CASE("CUDA: packs that a library refuses run our attention, and one of them is named") {
  StageCase c = library_case(3, {.seed = 3, .samples = 3, .pipelines = 1, .stages = 1, .max_tokens = 60});
  const Outcome expected = bench::run_reference(c);
  const std::size_t forward = c.plan.forward.packs.size(), backward = c.plan.backward.packs.size();
  {
    const auto [outcome, uses] = run_with(c, {.refuses_gradients = true});
    check_close(outcome, expected);
    CHECK(uses[0].library == forward);
    CHECK(uses[0].ours == backward);
    CHECK_THAT(uses[0].refusal, Catch::StartsWith("B") && Catch::EndsWith(": it has no gradients"));
  }
  {
    const auto [outcome, uses] = run_with(c, {.any_order = true});
    check_close(outcome, expected);
    CHECK(uses[0].any_order == backward);
    CHECK(uses[0].library == forward + backward);
  }
  {
    const auto [outcome, uses] = run_with(c, {.workspace = 1001});
    CHECK(uses[0].any_order == 0);
    check_close(outcome, expected);
    CHECK(uses[0].library == 0);
    CHECK(uses[0].ours == forward + backward);
    CHECK_THAT(uses[0].refusal, Catch::EndsWith(": it needs a workspace of 1001 bytes, of 1000"));
  }
  StageCase merged = library_case(
      5, {.seed = 5, .samples = 4, .merged = 2, .members = 2, .pipelines = 2, .stages = 1, .max_tokens = 60});
  const auto [outcome, uses] = run_with(merged, {});
  check_close(outcome, bench::run_reference(merged));
  for (const AttentionUse& use : uses) {
    CHECK(use.library > 0);
    CHECK(use.ours > 0);
    CHECK_THAT(use.refusal, Catch::EndsWith(": members of a merged pack share its attention"));
  }
}

TEST_CASE("CUDA: a library's workspace counts in what a stage holds") {
  StageCase c = library_case(2, {.seed = 2, .samples = 3, .pipelines = 1, .stages = 2, .max_tokens = 60});
  c.options.stage.attention_workspace = 1 << 20;
  const auto [with, uses] = run_with(c, {.workspace = 1 << 20});
  StageCase ours = c;
  ours.options.stage.attention = AttentionChoice::ours;
  const auto [without, none] = run_with(ours, {});
  const auto& layers = c.plan.pipelines[0].layers;
  const Stage::Memory memory(c.model, layers, sizeof(float), c.options.stage),
      less(c.model, layers, sizeof(float), ours.options.stage);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(memory.static_bytes(rank) - less.static_bytes(rank) == 1 << 20);
    // The tasks' lists take some of the arena.
    CHECK(with.reports[rank].peak_bytes - without.reports[rank].peak_bytes == Approx(1 << 20).epsilon(0.01));
    CHECK(none[rank].library == 0);
    CHECK(none[rank].refusal.empty());
    CHECK(none[rank].ours == uses[rank].library);
  }
}

TEST_CASE("CUDA: a library's attention that was chosen and not given is an error") {
  const StageCase c =
      library_case(1, {.seed = 1, .samples = 2, .pipelines = 1, .stages = 1, .max_tokens = 20});
  CHECK_THROWS_WITH(slimpack::testing::run_through_host<Stage>(c, [](std::size_t) {}),
                    Catch::Contains("a library's attention is chosen for stage 0 of pipeline 0") &&
                        Catch::Contains("expected set_attention before its first step"));
}
