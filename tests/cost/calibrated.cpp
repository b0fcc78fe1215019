#include "slimpack/cost/calibrated.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "slimpack/cost/inverse.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/packs.hpp"
#include "slimpack/model/presets.hpp"

using namespace slimpack;

namespace {

Job job(std::int32_t tp = 1, std::int32_t cp = 1) {
  return {transformer_preset("llama-13b"), device_preset("h100"), {.dp = 2, .tp = tp, .cp = cp, .pp = 8}};
}

}  // namespace

TEST_CASE("a slice is priced on all stages at once as on each alone") {
  for (const std::int32_t cp : {1, 2, 3}) {
    const CalibratedCost plain(job(1, cp));
    std::vector<std::int32_t> recompute(plain.stages(), 0);
    recompute.front() = 2;
    for (const CalibratedCost& cost : {plain, plain.with_recompute(recompute)}) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        std::vector<double> seconds(cost.stages(), 1.0);
        cost.add_slice_seconds(1280, 5000, pass, seconds);
        for (std::size_t s = 0; s < cost.stages(); ++s) {
          CAPTURE(cp, s);
          CHECK(seconds[s] == Approx(1.0 + cost.slice_seconds(s, 1280, 5000, pass)).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE("FLOPs follow the plan format's formula and add up token by token") {
  const Transformer m = transformer_preset("llama-70b");
  const double h = 8192, a = 64, g = 8, d = 128, f = 28672;
  const Flops flops = slice_flops(m, 100, 356, Pass::forward);
  CHECK(flops.linear == Approx(256 * (2 * h * (a * d + 2 * g * d) + 2 * a * d * h + 6 * h * f)));
  CHECK(flops.attention == Approx(2 * a * d * (356.0 * 357 - 100.0 * 101)));
  Flops sum;
  for (Tokens t = 100; t < 356; ++t) sum += slice_flops(m, t, t + 1, Pass::backward);
  CHECK(sum.linear == Approx(2 * flops.linear));
  CHECK(sum.attention == Approx(2.5 * flops.attention));
  // A million tokens: nothing cancels or overflows.
  CHECK(twice_causal_pairs(999999, 1000000) == 2000000.0);
}

TEST_CASE("calibrated time is FLOPs over achieved rates, plus what moves memory") {
  const CalibratedCost cost(job());
  const Device d = device_preset("h100");
  const Flops flops = slice_flops(cost.job().model, 0, 4096, Pass::forward);
  const double compute = 5 * (flops.linear / (d.peak_flops * d.gemm_efficiency) +
                              flops.attention / (d.peak_flops * d.attention_forward));
  const double streamed = 5 * 4096.0 * 2 * (10.0 * 5120 + 2 * 128 * 80 + 3 * 13824) / d.memory_bandwidth;
  CHECK(cost.slice_seconds(3, 0, 4096, Pass::forward) == Approx(compute + streamed));
  CHECK(cost.slice_seconds(7, 0, 4096, Pass::forward) > cost.slice_seconds(3, 0, 4096, Pass::forward));
  CHECK(cost.slice_seconds(0, 100, 100, Pass::backward) == 0.0);
}

TEST_CASE(
    "dense products and attention have a rate of their own in each pass, and the head is one more product") {
  Job on = job(2, 1);
  on.device.memory_bandwidth = on.device.intra_node.bandwidth = 1e29;  // leaves FLOPs alone
  on.device.peak_flops = 1e15;
  on.device.gemm_efficiency = 0.5;
  on.device.gemm_backward_efficiency = 0.8;
  on.device.attention_forward = 0.4;
  on.device.attention_backward = 0.25;
  const CalibratedCost cost(on);
  // One layer of 13B, per token: 8 h h + 6 h f = 634388480; per pair: 4 h = 20480. Five layers, two devices.
  const double dense = 5 * 634388480.0 / 2, attention = 5 * 20480.0 / 2, head = 2 * 5120 * 32000.0 / 2;
  const double tokens = 1000, pairs = 1000 * 500 + 1000 * 1001 / 2;
  const double forward = tokens * dense / 0.5e15 + pairs * attention / 0.4e15;
  const double backward = tokens * 2 * dense / 0.8e15 + pairs * 2.5 * attention / 0.25e15;
  CHECK(cost.slice_seconds(3, 500, 1500, Pass::forward) == Approx(forward).epsilon(1e-9));
  CHECK(cost.slice_seconds(3, 500, 1500, Pass::backward) == Approx(backward).epsilon(1e-9));
  CHECK(cost.slice_seconds(7, 500, 1500, Pass::forward) ==
        Approx(forward + tokens * head / 0.5e15).epsilon(1e-9));
  CHECK(cost.slice_seconds(7, 500, 1500, Pass::backward) ==
        Approx(backward + tokens * 2 * head / 0.8e15).epsilon(1e-9));
  // What is recomputed runs forward, and at that pass's rates: two of five layers, and five on the last stage.
  const CalibratedCost again = cost.with_recompute(std::vector<std::int32_t>{0, 0, 0, 2, 0, 0, 0, 5});
  CHECK(again.slice_seconds(3, 500, 1500, Pass::backward) == Approx(backward + 0.4 * forward).epsilon(1e-9));
  CHECK(again.slice_seconds(7, 500, 1500, Pass::backward) ==
        Approx(backward + tokens * 2 * head / 0.8e15 + forward).epsilon(1e-9));
  CHECK(again.slice_seconds(7, 500, 1500, Pass::forward) == cost.slice_seconds(7, 500, 1500, Pass::forward));
}

TEST_CASE("a pack's constant is the device's, and its hidden states go to the next stage over the network") {
  const CalibratedCost cost(job()), shared(job(2, 4));
  Job slower = job();
  slower.device = device_preset("a800");
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    CHECK(cost.pack_seconds(0, pass) == 400e-6);
    CHECK(shared.pack_seconds(7, pass) == 400e-6);
    CHECK(CalibratedCost(slower).pack_seconds(0, pass) == 500e-6);
    // 4500 tokens of 5120 numbers are 46.08 MB; 45 GB/s and 15 us.
    CHECK(cost.transfer_seconds(4500, pass) == Approx(1.024e-3 + 15e-6).epsilon(1e-12));
    CHECK(shared.transfer_seconds(4500, pass) == Approx(0.128e-3 + 15e-6).epsilon(1e-12));
    CHECK(cost.transfer_seconds(0, pass) == 15e-6);
  }
}

TEST_CASE("stages add up, slices add up, recomputation adds forward layers") {
  for (const std::int32_t cp : {1, 4}) {
    const CalibratedCost cost(job(2, cp));
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      double sum = 0.0;
      for (std::size_t s = 0; s < cost.stages(); ++s) sum += cost.slice_seconds(s, 700, 9000, pass);
      CHECK(cost.pipeline_seconds(700, 9000, pass) == Approx(sum).epsilon(1e-12));
      const double parts = cost.pipeline_seconds(700, 5000, pass) + cost.pipeline_seconds(5000, 9000, pass);
      // Parts repeat communication, never less.
      CHECK(parts >= sum * (1 - 1e-12));
      if (cp == 1) CHECK(parts == Approx(sum).epsilon(1e-12));
    }
    const std::vector<std::int32_t> again{2, 0, 5, 0, 0, 0, 0, 1};
    const CalibratedCost more = cost.with_recompute(again);
    for (std::size_t s = 0; s < 7; ++s) {
      const double extra =
          more.slice_seconds(s, 0, 3000, Pass::backward) - cost.slice_seconds(s, 0, 3000, Pass::backward);
      CHECK(extra == Approx(cost.slice_seconds(s, 0, 3000, Pass::forward) * again[s] / 5.0).margin(1e-12));
      CHECK(more.slice_seconds(s, 0, 3000, Pass::forward) == cost.slice_seconds(s, 0, 3000, Pass::forward));
    }
  }
}

TEST_CASE("a context-parallel group shares the work and pays for the exchange") {
  const CalibratedCost one(job());
  for (const auto exchange : {ContextExchange::ring, ContextExchange::ulysses, ContextExchange::cheapest}) {
    const CalibratedCost base(job(), {.exchange = exchange});
    const CalibratedCost four = base.with_context_parallel(4);
    for (const Tokens begin : {0, 100000}) {
      const double shared = four.slice_seconds(2, begin, begin + 4096, Pass::backward);
      CHECK(shared >= one.slice_seconds(2, begin, begin + 4096, Pass::backward) / 4 * (1 - 1e-12));
    }
  }
  const CalibratedCost cheapest(job()), ring(job(), {.exchange = ContextExchange::ring});
  CHECK(cheapest.with_context_parallel(4).slice_seconds(2, 0, 512, Pass::forward) <=
        ring.with_context_parallel(4).slice_seconds(2, 0, 512, Pass::forward));
  const CalibratedCost ulysses(job(), {.exchange = ContextExchange::ulysses});
  CHECK(ulysses.supports_context_parallel(8));
  CHECK_FALSE(ulysses.supports_context_parallel(3));  // 40 heads
  CHECK_THROWS_WITH(ulysses.with_context_parallel(3), Catch::Contains("40 heads"));
  CHECK(ring.supports_context_parallel(3));
}

TEST_CASE("inverses find the longest slice within a budget") {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const CalibratedCost cost(job(1, i % 3 == 0 ? 4 : 1));
    const Pass pass = i % 2 == 0 ? Pass::forward : Pass::backward;
    const Tokens length = std::uniform_int_distribution<Tokens>(1, 200000)(random);
    const Tokens at = std::uniform_int_distribution<Tokens>(0, length)(random);
    const double whole = cost.pipeline_seconds(0, length, pass);
    const double budget = whole * std::uniform_real_distribution<double>(0.0, 1.1)(random);
    const Tokens end = longest_slice(cost, at, length, budget, pass);
    CHECK(cost.pipeline_seconds(at, end, pass) <= budget);
    CHECK((end == length || cost.pipeline_seconds(at, end + 1, pass) > budget));
    const Tokens begin = longest_slice_before(cost, at, 0, budget, pass);
    CHECK(cost.pipeline_seconds(begin, at, pass) <= budget);
    CHECK((begin == 0 || cost.pipeline_seconds(begin - 1, at, pass) > budget));
  }
}

TEST_CASE("memory counts weights, gradients, optimiser and activations") {
  Job one = job();
  one.layout = {.dp = 4, .tp = 2, .cp = 1, .pp = 8};
  const double parameters = 5 * (4.0 * 5120 * 5120 + 3.0 * 5120 * 13824 + 2 * 5120) / 2;
  const double expected[] = {18.0, 2 + 4 + 12.0 / 4, 2 + 4.0 / 4 + 12.0 / 4, 18.0 / 4};
  for (int zero = 0; zero <= 3; ++zero) {
    const TransformerMemory memory(one, {.zero_stage = zero, .reserve_bytes = 1e9});
    CHECK(memory.static_bytes(3) == Approx(parameters * expected[zero] + 1e9));
  }
  const TransformerMemory memory(one);
  const double layer = (2.0 * (4 * 5120 + 2 * 128 * 80 + 3 * 13824) + 4 * 40) / 2,
               kept = (2.0 * 5120 + 4.0 * 5120) / 2;
  CHECK(memory.activation_bytes(3, 0) == Approx(5 * layer));
  CHECK(memory.activation_bytes(3, 2) == Approx(3 * layer + 2 * kept));
  CHECK(memory.kv_gradient_bytes(3) == Approx(5 * 2.0 * 2 * 5120 / 2));
  CHECK(memory.workspace_bytes(7, Pass::forward, 1000, 0) >
        memory.workspace_bytes(3, Pass::forward, 1000, 0));
  CHECK(memory.workspace_bytes(3, Pass::backward, 1000, 1) >
        memory.workspace_bytes(3, Pass::backward, 1000, 0));
  CHECK_THROWS_WITH(TransformerMemory(one, {.zero_stage = 4}), Catch::Contains("zero_stage is 4"));
}

TEST_CASE("memory counts working sets, chunks of logits and buffers for host transfers") {
  Job one = job();
  one.layout = {.dp = 4, .tp = 2, .cp = 3, .pp = 8};
  const double ranks = 6, layer = (2.0 * (4 * 5120 + 2 * 128 * 80 + 3 * 13824) + 4 * 40) / ranks;
  const double working = (2.0 * 2 * 5120 + 2.0 * 2 * 13824) / ranks;
  const TransformerMemory plain(one, {.head_chunk_tokens = 250, .kv_gradient_element_bytes = 4});
  CHECK(plain.workspace_bytes(3, Pass::forward, 900, 0) == Approx(900 * working));
  CHECK(plain.workspace_bytes(3, Pass::forward, 900, 2) == Approx(900 * working));
  CHECK(plain.workspace_bytes(3, Pass::backward, 900, 0) == Approx(900 * working));
  CHECK(plain.workspace_bytes(3, Pass::backward, 900, 2) == Approx(900 * (working + layer)));
  CHECK(plain.workspace_bytes(7, Pass::forward, 900, 0) == Approx(900 * working + 250 * 6.0 * 32000 / 2));
  CHECK(plain.workspace_bytes(7, Pass::forward, 300, 0) == Approx(300 * working + 100 * 6.0 * 32000 / 2));
  CHECK(plain.kv_gradient_bytes(3) == Approx(5 * 4.0 * 2 * 5120 / ranks));

  const TransformerMemory offloaded(one, {.offload = 0.75});
  CHECK(offloaded.activation_bytes(3, 0) == Approx(5 * layer * 0.25));
  CHECK(offloaded.workspace_bytes(3, Pass::forward, 900, 0) == Approx(900 * (working + 2 * 0.75 * layer)));
  CHECK(offloaded.static_bytes(3) == TransformerMemory(one).static_bytes(3));
  CHECK_THROWS_WITH(TransformerMemory(one, {.offload = 1.5}), Catch::Contains("offload is 1.5"));
  CHECK_THROWS_WITH(TransformerMemory(one, {.head_chunk_tokens = 0}),
                    Catch::Contains("head_chunk_tokens is 0"));
}

TEST_CASE("the work of whole samples is the sum over both passes, for any kind of model") {
  struct Plain {  // neither quadratic nor priced by rows
    CalibratedCost cost;
    std::size_t stages() const { return cost.stages(); }
    double slice_seconds(std::size_t s, Tokens begin, Tokens end, Pass pass) const {
      return cost.slice_seconds(s, begin, end, pass);
    }
    double pack_seconds(std::size_t s, Pass pass) const { return cost.pack_seconds(s, pass); }
    double transfer_seconds(Tokens tokens, Pass pass) const { return cost.transfer_seconds(tokens, pass); }
  };
  const std::vector<Tokens> lengths{1, 1000, 70000, 1000};
  for (const std::int32_t cp : {1, 2}) {
    INFO("cp " << cp);
    const CalibratedCost cost(job(1, cp));
    std::vector<double> ours(8, 0.5), plain(8, 0.5);
    add_sample_seconds(cost, lengths, ours);
    add_sample_seconds(Plain{cost}, lengths, plain);
    for (std::size_t s = 0; s < 8; ++s) {
      double sum = 0.5;
      for (const Tokens length : lengths)
        sum += cost.slice_seconds(s, 0, length, Pass::forward) +
               cost.slice_seconds(s, 0, length, Pass::backward);
      CHECK(ours[s] == Approx(sum));
      CHECK(plain[s] == Approx(sum));
    }
  }
}

TEST_CASE("pack times are sums over slices plus a constant, for any kind of model") {
  Packs packs;
  packs.add({0, 0, 1000});
  packs.add({1, 128, 640});
  packs.close();
  packs.close();
  for (const std::int32_t cp : {1, 2}) {
    const CalibratedCost cost(job(1, cp));
    std::vector<double> seconds, transfer;
    append_pack_times(packs, cost, Pass::backward, seconds, transfer);
    REQUIRE(seconds.size() == 16);
    for (std::size_t s = 0; s < 8; ++s) {
      CHECK(seconds[s] ==
            Approx(cost.pack_seconds(s, Pass::backward) + cost.slice_seconds(s, 0, 1000, Pass::backward) +
                   cost.slice_seconds(s, 128, 640, Pass::backward)));
      CHECK(seconds[8 + s] == cost.pack_seconds(s, Pass::backward));
    }
    CHECK(transfer[0] == cost.transfer_seconds(1512, Pass::backward));
  }
}

TEST_CASE("an all-gather moves keys and values once forward and twice backward, and nothing hides it") {
  for (const std::int32_t tp : {1, 8}) {
    const Job on = job(tp, 4);
    const CalibratedCost gather(on, {.exchange = ContextExchange::all_gather});
    const Device& d = on.device;
    const double bandwidth = tp == 1 ? d.intra_node.bandwidth : d.inter_node.bandwidth;
    const double bytes = 2.0 * 2.0 * on.model.kv_heads * on.model.head_dim / tp * 3.0 / 4.0;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const Tokens begin : {0, 3000}) {
        CAPTURE(tp, begin);
        const double keys = 7000.0 * (pass == Pass::forward ? 1.0 : 2.0);
        CHECK(gather.slice_seconds(1, begin, 7000, pass) -
                  gather.coefficients(1, pass).seconds(begin, 7000) ==
              Approx(gather.layers()[1] * keys * bytes / bandwidth).epsilon(1e-9));
      }
    }
  }
  CHECK(CalibratedCost(job(), {.exchange = ContextExchange::all_gather})
            .slice_seconds(0, 0, 99, Pass::forward) ==
        CalibratedCost(job()).slice_seconds(0, 0, 99, Pass::forward));
}

TEST_CASE("attention and the rest add up to a slice's time, whatever is recomputed") {
  for (const std::int32_t cp : {1, 4}) {
    const CalibratedCost plain(job(2, cp));
    std::vector<std::int32_t> recompute(plain.stages(), 0);
    recompute[3] = 2;
    for (const CalibratedCost& cost : {plain, plain.with_recompute(recompute)}) {
      const double pairs = twice_causal_pairs(100, 9000);
      const double forward = plain.coefficients(3, Pass::forward).per_twice_pair / plain.layers()[3] * pairs;
      const double backward =
          plain.coefficients(3, Pass::backward).per_twice_pair / plain.layers()[3] * pairs;
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        CHECK(cost.other_seconds(3, 100, 9000, pass) + cost.attention_seconds(3, pass, forward, backward) ==
              Approx(cost.slice_seconds(3, 100, 9000, pass)).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("gathered keys and values, and backward their gradients, are held while a pack runs") {
  const TransformerMemory without(job(2, 4)), with(job(2, 4), {.gathers_keys = true});
  const double bytes = 3000.0 * 3.0 / 4.0 * kv_bytes_per_token(job().model, 2);
  for (const std::size_t stage : {std::size_t{0}, std::size_t{7}}) {
    CHECK(with.workspace_bytes(stage, Pass::forward, 3000, 0) ==
          Approx(without.workspace_bytes(stage, Pass::forward, 3000, 0) + bytes));
    CHECK(with.workspace_bytes(stage, Pass::backward, 3000, 1) ==
          Approx(without.workspace_bytes(stage, Pass::backward, 3000, 1) + 2 * bytes));
  }
}
