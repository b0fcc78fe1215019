#include "slimpack/plan/shards.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using testing::sample_plan;

TEST_CASE("the ranks' arrays of every pack together are the pack's", "[shards]") {
  int kinds[5] = {};
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const Plan plan = sample_plan({.seed = seed,
                                   .samples = 6,
                                   .merged = seed % 3,
                                   .max_tokens = 3000,
                                   .cp = 1 + static_cast<std::int32_t>(seed % 4),
                                   .mixed = seed % 2 == 0 && seed % 4 != 0,
                                   .block = 8});
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (PackId k = 0; k < plan.of(pass).packs.size(); ++k) {
        const Task task{pass, k};
        const auto pack = plan.of(pass).packs[k];
        const Sharding kind = plan.of(pass).sharding[k];
        const auto ranks = static_cast<Tokens>(context_ranks(plan, task));
        if (ranks > count_tokens(pack) || (kind == Sharding::none && ranks > 1)) continue;
        CAPTURE(seed, pass, k);
        ++kinds[static_cast<std::size_t>(kind)];
        const PackIndices whole = pack_indices(plan, task);
        const ContextShards shards = pack_shards(plan, task);
        REQUIRE(shards.ranks.size() == static_cast<std::size_t>(ranks));
        std::vector<std::int32_t> all;
        std::int64_t labels = 0;
        std::size_t fewest = whole.positions.size(), most = 0;
        for (std::size_t r = 0; r < shards.ranks.size(); ++r) {
          const RankIndices rank = rank_indices(plan, task, shards, r);
          REQUIRE(rank.tokens.size() == rank.chunks.positions.size());
          for (std::size_t i = 0; i < rank.tokens.size(); ++i) {
            REQUIRE(rank.chunks.positions[i] == whole.positions[static_cast<std::size_t>(rank.tokens[i])]);
          }
          // A row of the pack belongs to the slice that holds it.
          for (std::size_t c = 0; c < rank.chunks.samples.size(); ++c) {
            const auto first = static_cast<std::size_t>(rank.chunks.cu_seqlens_q[c]);
            const auto slice =
                std::upper_bound(whole.cu_seqlens_q.begin(), whole.cu_seqlens_q.end(), rank.tokens[first]) -
                whole.cu_seqlens_q.begin() - 1;
            CHECK(rank.chunks.samples[c] == whole.samples[static_cast<std::size_t>(slice)]);
          }
          all.insert(all.end(), rank.tokens.begin(), rank.tokens.end());
          labels = std::accumulate(rank.chunks.label_tokens.begin(), rank.chunks.label_tokens.end(), labels);
          fewest = std::min(fewest, rank.tokens.size());
          most = std::max(most, rank.tokens.size());
        }
        // Dealt by position, ranks differ by a pair of blocks in each slice.
        const auto blocks = 2 * pack.size() * static_cast<std::size_t>(plan.of(pass).block);
        CHECK(most - fewest <= (kind == Sharding::by_position ? blocks : 1));
        std::sort(all.begin(), all.end());
        std::vector<std::int32_t> expected(whole.positions.size());
        std::iota(expected.begin(), expected.end(), 0);
        CHECK(all == expected);
        CHECK(labels ==
              std::accumulate(whole.label_tokens.begin(), whole.label_tokens.end(), std::int64_t{0}));
      }
    }
  }
  for (const Sharding kind : {Sharding::none, Sharding::per_sequence, Sharding::per_document, Sharding::mixed,
                              Sharding::by_position}) {
    CHECK(kinds[static_cast<std::size_t>(kind)] > 5);
  }
}

TEST_CASE("shards of packs, by hand", "[shards]") {
  Plan plan;
  plan.tokens = {8, 8};
  plan.pipelines.resize(1);
  plan.pipelines[0].cp = 2;
  const auto add = [&](Sharding kind, std::vector<std::uint32_t> alone) {
    plan.forward.packs.add({1, 4, 8});
    plan.forward.packs.add({0, 0, 8});
    plan.forward.packs.close();
    plan.forward.pipelines.add(0);
    plan.forward.pipelines.close();
    plan.forward.sharding.push_back(kind);
    plan.forward.per_document.add_rows(1, alone);
  };
  add(Sharding::per_sequence, {});
  add(Sharding::per_document, {});
  add(Sharding::mixed, {1});
  add(Sharding::none, {});
  add(Sharding::mixed, {2});
  add(Sharding::by_position, {});
  using Ints = std::vector<std::int32_t>;
  const auto rank = [&](PackId k, std::size_t r) {
    const Task task{Pass::forward, k};
    return rank_indices(plan, task, pack_shards(plan, task), r, {.alignment = 4});
  };
  CHECK(rank(0, 0).tokens == Ints{0, 1, 2, 9, 10, 11});
  CHECK(rank(0, 1).tokens == Ints{3, 4, 5, 6, 7, 8});
  CHECK(rank(0, 1).chunks.samples == std::vector<SampleId>{1, 0});
  CHECK(rank(0, 1).chunks.cu_seqlens_q == Ints{0, 1, 6});
  CHECK(rank(0, 1).chunks.cu_seqlens_k == Ints{0, 8, 13});
  CHECK(rank(0, 1).chunks.cu_seqlens_q_padded == Ints{0, 4, 12});
  CHECK(rank(0, 1).chunks.positions == Ints{7, 0, 1, 2, 3, 4});
  CHECK(rank(1, 0).tokens == Ints{0, 3, 4, 5, 10, 11});
  CHECK(rank(1, 0).chunks.kv_prefix_lengths == Ints{4, 7, 0, 6});
  CHECK(rank(1, 1).tokens == Ints{1, 2, 6, 7, 8, 9});
  CHECK(rank(2, 0).tokens.size() == 6);
  CHECK_THROWS_WITH(rank(3, 0),
                    "pack F3 has 2 context-parallel ranks and no sharding; expected one rank, or a sharding");
  CHECK_THROWS_WITH(rank(4, 0), "pack F4 shards slice 2 by itself; expected places below 2");
  CHECK_THROWS_WITH(
      rank(5, 0),
      "pack F5 is sharded by position in chunks of unknown size; expected a plan that names its block");
  plan.forward.block = 2;
  CHECK(rank(5, 0).tokens == Ints{0, 3, 4, 7, 8, 11});  // chunks of a token each, in two rounds
  CHECK(rank(5, 1).tokens == Ints{1, 2, 5, 6, 9, 10});
  CHECK(rank(5, 1).chunks.kv_prefix_lengths == Ints{5, 1, 5});
  CHECK_THROWS_WITH(rank(6, 0), "pack F6 does not exist; expected a number below 6");
  CHECK_THROWS_WITH(rank(0, 2), "rank is 2; expected a number below 2");
  plan.forward.per_document = {};
  CHECK_THROWS_WITH(rank(2, 0), Catch::StartsWith("pack F2 is mixed; expected a list"));
}
