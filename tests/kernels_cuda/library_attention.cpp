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
#include "kernels/cuda/stage_definitions.hpp"
#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "slimpack/plan/memory.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels_cuda/host_device.hpp"
#include "tests/kernels_cuda/random_bf16.hpp"
#include "tests/kernels_cuda/stage_case.hpp"
#include "tests/kernels_cuda/thread_links.hpp"
#include "tests/plan/sample_plan.hpp"

// A stage whose attention is another implementation's: plain loops here, cuDNN on a GPU.
using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::bench::Outcome, slimpack::bench::StageCase;
using namespace slimpack::kernels::cuda;
using slimpack::testing::bf16_tolerance, slimpack::testing::BusyTransport, slimpack::testing::case_of,
    slimpack::testing::HostDevice, slimpack::testing::random_ids, slimpack::testing::relative_error,
    slimpack::testing::sample_plan;

namespace {

using Stage = DeviceStage<HostDevice>;
using Planned = PlannedAttention<HostDevice::Stream>;

/// Calls f(query head, query's row, key's row, score) for what each query of a slice sees.
template <class F>
void for_each_pair(const PackProblem& p, const AttentionSlice& s, const AttentionInput& in, F&& f) {
  const std::size_t dim = p.shape.head_dim;
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  for (std::size_t head = 0; head < p.shape.heads; ++head) {
    for (std::int32_t t = 0; t < s.tokens; ++t) {
      const auto row = static_cast<std::size_t>(s.query_begin + t);
      for (std::int32_t k = 0; k <= s.prefix + t; ++k) {
        const auto key = static_cast<std::size_t>(s.key_begin + k);
        double score = 0.0;
        for (std::size_t i = 0; i < dim; ++i) {
          score += static_cast<double>(to_float(in.q.row(row)[head * dim + i])) *
                   to_float(in.k.row(key)[head / p.shape.group() * dim + i]);
        }
        f(head, row, key, score * scale);
      }
    }
  }
}

void attend(const PackProblem& p, const AttentionSlice& s, const PackMatrices& m) {
  const std::size_t dim = p.shape.head_dim;
  std::vector<double> sums(p.shape.heads * p.tokens), outs(p.tokens * p.shape.query_width());
  for_each_pair(p, s, m.in, [&](std::size_t head, std::size_t row, std::size_t key, double score) {
    const double weight = std::exp(score);
    sums[head * p.tokens + row] += weight;
    for (std::size_t i = 0; i < dim; ++i) {
      outs[row * p.shape.query_width() + head * dim + i] +=
          weight * to_float(m.in.v.row(key)[head / p.shape.group() * dim + i]);
    }
  });
  for (std::int32_t t = 0; t < s.tokens; ++t) {
    const auto row = static_cast<std::size_t>(s.query_begin + t);
    for (std::size_t i = 0; i < p.shape.query_width(); ++i) {
      const double sum = sums[i / dim * p.tokens + row];
      m.out.row(row)[i] = to_bf16(static_cast<float>(outs[row * p.shape.query_width() + i] / sum));
      m.lse.row(i / dim)[row] = static_cast<float>(std::log(sum));
    }
  }
}

void attend_backward(const PackProblem& p, const AttentionSlice& s, const PackMatrices& m) {
  const std::size_t dim = p.shape.head_dim, width = p.shape.query_width();
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  std::vector<double> dq(p.tokens * width);
  for_each_pair(p, s, m.in, [&](std::size_t head, std::size_t row, std::size_t key, double score) {
    const std::size_t shared = head / p.shape.group() * dim,
                      to = static_cast<std::size_t>(
                          gradient_row(s, static_cast<std::int32_t>(key) - s.key_begin, p.gradient_pieces));
    const double weight = std::exp(score - static_cast<double>(m.lse.row(head)[row]));
    double made = 0.0, delta = 0.0;
    for (std::size_t i = 0; i < dim; ++i) {
      const double dout = to_float(m.dout.row(row)[head * dim + i]);
      made += dout * to_float(m.in.v.row(key)[shared + i]);
      delta += dout * to_float(m.out.row(row)[head * dim + i]);
      m.dv.row(to)[shared + i] += static_cast<float>(weight * dout);
    }
    const double dscore = weight * (made - delta) * scale;
    for (std::size_t i = 0; i < dim; ++i) {
      dq[row * width + head * dim + i] += dscore * to_float(m.in.k.row(key)[shared + i]);
      m.dk.row(to)[shared + i] += static_cast<float>(dscore * to_float(m.in.q.row(row)[head * dim + i]));
    }
  });
  for (std::int32_t t = 0; t < s.tokens; ++t) {
    const auto row = static_cast<std::size_t>(s.query_begin + t);
    for (std::size_t i = 0; i < width; ++i)
      m.dq.row(row)[i] = to_bf16(static_cast<float>(dq[row * width + i]));
  }
}

struct LibraryOptions {
  std::size_t workspace = 64;
  bool refuses_gradients = false;
};

/// Checks what a library is given, and that its lists are in the device's memory.
AttentionLibrary<HostDevice::Stream> plain_library(const LibraryOptions& options = {}) {
  return [options](const PackProblem& given) {
    Planned out;
    if (given.gradients && options.refuses_gradients) {
      out.refusal = "it has no gradients";
      return out;
    }
    out.workspace_bytes = options.workspace;
    out.lists.resize(given.slices.size() * sizeof(AttentionSlice));
    std::memcpy(out.lists.data(), given.slices.data(), out.lists.size());
    const auto problem = std::make_shared<const PackProblem>(given);
    const auto call = [problem, workspace = options.workspace](auto work) {
      return [=](const PackMatrices& m, HostDevice::Stream stream) {
        const PackProblem& p = *problem;
        const auto stride = [](const auto& matrix) { return static_cast<std::int64_t>(matrix.stride); };
        require(stride(m.in.q) == p.strides.q && stride(m.in.k) == p.strides.k &&
                    stride(m.in.v) == p.strides.v && stride(m.out) == p.strides.out &&
                    m.in.q.rows == p.tokens && m.in.k.rows == p.cache,
                "matrices have other shapes than the library was told");
        require(!p.gradients || m.dq.stride == static_cast<std::size_t>(p.strides.dq),
                "dq has another stride");
        require(m.workspace.size() >= workspace, "the workspace is too small");
        stream.add([=] {
          std::fill_n(m.workspace.begin(), workspace, std::byte{0xee});
          std::vector<AttentionSlice> slices(problem->slices.size());
          std::memcpy(slices.data(), m.lists, slices.size() * sizeof(AttentionSlice));
          for (const AttentionSlice& s : slices) work(*problem, s, m);
          return true;
        });
      };
    };
    out.forward = call(attend);
    out.backward = call(attend_backward);
    return out;
  };
}

/// @returns what the ranks' last steps ran, too.
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
    const auto [outcome, uses] = run_with(c, {.workspace = 1001});
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
