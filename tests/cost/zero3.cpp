#include "slimpack/cost/zero3.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/model/presets.hpp"
#include "tests/cost/random_jobs.hpp"

using namespace slimpack;
using slimpack::testing::Random, slimpack::testing::random_calibrated, slimpack::testing::CalibratedCase;

namespace {

constexpr Pass passes[] = {Pass::forward, Pass::backward};

Job gpt_13b(Layout layout) { return {transformer_preset("llama-13b"), device_preset("a800"), layout}; }

double hand_counted_parameters(const Transformer& m) {
  const double d = m.hidden, q = double(m.heads) * m.head_dim, kv = double(m.kv_heads) * m.head_dim;
  return m.layers * (2 * d * q + 2 * d * kv + 3 * d * m.ffn + 2 * d) + 2.0 * m.vocab * d + d;
}

}  // namespace

TEST_CASE("a pack gathers parameters twice and scatters gradients once, over all ranks that hold them") {
  Job job = gpt_13b({.dp = 4, .tp = 1, .cp = 8, .pp = 1});
  job.device.inter_node.bandwidth = 6e9;
  const double parameters = hand_counted_parameters(job.model);
  const double constant = job.device.pack_overhead;
  // 8 of 32 ranks in a node, each with its own network interface: 8 rings.
  const double ring = 31.0 / 32.0 / (8 * job.device.inter_node.bandwidth);
  const CalibratedCost cost(job, {.zero3 = {.on = true, .overlap = 0.25}});
  CHECK(cost.pack_seconds(0, Pass::forward) == Approx(constant + 0.75 * 2.0 * parameters * ring));
  CHECK(cost.pack_seconds(0, Pass::backward) == Approx(constant + 0.75 * 4.0 * parameters * ring));
  Job fast = job;  // no faster than the links within a node
  fast.device.inter_node.bandwidth = 9e29;
  CHECK(CalibratedCost(fast, {.zero3 = {.on = true, .overlap = 0.0}}).pack_seconds(0, Pass::forward) ==
        Approx(constant + 2.0 * parameters * 31.0 / 32.0 / job.device.intra_node.bandwidth));
  // Among the 8 ranks of a pipeline alone, it stays within the node.
  const CalibratedCost within(job, {.zero3 = {.on = true, .group = ZeroGroup::context, .overlap = 0.0}});
  CHECK(within.pack_seconds(0, Pass::forward) ==
        Approx(constant + 2.0 * parameters * 7.0 / 8.0 / job.device.intra_node.bandwidth));
  // Packs that pipelines run together pay the same: their parameters lie where they lay.
  CHECK(cost.with_context_parallel(4).pack_seconds(0, Pass::backward) ==
        cost.pack_seconds(0, Pass::backward));
  CHECK(CalibratedCost(job).pack_seconds(0, Pass::forward) == constant);
}

TEST_CASE("ranks that have a node for themselves share its one ring") {
  Job job = gpt_13b({.dp = 4, .tp = 8, .cp = 1, .pp = 1});
  const double parameters = hand_counted_parameters(job.model) / 8;
  const CalibratedCost cost(job, {.zero3 = {.on = true, .overlap = 0.0}});
  CHECK(cost.pack_seconds(0, Pass::forward) - job.device.pack_overhead ==
        Approx(2.0 * parameters * 0.75 / job.device.inter_node.bandwidth));
}

TEST_CASE(
    "ZeRO-3 adds a constant to packs and nothing to slices, and leaves the step's end to the optimiser") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    CalibratedCase c = random_calibrated(random);
    const CalibratedCost plain = c.cost();
    c.options.zero3 = {.on = true,
                       .group = random.chance(0.5) ? ZeroGroup::all : ZeroGroup::context,
                       .overlap = random.number(0.0, 1.0)};
    const CalibratedCost sharded = c.cost();
    const Tokens begin = random.tokens(0, 5000), end = begin + random.tokens(1, 5000);
    for (std::size_t s = 0; s < plain.stages(); ++s) {
      for (const Pass pass : passes) {
        CHECK(sharded.slice_seconds(s, begin, end, pass) == plain.slice_seconds(s, begin, end, pass));
        CHECK(sharded.pack_seconds(s, pass) >= plain.pack_seconds(s, pass));
      }
      CHECK(sharded.pack_seconds(s, Pass::backward) >= sharded.pack_seconds(s, Pass::forward));
    }
    const double ranks = double(c.job.layout.cp) * c.job.layout.dp;
    if (ranks == 1) CHECK(sharded.sync_seconds() == Approx(plain.sync_seconds()));
    if (c.options.zero3.group == ZeroGroup::all) CHECK(sharded.sync_seconds() <= plain.sync_seconds());
    Job alone = c.job;
    alone.layout.dp = 1;
    CalibratedOptions options = c.options;
    if (c.options.zero3.group ==
        ZeroGroup::context)  // a pipeline's own update, and exchanges with its copies
      CHECK(sharded.sync_seconds() >= CalibratedCost(alone, options).sync_seconds() * (1 - 1e-12));
  }
}

TEST_CASE("the update of shards, and the exchange among their copies, are counted by hand") {
  const Job job = gpt_13b({.dp = 4, .tp = 1, .cp = 8, .pp = 1});
  const double parameters = hand_counted_parameters(job.model);
  const SyncOptions sync;
  const auto seconds = [&](ZeroGroup group) {
    return CalibratedCost(job, {.zero3 = {.on = true, .group = group}}).sync_seconds();
  };
  const double update = sync.optimiser_bytes / job.device.memory_bandwidth;
  CHECK(seconds(ZeroGroup::all) == Approx(parameters / 32 * update));
  CHECK(seconds(ZeroGroup::context) ==
        Approx(parameters / 8 * (update + 2.0 * 0.75 * 4.0 / job.device.inter_node.bandwidth)));
}

TEST_CASE("memory divides by as many ranks as the optimiser's step of the prices") {
  for (const ZeroGroup group : {ZeroGroup::all, ZeroGroup::context}) {
    const Job job = gpt_13b({.dp = 2, .tp = 2, .cp = 4, .pp = 1});
    const TransformerMemory memory(job, {.zero_stage = 3, .reserve_bytes = 0.0, .zero_group = group});
    const double shards = group == ZeroGroup::all ? 8.0 : 4.0;
    CHECK(memory.static_bytes(0) == Approx(18.0 * hand_counted_parameters(job.model) / 2.0 / shards));
    Job fast = job;
    fast.device.inter_node.bandwidth = fast.device.intra_node.bandwidth = 9e29;
    const CalibratedCost cost(fast, {.zero3 = {.on = true, .group = group}});
    CHECK(cost.sync_seconds() * job.device.memory_bandwidth / SyncOptions{}.optimiser_bytes ==
          Approx(memory.static_bytes(0) / 18.0));
  }
}

TEST_CASE("an all-to-all sends over the network only what leaves a node") {
  const Job job = gpt_13b({.dp = 1, .tp = 1, .cp = 20, .pp = 1});
  const auto exchange = [&](bool by_node) {
    const CalibratedCost with(job, {.exchanges = {KeyExchange::all_to_all}, .all_to_all_by_node = by_node});
    Job lone = job;
    lone.device.inter_node.bandwidth = lone.device.intra_node.bandwidth = 9e29;
    return with.slice_seconds(0, 0, 1000, Pass::forward) -
           CalibratedCost(lone, {.exchanges = {KeyExchange::all_to_all}})
               .slice_seconds(0, 0, 1000, Pass::forward);
  };
  // Ranks of the third node, which has 4 of 20, send 16 of 20 parts over the network; else 19 of 20.
  const double each = 40 * 4.0 * 2.0 * 5120 * 1000 / 20 / job.device.inter_node.bandwidth;
  CHECK(exchange(false) == Approx(each * 19 / 20).epsilon(1e-6));
  CHECK(exchange(true) == Approx(each * 16 / 20).epsilon(1e-6));
  Job one = gpt_13b({.dp = 16, .tp = 1, .cp = 1, .pp = 1});
  one.model.heads = one.model.kv_heads = 32;
  one.model.head_dim = 160;
  const CalibratedOptions options{.exchanges = {KeyExchange::all_to_all}, .all_to_all_by_node = true};
  Job shared = one;
  shared.layout = {.dp = 1, .tp = 1, .cp = 16, .pp = 1};
  CHECK(CalibratedCost(one, options).with_context_parallel(16).slice_seconds(0, 0, 999, Pass::backward) ==
        Approx(CalibratedCost(shared, options).slice_seconds(0, 0, 999, Pass::backward)));
}

TEST_CASE("chunks cost what Eq. 1 to 4 of InfiniPipe say") {
  const double e = 2.0, D = 5120, L = 40;
  const double d_p = 4, d_s = 8, N = d_p * d_s;
  Job job = gpt_13b({.dp = 1, .tp = 1, .cp = 8, .pp = 4});
  job.device.memory_bandwidth = 9e29;  // time is that of products and of the network
  const CalibratedCost cost(job, {.exchanges = {KeyExchange::all_to_all}, .prefix = false});
  const double rate = job.device.peak_flops;
  const double matrices = 4 * D * D + 3 * D * job.model.ffn;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Tokens C = random.tokens(0, 100000), s0 = random.tokens(1, 20000);
    std::vector<Tokens> others;
    for (int i = 0; i < 5; ++i) others.push_back(random.tokens(1, 9000));
    for (const Pass pass : passes) {
      const bool forward = pass == Pass::forward;
      // 4 D FLOPs for each pair of a query and a key, of which s (s + 1) / 2 are causal.
      const double attention = forward ? job.device.attention_forward : job.device.attention_backward;
      const double alpha_1 = L * 4 * D / 2 * (forward ? 1.0 : 2.5) / (rate * attention);
      const double alpha_2 = (L * 2 * matrices + 2 * D * job.model.vocab) * (forward ? 1.0 : 2.0) /
                                 (rate * job.device.gemm_efficiency) +
                             alpha_1;
      const double beta_1 = d_p * job.device.pack_overhead;
      double sum = alpha_1 * (double(C + s0) * double(C + s0) - double(C) * double(C)) + alpha_2 * double(s0);
      double tokens = double(s0);
      for (const Tokens s : others) {
        sum += alpha_1 * double(s) * double(s) + alpha_2 * double(s);
        tokens += double(s);
      }
      const double comp = sum / N + beta_1 / d_p;  // Eq. 1
      const double bandwidth = job.device.intra_node.bandwidth * d_s / (d_s - 1), latency = 0.0;
      const auto comm = [&](double volume, double f) { return (volume / bandwidth + latency) * f; };  // Eq. 2
      const double all_to_all = comm(e * D * tokens / d_s, 4 * L / d_p);                              // Eq. 3
      // A stage of the equations is the mean of ours: the last one has the head, which they count in all.
      double ours = 0.0;
      for (std::size_t s = 0; s < cost.stages(); ++s) {
        ours += cost.pack_seconds(s, pass) + cost.slice_seconds(s, C, C + s0, pass);
        for (const Tokens other : others) ours += cost.slice_seconds(s, 0, other, pass);
      }
      CHECK(ours / d_p == Approx(comp + all_to_all).epsilon(1e-9));  // Eq. 4
    }
  }
}

TEST_CASE("chunks hold what Eq. 5, 9 and 10 of InfiniPipe say") {
  const double e = 2.0, D = 5120, L = 40;
  const double d_p = 4, d_s = 8, N = d_p * d_s, l_ckpt = 3, tokens = 12345;
  const Job job = gpt_13b({.dp = 1, .tp = 1, .cp = 8, .pp = 4});
  const TransformerMemory memory(job, {.zero_stage = 3});
  const double M_token = L * saved_layer_bytes_per_token(job.model);
  const double act = M_token / N * tokens;
  const double I_k = 0;  // no tail slice: later slices read its keys and values
  const double M_dkv = (1 - I_k) * 2 * e * L * D / N * tokens;
  CHECK(tokens * (memory.activation_bytes(1, 0) + memory.kv_gradient_bytes(1)) == Approx(act + M_dkv));
  const double M_ckpt = (3 - 2 * I_k) * e * D * l_ckpt / d_s * tokens;  // Eq. 9
  const double M_act = (L - l_ckpt * d_p) / L * act + M_dkv + M_ckpt;   // Eq. 10
  CHECK(tokens * (memory.activation_bytes(1, 3) + memory.kv_gradient_bytes(1)) == Approx(M_act));
  // Of a tail slice, they drop the keys and values that it recomputes (I_k = 1); ours never counts less than that.
  CHECK(tokens * memory.activation_bytes(1, 3) >=
        (L - l_ckpt * d_p) / L * act + e * D * l_ckpt / d_s * tokens);
}

TEST_CASE("impossible options of ZeRO-3 are refused") {
  const Job job = gpt_13b({.dp = 2, .tp = 1, .cp = 1, .pp = 1});
  CHECK_THROWS_WITH(CalibratedCost(job, {.zero3 = {.on = true, .overlap = 1.5}}),
                    Catch::Contains("zero3.overlap is 1.5; expected a share in [0, 1]"));
  CHECK_THROWS_WITH(CalibratedCost(job, {.zero3 = {.on = true, .gradient_bytes = 0.0}}),
                    Catch::Contains("zero3.gradient_bytes is 0"));
  const Transformer& m = job.model;
  const Strategy unequal = strategy_of({layout_pipeline(m, {.dp = 1, .tp = 1, .cp = 1, .pp = 1}, 0),
                                        layout_pipeline(m, {.dp = 1, .tp = 1, .cp = 2, .pp = 1}, 1)});
  CHECK_THROWS_WITH(CalibratedCost(m, job.device, unequal, 0, {.zero3 = {.on = true}}),
                    Catch::Contains("pipelines of 2 kinds are to shard parameters together"));
  CHECK_THROWS_WITH(
      CalibratedCost(m, job.device, unequal, 0, {.zero3 = {.on = true, .group = ZeroGroup::context}}),
      Catch::Contains("have cp 1 and 2; expected the same"));
  const Strategy equal = layout_strategy(job);
  CHECK_THROWS_WITH(sync_seconds(equal, m, job.device, {.shards = &equal, .zero3 = ZeroGroup::all}),
                    Catch::Contains("zero3 and shards are both given"));
}
