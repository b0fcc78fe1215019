#include "slimpack/cost/calibrated.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "tests/cost/random_jobs.hpp"

using namespace slimpack;
using slimpack::testing::CalibratedCase, slimpack::testing::random_calibrated, slimpack::testing::Random;

static_assert(MergeableCostModel<CalibratedCost>);
static_assert(RecomputingCostModel<CalibratedCost>);
static_assert(LayeredCostModel<CalibratedCost>);
static_assert(SeparableCostModel<CalibratedCost>);
static_assert(PolynomialCostModel<CalibratedCost>);
static_assert(ExchangingCostModel<CalibratedCost>);

namespace {

constexpr Pass both[] = {Pass::forward, Pass::backward};

Job job(std::int32_t tp = 1, std::int32_t cp = 1) {
  return {transformer_preset("llama-13b"), device_preset("h100"), {.dp = 2, .tp = tp, .cp = cp, .pp = 8}};
}

/// What one layer of a slice takes, counted operation by operation: each of `tp * cp` ranks does its share.
class Naive {
 public:
  Naive(const Job& job, CalibratedOptions options, std::int32_t members)
      : m_(job.model), d_(job.device), o_(options), tp_(job.layout.tp), cp_(job.layout.cp * members) {
    for (std::int32_t s = 0; s < job.layout.pp; ++s) {
      const std::int32_t first = s * job.layout.dp * job.layout.cp * tp_;
      for (std::int32_t rank = 0; rank < tp_; ++rank) {
        for (std::int32_t i = 0; i < cp_; ++i)
          in_one_node_ = in_one_node_ && same_node(first + rank, first + rank + i * tp_);
      }
    }
  }

  double layer(Tokens begin, Tokens end, Pass pass) const {
    const double n = double(end - begin), ranks = double(tp_) * cp_;
    const bool forward = pass == Pass::forward;
    double pairs = 0.0;
    for (Tokens t = begin; t < end; ++t) pairs += double(t + 1);
    const double h = m_.hidden, q = double(m_.heads) * m_.head_dim, kv = double(m_.kv_heads) * m_.head_dim;
    const double products = 2 * (h * q + h * kv + h * kv + q * h + 3 * h * m_.ffn);
    const double dense = n * products * (forward ? 1 : 2) / ranks / gemm(pass);
    const double streamed =
        n * 2.0 * (10 * h + 2 * q + 2 * kv + 3.0 * m_.ffn) * (forward ? 1 : 2) / ranks / d_.memory_bandwidth;
    const double attention = pairs * 4 * q * (forward ? 1 : 2.5) / ranks / d_.peak_flops /
                             (forward ? d_.attention_forward : d_.attention_backward);
    const double tensor = n * 2 * h / cp_ * (tp_ - 1.0) / tp_ * (forward ? 4 : 6) / ring();
    const double shown = tensor - std::min(tensor * o_.tp_overlap, dense);
    double least = 1e300;
    for (const KeyExchange e : key_exchanges) {
      if (cp_ > 1 && (!o_.exchanges.contains(e) || !possible(e))) continue;
      least = std::min(least, exchange(e, begin, end, pass, attention, (dense + streamed) / n));
    }
    return dense + streamed + shown + attention + least;
  }

  double head(double n, Pass pass) const {
    const double flops = 2.0 * m_.hidden * m_.vocab * (pass == Pass::forward ? 1 : 2);
    return n * (flops / gemm(pass) + 8.0 * m_.vocab / d_.memory_bandwidth) / tp_ / cp_;
  }

 private:
  double gemm(Pass pass) const {
    return d_.peak_flops * (pass == Pass::forward ? d_.gemm_efficiency : d_.gemm_backward_efficiency);
  }
  bool same_node(std::int32_t a, std::int32_t b) const {
    return a / d_.devices_per_node == b / d_.devices_per_node;
  }
  /// Of tensor-parallel ranks, which fill nodes: each device of a node has an interface.
  double ring() const {
    const double within = d_.intra_node.bandwidth;
    return tp_ <= d_.devices_per_node ? within
                                      : std::min(within, d_.devices_per_node * d_.inter_node.bandwidth);
  }
  bool possible(KeyExchange e) const {
    const std::int32_t ranks = tp_ * cp_;
    return e != KeyExchange::all_to_all ||
           (m_.heads % ranks == 0 && (m_.kv_heads % ranks == 0 || ranks % m_.kv_heads == 0));
  }
  double exchange(KeyExchange e, Tokens begin, Tokens end, Pass pass, double attention, double token) const {
    // Keys and values of heads that a rank has: all-to-all has all tokens of some heads, others all heads of tp.
    const std::int32_t shares = std::min(m_.kv_heads, e == KeyExchange::all_to_all ? tp_ * cp_ : tp_);
    const double kv = 2.0 * 2 * m_.kv_heads * m_.head_dim / shares;
    // Forward read; backward read, gradients written, read, and added to a sum that is read and written.
    const double touched =
        pass == Pass::forward ? kv : kv + kv + kv + 2 * kv * o_.kv_gradient_element_bytes / 2.0;
    const double prefix = o_.prefix ? double(begin) * std::min(touched / d_.memory_bandwidth, token) : 0.0;
    if (cp_ == 1) return prefix;
    const double others = (cp_ - 1.0) / cp_,
                 bandwidth = (in_one_node_ ? d_.intra_node : d_.inter_node).bandwidth;
    if (e == KeyExchange::all_to_all) {
      const double heads = double(m_.heads) / (tp_ * cp_) + std::max(1.0, double(m_.kv_heads) / (tp_ * cp_));
      return prefix + double(end - begin) * others * 2 * 2 * m_.head_dim * heads / bandwidth;
    }
    const double moved = double(end) * others * kv * (pass == Pass::forward ? 1 : 2) / bandwidth;
    return prefix + moved - (e == KeyExchange::ring ? std::min(o_.ring_overlap * moved, attention) : 0.0);
  }

  Transformer m_;
  Device d_;
  CalibratedOptions o_;
  std::int32_t tp_, cp_;
  bool in_one_node_ = true;  // context ranks, on all stages
};

}  // namespace

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

TEST_CASE("a slice costs what its operations cost, whatever the job") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const CalibratedCase drawn = random_calibrated(random);
    const auto& [on, options, members] = drawn;
    const CalibratedCost cost = drawn.cost();
    const Naive naive(on, options, members);
    const Tokens begin = random.chance(0.3) ? 0 : random.tokens(1, 3000);
    const Tokens end = begin + random.tokens(1, 3000);
    for (std::size_t s = 0; s < cost.stages(); ++s) {
      for (const Pass pass : both) {
        const double head = s + 1 == cost.stages() ? naive.head(double(end - begin), pass) : 0.0;
        CHECK(cost.slice_seconds(s, begin, end, pass) ==
              Approx(cost.layers()[s] * naive.layer(begin, end, pass) + head).epsilon(1e-9));
      }
      CHECK(cost.recompute_seconds(s, begin, end) ==
            Approx(naive.layer(begin, end, Pass::forward)).epsilon(1e-9));
      CHECK(cost.slice_seconds(s, end, end, Pass::backward) == 0.0);
    }
  }
}

TEST_CASE("coefficients are a slice's whole time where the model says so") {
  int exact = 0, hidden = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const CalibratedCase drawn = random_calibrated(random);
    const auto& [on, options, members] = drawn;
    const CalibratedCost cost = drawn.cost();
    const Tokens begin = random.tokens(0, 100000), end = begin + random.tokens(1, 100000);
    ++(cost.is_polynomial() ? exact : hidden);
    CHECK(cost.is_polynomial() ==
          (on.layout.cp * members == 1 || cost.exchanges() == ExchangeSet{KeyExchange::all_gather} ||
           cost.exchanges() == ExchangeSet{KeyExchange::all_to_all} ||
           (cost.exchanges() == ExchangeSet{KeyExchange::ring} && options.ring_overlap == 0.0)));
    for (std::size_t s = 0; s < cost.stages(); ++s) {
      for (const Pass pass : both) {
        const SliceCoefficients c = cost.coefficients(s, pass);
        const double seconds = cost.slice_seconds(s, begin, end, pass);
        if (cost.is_polynomial()) {
          CHECK(c.seconds(begin, end) == Approx(seconds).epsilon(1e-12));
        } else {
          CHECK(c.seconds(begin, end) <= seconds * (1 + 1e-12));
        }
        CHECK(std::min({c.per_slice, c.per_token, c.per_key, c.per_twice_pair}) >= 0.0);
      }
      if (cost.is_polynomial()) {
        CHECK(cost.recompute_coefficients(s).seconds(begin, end) ==
              Approx(cost.recompute_seconds(s, begin, end)).epsilon(1e-12));
      }
    }
  }
  CHECK(exact > 50);
  CHECK(hidden > 50);
}

TEST_CASE("whole samples pay nothing for slicing, slices for each token of their prefix") {
  const Job on = job(8);
  const CalibratedCost cost(on);
  const Device& d = on.device;
  // 13B with tp 8: 2 * 2 bytes * 40 * 128 / 8 = 2560 bytes of keys and values in each of 5 layers.
  for (const Pass pass : both) {
    const double times = pass == Pass::forward ? 1.0 : 5.0;
    const double parts = cost.slice_seconds(1, 0, 30000, pass) + cost.slice_seconds(1, 30000, 50000, pass) +
                         cost.slice_seconds(1, 50000, 65536, pass);
    CHECK(parts - cost.slice_seconds(1, 0, 65536, pass) ==
          Approx(5 * 80000.0 * times * 2560 / d.memory_bandwidth).epsilon(1e-6));
  }
  const CalibratedCost floats(on, {.kv_gradient_element_bytes = 4.0});
  CHECK(floats.slice_seconds(1, 1000, 1001, Pass::backward) -
            cost.slice_seconds(1, 1000, 1001, Pass::backward) ==
        Approx(5 * 1000.0 * 2 * 2560 / d.memory_bandwidth));
  CHECK(floats.slice_seconds(1, 0, 1001, Pass::backward) == cost.slice_seconds(1, 0, 1001, Pass::backward));
}

TEST_CASE("where prefixes are free, slices take as long as the whole, and whole samples as before") {
  for (const std::int32_t cp : {1, 2}) {
    const Job on = job(4, cp);
    const CalibratedOptions heads{.exchanges = {KeyExchange::all_to_all}, .prefix = false};
    const CalibratedCost free(on, heads), paid(on, {.exchanges = heads.exchanges});
    for (const Pass pass : both) {
      const double whole = paid.slice_seconds(1, 0, 65536, pass);
      CHECK(free.slice_seconds(1, 0, 65536, pass) == Approx(whole).epsilon(1e-12));
      CHECK(free.slice_seconds(1, 0, 30000, pass) + free.slice_seconds(1, 30000, 65536, pass) ==
            Approx(whole).epsilon(1e-12));
      CHECK(paid.slice_seconds(1, 0, 30000, pass) + paid.slice_seconds(1, 30000, 65536, pass) >
            whole * (1 + 1e-9));
    }
  }
}

TEST_CASE(
    "attention hides a share of a ring, but no more than it lasts; elsewhere the share changes nothing") {
  const Job on = job(4, 2), alone = job(4);
  const auto seconds = [](const Job& job, double overlap, Tokens tokens, Pass pass, KeyExchange exchange) {
    return CalibratedCost(job, {.exchanges = {exchange}, .ring_overlap = overlap})
        .slice_seconds(1, 0, tokens, pass);
  };
  for (const Pass pass : both) {
    const auto ring = [&](double overlap, Tokens tokens) {
      return seconds(on, overlap, tokens, pass, KeyExchange::ring);
    };
    // 13B with tp 4 on two ranks: half of 5120 bytes for each token, layer and pass, over 360 GB/s. Of 64K tokens, attention
    // takes longer; of 100, it takes less than a tenth of the ring.
    const double per_token = 5 * 2560 / 360e9 * (pass == Pass::forward ? 1.0 : 2.0);
    CHECK(ring(0.0, 65536) - ring(0.3, 65536) == Approx(0.3 * 65536 * per_token));
    CHECK(ring(0.0, 65536) -
              CalibratedCost(on, {.exchanges = {KeyExchange::ring}}).slice_seconds(1, 0, 65536, pass) ==
          Approx(65536 * per_token));
    CHECK(ring(0.0, 100) - ring(0.5, 100) < 0.1 * 100 * per_token);
    CHECK(ring(0.5, 100) == ring(1.0, 100));
    CHECK(seconds(alone, 0.0, 9999, pass, KeyExchange::ring) ==
          seconds(alone, 1.0, 9999, pass, KeyExchange::ring));
    for (const KeyExchange other : {KeyExchange::all_to_all, KeyExchange::all_gather})
      CHECK(seconds(on, 0.0, 9999, pass, other) == seconds(on, 1.0, 9999, pass, other));
  }
  CHECK_THROWS_WITH(CalibratedCost(on, {.ring_overlap = -0.5}), Catch::Contains("ring_overlap is -0.5"));
}

TEST_CASE("dense products hide a share of tensor parallelism, but no more than they last") {
  Job on = job(8);
  const auto seconds = [&](double overlap, Pass pass) {
    return CalibratedCost(on, {.tp_overlap = overlap}).slice_seconds(1, 0, 4096, pass);
  };
  for (const Pass pass : both) {
    const double all = 5 * 4096 * tensor_parallel_seconds(on.model, 8, 1, on.device.intra_node, pass);
    CHECK(seconds(0.0, pass) - seconds(0.5, pass) == Approx(0.5 * all));
    CHECK(seconds(0.0, pass) - CalibratedCost(on).slice_seconds(1, 0, 4096, pass) == Approx(0.8 * all));
  }
  on.device.intra_node.bandwidth = 1e9;  // now it takes far longer than the products
  const double dense =
      5 * 4096 * linear_flops_per_token(on.model) / 8 / (on.device.peak_flops * on.device.gemm_efficiency);
  CHECK(seconds(0.0, Pass::forward) - seconds(1.0, Pass::forward) == Approx(dense));
  CHECK_THROWS_WITH(CalibratedCost(on, {.tp_overlap = 1.5}), Catch::Contains("tp_overlap is 1.5"));
}

TEST_CASE("a pack's hidden states go to the next stage over the link between their devices") {
  const CalibratedCost cost(job()), shared(job(2, 4));
  Job slower = job();
  slower.device = device_preset("a800");
  for (const Pass pass : both) {
    CHECK(cost.pack_seconds(0, pass) == 400e-6);
    CHECK(shared.pack_seconds(7, pass) == 400e-6);
    CHECK(CalibratedCost(slower).pack_seconds(0, pass) == 500e-6);
    // Stages of dp 2, tp 1 are 2 devices apart: 4 stages in each node of 8.
    // 4500 tokens of 5120 numbers are 46.08 MB; 360 GB/s and 5 us, or 45 GB/s and 15 us.
    for (const std::size_t stage : {0u, 1u, 2u, 4u, 5u, 6u})
      CHECK(cost.transfer_seconds(stage, 4500, pass) == Approx(0.128e-3 + 5e-6).epsilon(1e-12));
    CHECK(cost.transfer_seconds(3, 4500, pass) == Approx(1.024e-3 + 15e-6).epsilon(1e-12));
    CHECK(shared.transfer_seconds(0, 4500, pass) == Approx(0.128e-3 + 15e-6).epsilon(1e-12));
    CHECK(cost.transfer_seconds(3, 0, pass) == 15e-6);
  }
  // Equal ranks talk to each other; the slowest pair counts.
  const Transformer model = transformer_preset("llama-13b");
  const PipelineSpec spec{.tp = 2, .cp = 1, .layers = {20, 10, 10}, .devices = {{6, 7}, {0, 1}, {7, 8}}};
  const CalibratedCost mixed(model, device_preset("h100"), spec);
  CHECK(mixed.transfer_seconds(0, 4500, Pass::forward) == Approx(0.064e-3 + 5e-6).epsilon(1e-12));
  CHECK(mixed.transfer_seconds(1, 4500, Pass::forward) == Approx(0.512e-3 + 15e-6).epsilon(1e-12));
}

TEST_CASE("a stage whose tensor ranks are on two nodes talks between nodes") {
  const Transformer model = transformer_preset("llama-13b");
  const Device device = device_preset("h100");
  const PipelineSpec spec{.tp = 2, .cp = 1, .layers = {20, 20}, .devices = {{0, 1}, {7, 8}}};
  const CalibratedCost cost(model, device, spec, {.tp_overlap = 0.0});
  const double more = tensor_parallel_seconds(model, 2, 1, device.inter_node, Pass::backward) -
                      tensor_parallel_seconds(model, 2, 1, device.intra_node, Pass::backward);
  PipelineSpec close = spec;
  close.devices[1] = {2, 3};
  const CalibratedCost near(model, device, close, {.tp_overlap = 0.0});
  CHECK(cost.slice_seconds(1, 0, 1000, Pass::backward) - near.slice_seconds(1, 0, 1000, Pass::backward) ==
        Approx(20 * 1000 * more));
  CHECK(cost.slice_seconds(0, 0, 1000, Pass::backward) == near.slice_seconds(0, 0, 1000, Pass::backward));
}

TEST_CASE("merged pipelines whose devices lie on two nodes, on any stage, exchange keys between nodes") {
  // Four pipelines have four devices on each stage: of five, devices 5 to 8 on the second one; of eight, those of half a node.
  const auto merged_seconds = [](std::int32_t dp) {
    Job own = job();
    own.layout = {.dp = dp, .tp = 1, .cp = 1, .pp = 4};
    const CalibratedCost cost(own, {.exchanges = {KeyExchange::all_gather}});
    return cost.with_context_parallel(4).slice_seconds(0, 0, 60000, Pass::forward);
  };
  CHECK(merged_seconds(5) > 1.5 * merged_seconds(8));
  CHECK(merged_seconds(12) == merged_seconds(8));
  CHECK(merged_seconds(6) == merged_seconds(5));
}

TEST_CASE("the fewest of consecutive ranks that a node has are those counted one by one") {
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Device device = device_preset("h100");
    const std::int32_t tensor = random.one_of<std::int32_t>({1, 2, 4, 8, 16});
    device.devices_per_node = random.one_of<std::int32_t>({1, 2, 4, 8, 16});
    const DeviceId first = tensor * random.one_of<std::int32_t>({0, 1, 2, 3, 5, 7, 30});
    const std::int32_t ranks = random.one_of<std::int32_t>({1, 2, 3, 4, 5, 6, 8, 12, 17});
    std::vector<DeviceId> devices;
    for (std::int32_t i = 0; i < ranks; ++i) devices.push_back(first + i * tensor);
    CHECK(least_in_node(device, first, tensor, ranks) == least_in_node(device, devices));
  }
}

TEST_CASE("attention and the rest add up to a slice's time, and to a recomputed layer's") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const auto drawn = random_calibrated(random);
    const Job& on = drawn.job;
    const std::int32_t members = drawn.members;
    const CalibratedCost cost = drawn.cost();
    const Tokens begin = random.tokens(0, 100000), end = begin + random.tokens(1, 100000);
    const auto attention = [&](Pass pass) {
      const Flops flops = slice_flops(on.model, begin, end, pass);
      const Device& d = on.device;
      return flops.attention / (on.layout.tp * on.layout.cp * members) / d.peak_flops /
             (pass == Pass::forward ? d.attention_forward : d.attention_backward);
    };
    for (std::size_t s = 0; s < cost.stages(); ++s) {
      for (const Pass pass : both) {
        CHECK(cost.other_seconds(s, begin, end, pass) + cost.attention_seconds(s, pass, attention(pass)) ==
              Approx(cost.slice_seconds(s, begin, end, pass)).epsilon(1e-9));
        CHECK(cost.attention_seconds(s, pass, 2.0) == 2.0 * cost.attention_seconds(s, pass, 1.0));
      }
      CHECK(cost.recompute_other_seconds(s, begin, end) + attention(Pass::forward) ==
            Approx(cost.recompute_seconds(s, begin, end)).epsilon(1e-9));
    }
  }
}

TEST_CASE("a pack is exchanged in the way that is cheapest for all of its slices") {
  int seen[3] = {0, 0, 0};
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    CalibratedCase drawn = random_calibrated(random);
    auto& [on, options, members] = drawn;
    const CalibratedCost cost = drawn.cost();
    const bool possible = on.model.heads % (on.layout.tp * on.layout.cp * members) == 0 &&
                          (on.model.kv_heads % (on.layout.tp * on.layout.cp * members) == 0 ||
                           on.layout.tp * on.layout.cp * members % on.model.kv_heads == 0);
    std::vector<Slice> pack;
    for (Tokens i = random.tokens(1, 5); i > 0; --i) {
      const Tokens begin = random.chance(0.5) ? 0 : random.tokens(0, 100000);
      pack.push_back({SampleId(i), begin, begin + random.tokens(1, 30000)});
    }
    for (const Pass pass : both) {
      const KeyExchange chosen = exchange_of(cost, pack, pass);
      CHECK(options.exchanges.contains(chosen));
      if (chosen == KeyExchange::all_to_all) CHECK(possible);
      ++seen[static_cast<std::size_t>(std::find(key_exchanges.begin(), key_exchanges.end(), chosen) -
                                      key_exchanges.begin())];
      const auto seconds = [&](const CalibratedCost& of) {
        double sum = 0.0;
        for (std::size_t s = 0; s < of.stages(); ++s) {
          for (const Slice& slice : pack) sum += of.slice_seconds(s, slice.begin, slice.end, pass);
        }
        return sum;
      };
      const double least = seconds(cost.with_exchange(chosen));
      CHECK(least >= seconds(cost) * (1 - 1e-12));
      for (const KeyExchange other : key_exchanges) {
        if (!cost.exchanges().contains(other)) {
          CHECK_THROWS_AS(cost.with_exchange(other), InvalidInput);
        } else {
          CHECK(seconds(cost.with_exchange(other)) >= least);
        }
      }
    }
  }
  for (const int times : seen) CHECK(times > 20);
}

TEST_CASE("a group's exchange has to be possible") {
  const CalibratedCost heads(job(), {.exchanges = {KeyExchange::all_to_all}});
  CHECK(heads.supports_context_parallel(8));
  CHECK_FALSE(heads.supports_context_parallel(3));  // 40 heads
  CHECK_FALSE(heads.supports_context_parallel(0));
  CHECK_THROWS_WITH(heads.with_context_parallel(3), Catch::Contains("40 heads"));
  CHECK_THROWS_WITH(heads.with_context_parallel(0), Catch::Contains("group is 0"));
  CHECK(CalibratedCost(job()).supports_context_parallel(3));
  CHECK_THROWS_WITH(CalibratedCost(job(1, 3), {.exchanges = {KeyExchange::all_to_all}}),
                    Catch::Contains("keys may be exchanged by all_to_all over tp * cp = 3 ranks"));
  CHECK_THROWS_WITH(heads.with_exchange(KeyExchange::ring), Catch::Contains("is ring; expected all_to_all"));
  const CalibratedCost twice = heads.with_context_parallel(2).with_context_parallel(2);
  CHECK(twice.slice_seconds(1, 0, 999, Pass::forward) ==
        heads.with_context_parallel(4).slice_seconds(1, 0, 999, Pass::forward));
}

TEST_CASE("host transfers cost what dense products leave over") {
  Job on = job(2);
  on.device.host.bandwidth = 1e9;
  const CalibratedCost kept(on), moved(on, {.offload = 0.5});
  const double bytes = 0.5 * saved_layer_bytes_per_token(on.model) / 2;
  for (const Pass pass : both) {
    const double compute = kept.slice_seconds(1, 0, 1, pass) -
                           kept.attention_seconds(1, pass, kept.coefficients(1, pass).per_twice_pair / 5 * 2);
    CHECK(moved.slice_seconds(1, 0, 1000, pass) - kept.slice_seconds(1, 0, 1000, pass) ==
          Approx(1000 * (5 * bytes / 1e9 - compute)).epsilon(1e-9));
  }
  CHECK(moved.recompute_seconds(1, 0, 1000) == kept.recompute_seconds(1, 0, 1000));
}

TEST_CASE("a model is of its pipeline's layers, and impossible pipelines are refused") {
  const Transformer model = transformer_preset("llama-13b");
  const Device device = device_preset("h100");
  PipelineSpec spec{.tp = 1, .cp = 1, .layers = {0, 30, 10}, .devices = {{0}, {1}, {2}}};
  const CalibratedCost cost(model, device, spec);
  CHECK(cost.layers().size() == 3);
  CHECK(cost.slice_seconds(0, 0, 1000, Pass::forward) == 0.0);
  CHECK(cost.slice_seconds(1, 0, 1000, Pass::forward) ==
        Approx(30 * cost.recompute_seconds(1, 0, 1000)).epsilon(1e-12));
  spec.layers = {1, 30, 10};
  CHECK_THROWS_WITH(CalibratedCost(model, device, spec), Catch::Contains("hold 41 layers; expected the 40"));
  spec.layers = {0, 30, 10};
  spec.devices[1] = {1, 3};
  CHECK_THROWS_WITH(CalibratedCost(model, device, spec),
                    Catch::Contains("stage 1 has 2 devices; expected tp * cp = 1"));
  spec.devices.pop_back();
  CHECK_THROWS_WITH(CalibratedCost(model, device, spec), Catch::Contains("devices are given for 2 stages"));
  CHECK_THROWS_WITH(CalibratedCost(job(3)), Catch::Contains("tp is 3; expected a divisor of the 40"));
  CHECK_THROWS_WITH(CalibratedCost(job(), {.sync = {.overlap = -0.5}}), Catch::Contains("overlap is -0.5"));
  CHECK_THROWS_WITH(CalibratedCost(job(), {.kv_gradient_element_bytes = 0.0}),
                    Catch::Contains("kv_gradient_element_bytes is 0"));
}

TEST_CASE("polynomials of slices invert") {
  std::mt19937 random(5);
  const auto number = [&](double most) { return std::uniform_real_distribution<double>(0.0, most)(random); };
  for (int i = 0; i < 1000; ++i) {
    INFO("case " << i);
    const SliceCoefficients c{i % 3 == 0 ? number(1e-3) : 0.0, number(1e-6) + 1e-9,
                              i % 2 == 0 ? number(1e-8) : 0.0, i % 5 == 0 ? 0.0 : number(1e-11)};
    const auto at = std::uniform_int_distribution<Tokens>(1, 1000000)(random);
    const auto tokens = std::uniform_int_distribution<Tokens>(1, 1000000)(random);
    CHECK(tokens_after(c, at, c.seconds(at, at + tokens)) == Approx(double(tokens)).epsilon(1e-6));
    const Tokens before = std::min(at, tokens);
    CHECK(tokens_before(c, at, c.seconds(at - before, at)) == Approx(double(before)).epsilon(1e-6));
    CHECK(tokens_after(c, at, 0.0) == 0.0);
    CHECK(tokens_before(c, at, 0.0) == 0.0);
    if (!c.splits_for_free()) {
      CHECK(tokens_after(c, at, 0.999 * (c.per_slice + c.per_key * double(at))) == 0.0);
    }
  }
}
