#include "slimpack/schedule/pack_pricer.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "random_rows.hpp"
#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/sharding/context.hpp"
#include "tests/cost/random_jobs.hpp"

using namespace slimpack;
using slimpack::testing::Random;

namespace {

constexpr Tokens block = 32;

/// Random rows, a job with their stages, and a kernel that may be faster or slower than the device is said to be.
struct Case {
  oracle::RandomRows rows;
  Job job;
  CalibratedOptions options;
  AttentionKernel kernel;

  [[nodiscard]] CalibratedCost cost() const { return CalibratedCost(job, options); }
};

Case random_case(unsigned seed) {
  std::mt19937 generator(seed);
  oracle::RandomRows rows(generator);
  for (Tokens& length : rows.lengths) length *= 50;
  for (PackRows* const pass : {&rows.forward, &rows.backward}) {
    Packs longer;
    for (std::size_t k = 0; k < pass->packs.size(); ++k) {
      for (const Slice& slice : pass->packs[k]) longer.add({slice.sample, 50 * slice.begin, 50 * slice.end});
      longer.close();
    }
    pass->packs = std::move(longer);
  }
  Random random(seed);
  Job job{.model = {"tiny", static_cast<std::int32_t>(2 * rows.stages), 64, 24, 24, 16, 160, 500},
          .device = testing::random_device(random),
          .layout = {.dp = static_cast<std::int32_t>(rows.pipelines),
                     .cp = static_cast<std::int32_t>(random.tokens(1, 2)),
                     .pp = static_cast<std::int32_t>(rows.stages)}};
  AttentionTable table = assumed_attention_table(job.device);
  for (AttentionRates* const rates : {&table.forward, &table.backward}) {
    const double factor = random.number(0.5, 3.0);
    for (double& rate : rates->flops_per_second) rate *= factor;
  }
  const auto exchanges = random.one_of<ExchangeSet>({{KeyExchange::ring},
                                                     {KeyExchange::all_gather},
                                                     {KeyExchange::ring, KeyExchange::all_to_all},
                                                     {KeyExchange::all_to_all, KeyExchange::all_gather}});
  return {std::move(rows), job, {.exchanges = exchanges}, AttentionKernel(table, job.model)};
}

double of(const AttentionSeconds& seconds, Pass pass) {
  return pass == Pass::forward ? seconds.forward : seconds.backward;
}

/// Attention of one layer on the slowest rank, by explicit shards.
double naive_layer(const AttentionKernel& kernel, std::span<const Slice> pack, std::int32_t ranks,
                   const PackSharing& sharing, std::size_t k, Pass pass) {
  if (pack.empty()) return 0.0;
  const double alone = of(attention_seconds(kernel, pack), pass), launch = of(kernel.launch_seconds(), pass);
  if (ranks == 1) return alone;
  if (sharing.exchange[k] == KeyExchange::all_to_all) return launch + (alone - launch) / ranks;
  std::vector<std::uint8_t> marks(pack.size(), sharing.sharding[k] == Sharding::per_document ? 1 : 0);
  for (const std::uint32_t i : sharing.per_document[k]) marks[i] = 1;
  const ContextShards shards = sharing.sharding[k] == Sharding::by_position
                                   ? position_shards(pack, ranks, sharing.block)
                                   : mixed_shards(pack, ranks, marks);
  double most = 0.0;
  for (std::size_t r = 0; r < shards.ranks.size(); ++r)
    most = std::max(most, of(attention_seconds(kernel, shards.ranks[r]), pass));
  return most;
}

/// Compares one pass with the model, chunk by chunk, and with the bound that slices are.
void check_pass(const Case& c, const PackRows& rows, const PassTimes& times, Pass pass,
                std::span<const double> recompute_seconds) {
  const CalibratedCost cost = c.cost().with_attention(c.kernel.least_seconds_per_twice_pair());
  const std::size_t stages = cost.stages();
  for (std::size_t k = 0; k < rows.packs.size(); ++k) {
    const auto members = static_cast<std::int32_t>(rows.sharers[k]);
    const std::int32_t ranks = members * c.job.layout.cp;
    const CalibratedCost cheapest = cost.with_context_parallel(members);
    REQUIRE((times.sharing.exchange[k] == KeyExchange::none) == (ranks == 1));
    const CalibratedCost own = ranks == 1 ? cheapest : cheapest.with_exchange(times.sharing.exchange[k]);
    const double layer = naive_layer(c.kernel, rows.packs[k], ranks, times.sharing, k, pass);
    const double forward = naive_layer(c.kernel, rows.packs[k], ranks, times.sharing, k, Pass::forward);
    for (std::size_t s = 0; s < stages; ++s) {
      double expected = own.pack_seconds(s, pass) + own.attention_seconds(s, pass, layer);
      double slices = own.pack_seconds(s, pass), recomputed = forward;
      for (const Slice& slice : rows.packs[k]) {
        expected += own.other_seconds(s, slice.begin, slice.end, pass);
        slices += cheapest.slice_seconds(s, slice.begin, slice.end, pass);
        recomputed += own.recompute_other_seconds(s, slice.begin, slice.end);
      }
      CHECK(times.seconds[k * stages + s] == Approx(expected).epsilon(1e-9));
      CHECK(times.seconds[k * stages + s] >= slices * (1.0 - 1e-12));
      if (pass == Pass::backward)
        CHECK(recompute_seconds[k * stages + s] == Approx(recomputed).epsilon(1e-9));
    }
  }
}

}  // namespace

TEST_CASE("packs cost what their slowest rank does, and no less than their slices", "[pack_pricer]") {
  std::map<KeyExchange, int> seen;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    const Case c = random_case(seed);
    GroupPrices prices{Prices(c.cost(), c.kernel, c.job.layout.cp, block)};
    PackPricer pricer(prices);
    PassTimes forward, backward;
    pricer(c.rows.lengths, c.rows.forward, c.rows.backward, forward, backward);
    std::vector<double> recompute_seconds;
    pricer.price_recompute(c.rows.backward, backward.sharing, recompute_seconds);
    check_pass(c, c.rows.forward, forward, Pass::forward, recompute_seconds);
    check_pass(c, c.rows.backward, backward, Pass::backward, recompute_seconds);
    // A sample's keys stay where they are.
    std::map<SampleId, KeyExchange> way;
    for (const auto& [rows, times] :
         {std::pair(&c.rows.forward, &forward), std::pair(&c.rows.backward, &backward)}) {
      for (std::size_t k = 0; k < rows->packs.size(); ++k) {
        ++seen[times->sharing.exchange[k]];
        for (const Slice& slice : rows->packs[k])
          CHECK(way.emplace(slice.sample, times->sharing.exchange[k]).first->second ==
                times->sharing.exchange[k]);
      }
    }
  }
  CHECK(seen.size() == 4);
}

TEST_CASE("packs of whole samples that both passes share are sharded by the policy", "[pack_pricer]") {
  int different = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Case c = random_case(seed);
    c.options.exchanges = {KeyExchange::all_gather};
    Packs packs;
    Ragged<std::uint32_t> members;
    Random random(seed);
    for (SampleId id = 0; id < c.rows.lengths.size(); ++id) {
      packs.add({id, 0, c.rows.lengths[id]});
      if (id + 1 < c.rows.lengths.size() && random.chance(0.6)) continue;
      packs.close();
      members.add_row(c.rows.pipelines, 0);
      for (std::uint32_t p = 0; p < c.rows.pipelines; ++p) members[members.size() - 1][p] = p;
    }
    const PackRows rows = in_rows(packs, members, c.rows.pipelines);
    GroupPrices prices{Prices(c.cost(), c.kernel, c.job.layout.cp, block)};
    PackPricer pricer(prices);
    std::map<ShardingPolicy, std::vector<double>> totals;
    for (const ShardingPolicy policy : {ShardingPolicy::per_sequence, ShardingPolicy::per_document,
                                        ShardingPolicy::adaptive, ShardingPolicy::mixed}) {
      PassTimes forward, backward;
      pricer(c.rows.lengths, rows, rows, forward, backward, policy);
      std::vector<double> recompute_seconds;
      pricer.price_recompute(rows, backward.sharing, recompute_seconds);
      check_pass(c, rows, forward, Pass::forward, recompute_seconds);
      check_pass(c, rows, backward, Pass::backward, recompute_seconds);
      for (std::size_t k = 0; k < packs.size(); ++k) {
        totals[policy].push_back(forward.sharing.attention[k].total());
        if (prices.shared_by(c.rows.pipelines).ranks() == 1) continue;
        if (policy == ShardingPolicy::per_sequence)
          CHECK(forward.sharing.sharding[k] == Sharding::per_sequence);
        if (policy == ShardingPolicy::per_document)
          CHECK(forward.sharing.sharding[k] == Sharding::per_document);
      }
    }
    for (std::size_t k = 0; k < packs.size(); ++k) {
      const double sequence = totals[ShardingPolicy::per_sequence][k],
                   document = totals[ShardingPolicy::per_document][k];
      CHECK(totals[ShardingPolicy::adaptive][k] == std::min(sequence, document));
      CHECK(totals[ShardingPolicy::mixed][k] <= std::min(sequence, document));
      different += sequence != document ? 1 : 0;
    }
  }
  CHECK(different > 30);
}

TEST_CASE("one rank at the full rate adds the launch alone", "[pack_pricer]") {
  Random random(3);
  Job job{.model = transformer_preset("llama-7b"), .device = device_preset("h100"), .layout = {.pp = 4}};
  AttentionTable table = assumed_attention_table(job.device);
  for (AttentionRates* const rates : {&table.forward, &table.backward}) {
    rates->tile = 1;
    const double rate =
        rates == &table.forward ? job.device.attention_forward : job.device.attention_backward;
    for (double& value : rates->flops_per_second) value = job.device.peak_flops * rate;
  }
  const CalibratedCost cost(job);
  GroupPrices prices{Prices(cost, AttentionKernel(table, job.model), 1)};
  PackPricer pricer(prices);
  Packs packs;
  packs.add({0, 0, 30000});
  packs.close();
  const PackRows rows = in_rows(packs);
  PassTimes forward, backward;
  pricer(std::vector<Tokens>{30000}, rows, rows, forward, backward);
  for (std::size_t s = 0; s < 4; ++s) {
    CHECK(forward.seconds[s] ==
          Approx(cost.pack_seconds(s, Pass::forward) + cost.slice_seconds(s, 0, 30000, Pass::forward) +
                 cost.layers()[s] * table.launch_seconds));
  }
}

TEST_CASE("without an attention model packs take what their slices do, and are shared by position",
          "[pack_pricer]") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const Case c = random_case(seed);
    const CalibratedCost cost(c.job, {.exchanges = {KeyExchange::all_gather}});
    GroupPrices prices{Prices(cost, c.job.layout.cp)};
    PackPricer pricer(prices);
    PassTimes forward, backward;
    pricer(c.rows.lengths, c.rows.forward, c.rows.backward, forward, backward);
    for (std::size_t k = 0; k < c.rows.forward.packs.size(); ++k) {
      const auto members = static_cast<std::int32_t>(c.rows.forward.sharers[k]);
      const CalibratedCost own = cost.with_context_parallel(members);
      CHECK((forward.sharing.sharding[k] == Sharding::by_position) == (members * c.job.layout.cp > 1));
      double expected = own.pack_seconds(0, Pass::forward);
      for (const Slice& slice : c.rows.forward.packs[k])
        expected += own.slice_seconds(0, slice.begin, slice.end, Pass::forward);
      CHECK(forward.seconds[k * cost.stages()] == Approx(expected));
    }
  }
}
