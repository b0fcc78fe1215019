// InfiniPipe's equations 1 to 11 (section 3.1), worked out from the device's and the model's constants, and what the shared prices and
// memory say of the same chunks: a Llama of 13B, which has a key for each query, on 4 stages of 8 A800s that exchange heads.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/priced_models.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/schedule/checkpointing.hpp"
#include "slimpack/schedule/scheduler.hpp"

using namespace slimpack;

namespace {

constexpr double e = 2.0;                            // bytes of a number
constexpr double D = 5120.0, L = 40.0, F = 13824.0;  // hidden, layers, width of the MLP
constexpr double d_s = 8.0, d_p = 4.0;               // ranks of a stage, stages

Job job_13b() {
  return {transformer_preset("llama-13b"), device_preset("a800"), {.dp = 1, .tp = 1, .cp = 8, .pp = 4}};
}

/// The paper prices no traffic of a slice's prefix.
CalibratedCost cost_of(const Job& job) {
  return CalibratedCost(job, {.exchanges = {KeyExchange::all_to_all}, .prefix = false});
}

struct Pricer {
  Job job = job_13b();
  std::vector<Tokens> lengths;
  PricedModels models = price_models(job, cost_of(job), TransformerMemory(job), NoAttentionModel{});
  Scheduler scheduler;

  explicit Pricer(std::vector<Tokens> samples)
      : lengths(std::move(samples)), scheduler(lengths, models.prices, models.memory) {}
};

/// {C, S}: a tail of `tail` tokens after `context`, and whole samples.
struct Chunk {
  Tokens context = 0, tail = 0;
  std::vector<Tokens> whole;

  [[nodiscard]] double tokens() const {
    return static_cast<double>(std::accumulate(whole.begin(), whole.end(), tail));
  }
};

Chunk random_chunk(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](Tokens lo, Tokens hi) {
    return std::uniform_int_distribution<Tokens>(lo, hi)(random);
  };
  Chunk chunk{.context = pick(1, 100000), .tail = pick(1, 20000), .whole = {}};
  for (Tokens i = pick(0, 5); i > 0; --i) chunk.whole.push_back(pick(1, 9000));
  return chunk;
}

/// A batch of the chunk's samples: the cut one in two chunks, of which this is the second.
Pricer pricer_of(const Chunk& chunk, Schedule& packs) {
  std::vector<Tokens> lengths{chunk.context + chunk.tail};
  std::vector<Slice> own{{0, chunk.context, lengths[0]}};
  for (const Tokens length : chunk.whole) {
    own.push_back({static_cast<SampleId>(lengths.size()), 0, length});
    lengths.push_back(length);
  }
  const std::vector<Slice> before{{0, 0, chunk.context}};
  Packs forward, backward;
  forward.repeat_row(1, before);
  forward.repeat_row(1, own);
  backward.repeat_row(1, own);
  backward.repeat_row(1, before);
  packs.pipelines = 1;
  packs.forward = in_rows(std::move(forward));
  packs.backward = in_rows(std::move(backward));
  return Pricer(std::move(lengths));
}

/// Eq. 1 on a stage, with the constants that the device has.
double computation(const Device& device, const Chunk& chunk, Pass pass) {
  const bool forward = pass == Pass::forward;
  const double gemm = forward ? device.gemm_efficiency : device.gemm_backward_efficiency,
               attention = forward ? device.attention_forward : device.attention_backward;
  const double N = d_s * d_p;
  const double alpha_1 = L * (forward ? 1.0 : 2.5) * 2.0 * D / (device.peak_flops * attention);
  const double products = (8.0 * D * D + 6.0 * D * F) * (forward ? 1.0 : 2.0) / (device.peak_flops * gemm);
  const double streamed =
      e * (10.0 * D + 2.0 * 2.0 * D + 3.0 * F) * (forward ? 1.0 : 2.0) / device.memory_bandwidth;
  const double alpha_2 = L * (products + streamed) + alpha_1;  // a token also sees itself
  const double beta_1 = device.pack_overhead * d_p;
  const auto squared = [](double x) { return x * x; };
  const auto C = static_cast<double>(chunk.context), s_0 = static_cast<double>(chunk.tail);
  double sum = alpha_1 * (squared(C + s_0) - squared(C)) + alpha_2 * s_0;
  for (const Tokens length : chunk.whole) {
    const auto s = static_cast<double>(length);
    sum += alpha_1 * squared(s) + alpha_2 * s;
  }
  return sum / N + beta_1 / d_p;
}

/// Eq. 2.
double communication(double bytes, const Link& link, double frequency) {
  return (bytes / link.bandwidth + link.latency) * frequency;
}

/// Eq. 3: a rank keeps 1 / d_s of what it has, which the paper counts as sent; latency is part of what a chunk costs besides.
double all_to_all(const Device& device, const Chunk& chunk) {
  const double sent = (d_s - 1.0) / d_s;
  return communication(sent * e * D * chunk.tokens() / d_s, {device.intra_node.bandwidth, 0.0},
                       4.0 * L / d_p);
}

}  // namespace

TEST_CASE("Eq. 1, 3 and 4: a chunk's seconds are those of its computation and of four all-to-alls a layer") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const Chunk chunk = random_chunk(seed);
    Schedule packs;
    Pricer pricer = pricer_of(chunk, packs);
    pricer.scheduler.price(packs);
    constexpr std::size_t stage = 1;  // without an output head
    const auto total = [&](Pass pass) {
      return computation(pricer.job.device, chunk, pass) + all_to_all(pricer.job.device, chunk);
    };
    CHECK(packs.forward_times.seconds[4 + stage] == Approx(total(Pass::forward)).epsilon(1e-9));
    CHECK(packs.backward_times.seconds[stage] == Approx(total(Pass::backward)).epsilon(1e-9));
  }
}

TEST_CASE("Eq. 2: what the next stage gets takes volume over bandwidth, and latency") {
  const Job job = job_13b();
  const CalibratedCost cost = cost_of(job);
  for (const Tokens tokens : {1, 1000, 65536}) {
    const double bytes = e * D * static_cast<double>(tokens) / d_s;
    CHECK(cost.transfer_seconds(1, tokens, Pass::forward) ==
          Approx(communication(bytes, job.device.inter_node, 1.0)).epsilon(1e-12));
  }
}

TEST_CASE("Eq. 5, 9 and 10: activations, gradients of keys and values, and what recomputed layers keep") {
  const Job job = job_13b();
  const TransformerMemory memory(job);
  const double M_token = L * (e * (4.0 * D + 4.0 * D + 3.0 * F) + 4.0 * job.model.heads);
  const double N = d_s * d_p;
  for (std::size_t p = 0; p < 4; ++p) {
    // Of a token. Unlike the paper, tails (I_k = 1) have gradients and keep keys and values like all others.
    CHECK(memory.activation_bytes(p, 0) + memory.kv_gradient_bytes(p) ==
          Approx(M_token / N + 2.0 * e * L * D / N).epsilon(1e-12));
    for (int l_ckpt = 0; l_ckpt <= 10; ++l_ckpt) {
      const double M_ckpt = 3.0 * e * D * l_ckpt / d_s;
      CHECK(memory.activation_bytes(p, l_ckpt) ==
            Approx((L - l_ckpt * d_p) / L * M_token / N + M_ckpt).epsilon(1e-12));
    }
  }
}

TEST_CASE(
    "Eq. 6 to 8: a stage's peak is its model states, the chunks of its window, and a task's workspace") {
  constexpr Tokens size = 4000;
  for (const Tokens prefill : {1, 2, 5}) {
    std::vector<Tokens> lengths{prefill * size};
    lengths.resize(12, size);
    Pricer pricer(lengths);
    Packs forward, backward;
    for (Tokens c = 0; c < prefill; ++c) {
      forward.repeat_row(1, std::vector<Slice>{{0, c * size, (c + 1) * size}});
      backward.repeat_row(1, std::vector<Slice>{{0, (prefill - c - 1) * size, (prefill - c) * size}});
    }
    for (SampleId id = 1; id < lengths.size(); ++id) {
      for (Packs* const pass : {&forward, &backward}) pass->repeat_row(1, std::vector<Slice>{{id, 0, size}});
    }
    Schedule packs;
    packs.pipelines = 1;
    packs.forward = in_rows(std::move(forward));
    packs.backward = in_rows(std::move(backward));
    const TransformerMemory memory(pricer.job);
    for (const std::int32_t recomputed : {0, 3, 10}) {
      const auto peaks = pricer.scheduler.peak_bytes(
          packs, Recompute(std::vector<std::int32_t>(4, recomputed)), {.order = PassOrder::steady});
      for (std::size_t s = 0; s < 4; ++s) {
        INFO("N_prefill " << prefill << ", stage " << s << ", " << recomputed << " recomputed");
        const double p = static_cast<double>(s) + 1.0, window = d_p - p + static_cast<double>(prefill);
        const double held =
            static_cast<double>(size) * (window * memory.activation_bytes(s, recomputed) +
                                         static_cast<double>(prefill) * memory.kv_gradient_bytes(s));
        CHECK(peaks[0][s] == Approx(memory.static_bytes(s) + held +
                                    memory.workspace_bytes(s, Pass::backward, size, recomputed))
                                 .epsilon(1e-12));
      }
    }
  }
}

TEST_CASE(
    "Eq. 11: recomputed layers take their share of the forward pass again, but for what a chunk costs "
    "besides") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Chunk chunk = random_chunk(seed);
    Schedule packs;
    Pricer pricer = pricer_of(chunk, packs);
    const auto l_ckpt = static_cast<std::int32_t>(seed % 11);
    INFO("seed " << seed << ", " << l_ckpt << " layers");
    pricer.scheduler(packs, Recompute(std::vector<std::int32_t>(4, 0)));
    const double without = packs.backward_times.seconds[1];
    pricer.scheduler(packs, Recompute(std::vector<std::int32_t>(4, l_ckpt)));
    const double forward = computation(pricer.job.device, chunk, Pass::forward) -
                           pricer.job.device.pack_overhead + all_to_all(pricer.job.device, chunk);
    CHECK(packs.backward_times.seconds[1] - without == Approx(l_ckpt / (L / d_p) * forward).margin(1e-12));
  }
}

TEST_CASE("Eq. 15 and 16: diagonals of stages and backward rows recompute the same") {
  const CheckpointDiagonals diagonals{.rows = 9, .stages = 4};
  CHECK(diagonals.count() == 9 + 4 - 1);
  for (std::size_t k = 0; k + 1 < 9; ++k) {
    for (std::size_t s = 0; s + 1 < 4; ++s) CHECK(diagonals.of(k, s) == diagonals.of(k + 1, s + 1));
  }
  CHECK(diagonals.of(0, 3) == 0);
  CHECK(diagonals.of(8, 0) == 11);
}
