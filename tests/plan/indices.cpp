#include "slimpack/plan/indices.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using testing::sample_plan;

namespace {

using Ints = std::vector<std::int32_t>;

/// A plan of forward packs only, as far as indices need one.
Plan plan_of(std::vector<Tokens> tokens, const std::vector<std::vector<Slice>>& packs) {
  Plan plan;
  plan.tokens = std::move(tokens);
  for (const auto& slices : packs) {
    for (const Slice& slice : slices) plan.forward.packs.add(slice);
    plan.forward.packs.close();
  }
  return plan;
}

constexpr Task first{Pass::forward, 0};

/// A row of a layout: which token of which sample it holds; sample -1 is padding.
struct Row {
  std::int64_t sample = -1;
  Tokens token = 0;
  friend bool operator==(const Row&, const Row&) = default;
};

std::vector<Row> gather(std::span<const Slice> pack, bool keys, Tokens alignment) {
  std::vector<Row> rows;
  for (const Slice& slice : pack) {
    for (Tokens t = keys ? 0 : slice.begin; t < slice.end; ++t) rows.push_back({slice.sample, t});
    const Tokens size = keys ? slice.end : slice.size();
    for (Tokens at = size; at % alignment != 0; ++at) rows.push_back({});
  }
  return rows;
}

/// What the arrays say about a layout, row by row, is what the naive gathering gives.
void check_layout(std::span<const Slice> pack, const PackIndices& indices, Tokens alignment) {
  const auto rows_of = [&](const Ints& starts, bool keys) {
    std::vector<Row> rows(static_cast<std::size_t>(starts.back()));
    for (std::size_t i = 0; i < pack.size(); ++i) {
      const auto real = keys ? indices.cu_seqlens_k : indices.cu_seqlens_q;
      const Tokens begin = keys ? 0 : pack[i].begin;
      for (Tokens r = 0; r < real[i + 1] - real[i]; ++r) {
        rows.at(static_cast<std::size_t>(starts[i] + r)) = {indices.samples[i], begin + r};
      }
    }
    return rows;
  };
  CHECK(rows_of(indices.cu_seqlens_q, false) == gather(pack, false, 1));
  CHECK(rows_of(indices.cu_seqlens_k, true) == gather(pack, true, 1));
  CHECK(rows_of(indices.cu_seqlens_q_padded, false) == gather(pack, false, alignment));
  CHECK(rows_of(indices.cu_seqlens_k_padded, true) == gather(pack, true, alignment));

  const auto positions_of = [](const std::vector<Row>& rows) {
    Ints positions;
    for (const Row& row : rows) positions.push_back(static_cast<std::int32_t>(row.token));
    return positions;
  };
  CHECK(indices.positions == positions_of(gather(pack, false, 1)));
  CHECK(indices.positions_padded == positions_of(gather(pack, false, alignment)));

  const auto keys = gather(pack, true, 1), keys_padded = gather(pack, true, alignment);
  for (std::size_t i = 0; i < pack.size(); ++i) {
    REQUIRE(indices.kv_prefix_lengths[i] == pack[i].begin);
    const Row begin{pack[i].sample, 0}, own{pack[i].sample, pack[i].begin};
    const auto at = [](Tokens offset) { return static_cast<std::size_t>(offset); };
    CHECK(keys.at(at(indices.kv_prefix_offsets[i])) == begin);
    CHECK(keys.at(at(indices.kv_prefix_offsets[i] + pack[i].begin)) == own);
    CHECK(keys_padded.at(at(indices.kv_prefix_offsets_padded[i])) == begin);
    CHECK(keys_padded.at(at(indices.kv_prefix_offsets_padded[i] + pack[i].begin)) == own);
  }
}

}  // namespace

TEST_CASE("indices of a pack, by hand", "[indices]") {
  // Sample 0 from its start, the middle of sample 1, and the end of sample 2.
  const Plan plan = plan_of({5, 20, 7}, {{{0, 0, 5}, {1, 6, 9}, {2, 3, 7}}});
  const PackIndices indices = pack_indices(plan, first, {.alignment = 4});
  CHECK(indices.cu_seqlens_q == Ints{0, 5, 8, 12});
  CHECK(indices.cu_seqlens_k == Ints{0, 5, 14, 21});
  CHECK(indices.cu_seqlens_q_padded == Ints{0, 8, 12, 16});
  CHECK(indices.cu_seqlens_k_padded == Ints{0, 8, 20, 28});
  CHECK(indices.max_seqlen_q == 5);
  CHECK(indices.max_seqlen_k == 9);
  CHECK(indices.positions == Ints{0, 1, 2, 3, 4, 6, 7, 8, 3, 4, 5, 6});
  CHECK(indices.positions_padded == Ints{0, 1, 2, 3, 4, 0, 0, 0, 6, 7, 8, 0, 3, 4, 5, 6});
  CHECK(indices.kv_prefix_lengths == Ints{0, 6, 3});
  CHECK(indices.kv_prefix_offsets == Ints{0, 5, 14});
  CHECK(indices.kv_prefix_offsets_padded == Ints{0, 8, 20});
  CHECK(indices.samples == std::vector<SampleId>{0, 1, 2});
  CHECK(indices.label_tokens == Ints{4, 3, 3});
}

TEST_CASE("without padding, both layouts are one", "[indices]") {
  const Plan plan = plan_of({37, 130}, {{{0, 11, 37}, {1, 0, 129}}});
  const PackIndices indices = pack_indices(plan, first);
  CHECK(indices.cu_seqlens_q == indices.cu_seqlens_q_padded);
  CHECK(indices.cu_seqlens_k == indices.cu_seqlens_k_padded);
  CHECK(indices.positions == indices.positions_padded);
  CHECK(indices.kv_prefix_offsets == indices.kv_prefix_offsets_padded);
}

TEST_CASE("an empty pack", "[indices]") {
  const Plan plan = plan_of({8}, {{}, {{0, 0, 8}}});
  const PackIndices indices = pack_indices(plan, first, {.alignment = 128});
  for (const Ints* list : {&indices.cu_seqlens_q, &indices.cu_seqlens_k, &indices.cu_seqlens_q_padded,
                           &indices.cu_seqlens_k_padded}) {
    CHECK(*list == Ints{0});
  }
  for (const Ints* list :
       {&indices.positions, &indices.positions_padded, &indices.kv_prefix_lengths, &indices.kv_prefix_offsets,
        &indices.kv_prefix_offsets_padded, &indices.label_tokens}) {
    CHECK(list->empty());
  }
  CHECK(indices.samples.empty());
  CHECK(indices.max_seqlen_q == 0);
  CHECK(indices.max_seqlen_k == 0);
}

TEST_CASE("indices against a naive gathering", "[indices]") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Plan plan = sample_plan({.seed = seed, .samples = 9, .merged = seed % 3, .max_tokens = 301});
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (PackId k = 0; k < plan.of(pass).packs.size(); ++k) {
        for (const Tokens alignment : {1, 8, 128}) {
          CAPTURE(seed, pass, k, alignment);
          const auto pack = plan.of(pass).packs[k];
          const PackIndices indices = pack_indices(plan, {pass, k}, {.alignment = alignment});
          check_layout(pack, indices, alignment);
          Tokens longest = 0, farthest = 0;
          for (const Slice& slice : pack) {
            longest = std::max(longest, slice.size());
            farthest = std::max(farthest, slice.end);
          }
          CHECK(indices.max_seqlen_q == longest);
          CHECK(indices.max_seqlen_k == farthest);
        }
      }
    }
  }
}

TEST_CASE("a weight-gradient task has its backward pack's indices", "[indices]") {
  const Plan plan = sample_plan({.seed = 6});
  CHECK(pack_indices(plan, {Pass::weight, 1}).positions == pack_indices(plan, {Pass::backward, 1}).positions);
}

TEST_CASE("label tokens of all packs add up to those of the batch in both passes", "[indices]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const Plan plan = sample_plan({.seed = seed, .samples = 6, .deferred = seed % 3, .max_tokens = 5});
    Tokens expected = 0;
    for (std::size_t i = 0; i < 6; ++i) expected += plan.tokens[i] - 1;
    CHECK(label_tokens(plan) == expected);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      Tokens sum = 0;
      for (PackId k = 0; k < plan.of(pass).packs.size(); ++k) {
        const Ints labels = pack_indices(plan, {pass, k}).label_tokens;
        sum = std::accumulate(labels.begin(), labels.end(), sum);
      }
      CHECK(sum == expected);
    }
  }
  // A sample of one token has nothing to predict.
  CHECK(label_tokens(plan_of({1, 1, 3}, {})) == 2);
  CHECK(pack_indices(plan_of({1}, {{{0, 0, 1}}}), first).label_tokens == Ints{0});
}

TEST_CASE("reused arrays hold the same and stay where they are", "[indices]") {
  const Plan plan = sample_plan({.seed = 8, .samples = 30, .max_tokens = 400});
  const auto packs = static_cast<PackId>(plan.forward.packs.size());
  PackIndices reused;
  for (int round = 0; round < 2; ++round) {
    // The first round lets every array grow to the largest pack; the second finds all it needs.
    const auto* positions = reused.positions_padded.data();
    const auto* lengths = reused.cu_seqlens_k.data();
    const auto* samples = reused.samples.data();
    const auto* labels = reused.label_tokens.data();
    for (PackId k = 0; k < packs; ++k) {
      pack_indices(plan, {Pass::forward, k}, {.alignment = 8}, reused);
      const PackIndices fresh = pack_indices(plan, {Pass::forward, k}, {.alignment = 8});
      CHECK(reused.cu_seqlens_q == fresh.cu_seqlens_q);
      CHECK(reused.cu_seqlens_k == fresh.cu_seqlens_k);
      CHECK(reused.cu_seqlens_q_padded == fresh.cu_seqlens_q_padded);
      CHECK(reused.cu_seqlens_k_padded == fresh.cu_seqlens_k_padded);
      CHECK(reused.max_seqlen_q == fresh.max_seqlen_q);
      CHECK(reused.max_seqlen_k == fresh.max_seqlen_k);
      CHECK(reused.positions == fresh.positions);
      CHECK(reused.positions_padded == fresh.positions_padded);
      CHECK(reused.kv_prefix_lengths == fresh.kv_prefix_lengths);
      CHECK(reused.kv_prefix_offsets == fresh.kv_prefix_offsets);
      CHECK(reused.kv_prefix_offsets_padded == fresh.kv_prefix_offsets_padded);
      CHECK(reused.samples == fresh.samples);
      CHECK(reused.label_tokens == fresh.label_tokens);
    }
    if (round == 0) continue;
    CHECK(reused.positions_padded.data() == positions);
    CHECK(reused.cu_seqlens_k.data() == lengths);
    CHECK(reused.samples.data() == samples);
    CHECK(reused.label_tokens.data() == labels);
  }
}

TEST_CASE("more rows than 32 bits count", "[indices]") {
  constexpr Tokens most = std::numeric_limits<std::int32_t>::max();
  const auto message = [](const Plan& plan, Tokens alignment) -> std::string {
    try {
      static_cast<void>(pack_indices(plan, {Pass::forward, 1}, {.alignment = alignment}));
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  };
  const auto at_end = [&](Tokens a, Tokens b) {
    return plan_of({a, b}, {{}, {{0, a - 3, a}, {1, b - 2, b}}});
  };
  CHECK(message(at_end(most - 10, 10), 1).empty());
  CHECK(
      message(at_end(most - 10, 11), 1) ==
      "pack F1 needs 2147483648 rows of queries or keys; expected at most 2147483647, for attention kernels "
      "index them with 32 bits");
  CHECK_THAT(message(at_end(most - 10, 10), 128), Catch::StartsWith("pack F1 needs 2147483648 rows"));
  CHECK_THAT(message(at_end(Tokens{1} << 62, 10), 1),
             Catch::StartsWith("pack F1 needs 4611686018427387904 rows"));
  CHECK_THAT(message(at_end(10, 20), most), Catch::StartsWith("pack F1 needs 4294967294 rows"));
}

TEST_CASE("indices refuse what is not there", "[indices]") {
  const Plan plan = plan_of({8}, {{{0, 0, 8}}, {{0, 4, 9}}, {{3, 0, 1}}, {{0, 4, 4}}, {{0, -1, 4}}});
  const auto of = [&](PackId k, Tokens alignment = 1) {
    return pack_indices(plan, {Pass::forward, k}, {alignment});
  };
  CHECK_NOTHROW(of(0));
  CHECK_THROWS_WITH(
      of(1), "pack F1 holds tokens 4 to 9 of sample 0; expected a range within its 8 tokens, not empty");
  CHECK_THROWS_WITH(of(2), "pack F2 holds sample 3; expected ids below 1");
  CHECK_THROWS_WITH(of(3), Catch::StartsWith("pack F3 holds tokens 4 to 4"));
  CHECK_THROWS_WITH(of(4), Catch::StartsWith("pack F4 holds tokens -1 to 4"));
  CHECK_THROWS_WITH(of(5), "pack F5 does not exist; expected a number below 5");
  CHECK_THROWS_WITH(pack_indices(plan, {Pass::backward, 0}), Catch::StartsWith("pack B0 does not exist"));
  CHECK_THROWS_WITH(of(0, 0), "alignment is 0; expected 1 to 2147483647");
  CHECK_THROWS_WITH(of(0, -8), Catch::StartsWith("alignment is -8"));
  CHECK_THROWS_WITH(of(0, Tokens{1} << 31), Catch::StartsWith("alignment is 2147483648"));
}
