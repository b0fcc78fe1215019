#include "slimpack/schedule/pack_pricer.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "random_priced_rows.hpp"
#include "slimpack/sharding/context.hpp"

using namespace slimpack;
using slimpack::testing::Random;
using Case = oracle::RandomPricedRows;

namespace {

constexpr Tokens block = 32;

double of(const AttentionSeconds& seconds, Pass pass) {
  return pass == Pass::forward ? seconds.forward : seconds.backward;
}

/// What each rank has of a pack.
struct NaiveLoad {
  double attention = 0.0;  // of one layer
  double tokens = 0.0;
};

/// Deals tokens one by one where ranks share by position, and sums each rank's attention over explicit shards.
std::vector<NaiveLoad> naive_loads(const AttentionKernel& kernel, std::span<const Slice> pack,
                                   std::int32_t ranks, const PackSharing& sharing, std::size_t k, Pass pass) {
  const double equal = static_cast<double>(count_tokens(pack)) / ranks;
  std::vector<NaiveLoad> loads(static_cast<std::size_t>(ranks), {0.0, equal});
  if (pack.empty()) return loads;
  std::vector<std::uint8_t> marks(pack.size(), sharing.sharding[k] == Sharding::per_document ? 1 : 0);
  for (const std::uint32_t i : sharing.per_document[k]) marks[i] = 1;
  const bool by_position = sharing.sharding[k] == Sharding::by_position;
  if (ranks > 1) {
    const ContextShards shards =
        by_position ? position_shards(pack, ranks, sharing.block) : mixed_shards(pack, ranks, marks);
    for (std::size_t r = 0; r < loads.size(); ++r) {
      loads[r].attention = of(attention_seconds(kernel, shards.ranks[r]), pass);
      // Other shardings deal equal shares.
      if (!by_position) CHECK(std::abs(static_cast<double>(count_tokens(shards.ranks[r])) - equal) < 1.0);
      if (by_position) loads[r].tokens = 0.0;
    }
  }
  if (by_position) {
    for (const Slice& slice : pack) {
      for (Tokens t = slice.begin; t < slice.end; ++t)
        loads[owner_of(t, loads.size(), sharing.block)].tokens += 1.0;
    }
  }
  const double alone = of(attention_seconds(kernel, pack), pass), launch = of(kernel.launch_seconds(), pass);
  if (ranks == 1 || sharing.exchange[k] == KeyExchange::all_to_all) {
    for (NaiveLoad& load : loads) load.attention = launch + (alone - launch) / ranks;
  }
  return loads;
}

/// Seconds of the slowest rank. @param token of a token on the rank that holds it.
double slowest(std::span<const NaiveLoad> loads, double layers, double token) {
  double most = 0.0;
  for (const NaiveLoad& load : loads) most = std::max(most, layers * load.attention + token * load.tokens);
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
    const std::vector<NaiveLoad> loads = naive_loads(c.kernel, rows.packs[k], ranks, times.sharing, k, pass),
                                 forward = naive_loads(c.kernel, rows.packs[k], ranks, times.sharing, k,
                                                       Pass::forward);
    double fullest = 0.0;
    for (const NaiveLoad& load : loads) fullest = std::max(fullest, load.tokens);
    const auto sent = static_cast<Tokens>(std::lround(ranks * fullest));
    for (std::size_t s = 0; s + 1 < stages; ++s)
      CHECK(times.transfer[k * (stages - 1) + s] == Approx(own.transfer_seconds(s, sent, pass)));
    for (std::size_t s = 0; s < stages; ++s) {
      const double token = own.token_seconds(s, pass), again = own.recompute_token_seconds(s);
      double expected =
          own.pack_seconds(s, pass) + slowest(loads, own.attention_seconds(s, pass, 1.0), ranks * token);
      double slices = own.pack_seconds(s, pass), recomputed = slowest(forward, 1.0, ranks * again);
      for (const Slice& slice : rows.packs[k]) {
        const auto tokens = static_cast<double>(slice.size());
        expected += own.other_seconds(s, slice.begin, slice.end, pass) - token * tokens;
        slices += cheapest.slice_seconds(s, slice.begin, slice.end, pass);
        recomputed += own.recompute_other_seconds(s, slice.begin, slice.end) - again * tokens;
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
    const Case c = oracle::random_priced_rows(seed);
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
    Case c = oracle::random_priced_rows(seed);
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

TEST_CASE("without an attention model packs take what the rank with most tokens does", "[pack_pricer]") {
  int unequal = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const Case c = oracle::random_priced_rows(seed);
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
      std::vector<Tokens> held(static_cast<std::size_t>(members * c.job.layout.cp), 0);
      for (const Slice& slice : c.rows.forward.packs[k]) {
        expected += own.slice_seconds(0, slice.begin, slice.end, Pass::forward);
        for (Tokens t = slice.begin; t < slice.end; ++t)
          ++held[owner_of(t, held.size(), default_ownership_block)];
      }
      const double equal = static_cast<double>(count_tokens(c.rows.forward.packs[k])),
                   most = static_cast<double>(static_cast<Tokens>(held.size()) *
                                              *std::max_element(held.begin(), held.end()));
      expected += (most - equal) * own.token_seconds(0, Pass::forward);
      CHECK(forward.seconds[k * cost.stages()] == Approx(expected));
      unequal += most > equal ? 1 : 0;
    }
  }
  CHECK(unequal > 30);
}

namespace {

/// A cost model that can't tell what ranks take for their tokens.
struct EqualShares {
  CalibratedCost cost;

  std::size_t stages() const { return cost.stages(); }
  double slice_seconds(std::size_t s, Tokens b, Tokens e, Pass p) const {
    return cost.slice_seconds(s, b, e, p);
  }
  double pack_seconds(std::size_t s, Pass p) const { return cost.pack_seconds(s, p); }
  double transfer_seconds(std::size_t s, Tokens n, Pass p) const { return cost.transfer_seconds(s, n, p); }
  bool supports_context_parallel(std::int32_t group) const { return cost.supports_context_parallel(group); }
  EqualShares with_context_parallel(std::int32_t group) const { return {cost.with_context_parallel(group)}; }
};
static_assert(!TokenSharingCostModel<EqualShares> && TokenSharingCostModel<CalibratedCost>);

}  // namespace

TEST_CASE("a cost model that does not know its tokens' share prices equal shares", "[pack_pricer]") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const Case c = oracle::random_priced_rows(seed);
    const EqualShares cost{c.cost()};
    GroupPrices prices{Prices(cost, c.job.layout.cp)};
    PackPricer pricer(prices);
    PassTimes forward, backward, slices;
    pricer(c.rows.lengths, c.rows.forward, c.rows.backward, forward, backward);
    pricer.price_slices(c.rows.forward, Pass::forward, slices);
    CHECK(forward.seconds == slices.seconds);
    CHECK(forward.transfer == slices.transfer);
  }
}
