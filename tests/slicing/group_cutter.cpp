#include "slimpack/slicing/group_cutter.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "streams.hpp"
#include "tests/planners/github.hpp"

using namespace slimpack;
using oracle::github;

namespace {

/// Group of neighbouring pipelines that merge the longest samples and share the others out.
SampleGroup group_of(const std::vector<Tokens>& lengths, std::size_t members, std::size_t merged) {
  std::vector<SampleId> ids(lengths.size());
  std::iota(ids.begin(), ids.end(), SampleId{0});
  std::stable_sort(ids.begin(), ids.end(), [&](SampleId a, SampleId b) { return lengths[a] > lengths[b]; });
  SampleGroup group;
  group.local.resize(members);
  for (std::size_t i = 0; i < ids.size(); ++i)
    (i < merged ? group.merged : group.local[i % members]).push_back(ids[i]);
  return group;
}

/// Largest pack over the mean, by the seconds on all stages of the prices that each pack runs at.
double max_over_mean(const PackRows& rows, GroupPrices& prices, Pass pass) {
  double sum = 0.0, most = 0.0;
  for (std::size_t k = 0; k < rows.packs.size(); ++k) {
    double seconds = 0.0;
    for (const Slice& slice : rows.packs[k])
      seconds += prices.shared_by(rows.sharers[k]).pipeline_seconds(slice.begin, slice.end, pass);
    sum += seconds;
    most = std::max(most, seconds);
  }
  return most * static_cast<double>(rows.packs.size()) / sum;
}

/// What a tile is of the mean pack, at most: the last of the longest sample, of `tokens`.
double tile_share(const PackRows& rows, GroupPrices& prices, Pass pass, Tokens tile, Tokens longest) {
  double sum = 0.0;
  for (std::size_t k = 0; k < rows.packs.size(); ++k) {
    for (const Slice& slice : rows.packs[k])
      sum += prices.shared_by(rows.sharers[k]).pipeline_seconds(slice.begin, slice.end, pass);
  }
  const double last = prices.alone().pipeline_seconds(std::max<Tokens>(0, longest - tile), longest, pass);
  return last * static_cast<double>(rows.packs.size()) / sum;
}

}  // namespace

TEST_CASE("packs of one pipeline take equal time in both passes, to 2 % and a tile") {
  const CalibratedCost cost = test::cost_of(1);
  GroupPrices prices{Prices(cost)};
  for (const Tokens context : {16384, 65536, 262144}) {
    const std::vector<Tokens> lengths = github(128, context);
    const SampleGroup group = group_of(lengths, 1, 0);
    const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
    GroupCutter cutter(lengths);
    cutter.load(group, prices.alone(), prices.alone());
    for (const Tokens tile : {1, 128}) {
      for (const std::size_t packs : {16u, 32u, 64u, 100u}) {
        INFO("context " << context << ", tile " << tile << ", packs " << packs);
        GroupPacks own, mirrored;
        cutter.cut({.packs = packs, .tile = tile}, own);
        cutter.cut({.packs = packs, .tile = tile, .backward = BackwardPacks::mirrored}, mirrored);
        CHECK(own.forward.packs.size() == packs);
        CHECK(own.backward.packs.size() == packs);
        for (const Pass pass : {Pass::forward, Pass::backward}) {
          const PackRows& rows = pass == Pass::forward ? own.forward : own.backward;
          CHECK(max_over_mean(rows, prices, pass) <= 1.02 + tile_share(rows, prices, pass, tile, longest));
        }
        // Long samples cost more per token in the backward pass than in the forward pass.
        if (tile == 1 && context > 16384)
          CHECK(max_over_mean(mirrored.backward, prices, Pass::backward) >
                max_over_mean(own.backward, prices, Pass::backward) + 0.05);
      }
    }
  }
}

TEST_CASE("merged and local packs of equal numbers have about equal sizes") {
  const CalibratedCost cost = test::cost_of(1);
  GroupPrices prices{Prices(cost)};
  const std::vector<Tokens> lengths = github(64, 65536);
  const SampleGroup group = group_of(lengths, 4, 2);
  GroupCutter cutter(lengths);
  cutter.load(group, prices.alone(), prices.shared_by(4));
  for (const std::size_t packs : {32u, 48u, 64u}) {
    INFO("packs " << packs);
    GroupPacks out;
    cutter.cut({.packs = packs, .tile = 1, .exact = true}, out);
    for (const PackRows* rows : {&out.forward, &out.backward}) {
      std::vector<std::size_t> own(4, 0);
      for (std::size_t k = 0; k < rows->packs.size(); ++k) {
        for (const std::uint32_t p : rows->members[k]) ++own[p];
      }
      CHECK(own == std::vector<std::size_t>(4, packs));
    }
  }
}

TEST_CASE("chains with the longest samples last are those of cut samples apart, in reverse order") {
  const Prices prices(CalibratedCost({transformer_preset("llama-7b"), device_preset("h100"), Layout{}}));
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<Tokens> lengths(5 + random() % 30);
    for (Tokens& n : lengths) n = static_cast<Tokens>(1 + random() % (random() % 5 == 0 ? 60000 : 3000));
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    SampleGroup group{.first = 0, .merged = {}, .local = {{}}};
    for (SampleId id = 0; id < lengths.size(); ++id) group.local[0].push_back(id);
    GroupCutter cutter(lengths);
    cutter.load(group, prices, prices);
    GroupPacks apart, rising;
    GroupCut cut{.packs = 2 + random() % 30, .tile = 64, .backward = BackwardPacks::mirrored_apart};
    cutter.cut(cut, apart);
    cut.backward = BackwardPacks::mirrored_rising;
    cutter.cut(cut, rising);
    const auto packs_of = [](const Packs& packs) {
      std::vector<std::vector<std::pair<SampleId, Tokens>>> all;
      for (std::size_t k = 0; k < packs.size(); ++k) {
        all.emplace_back();
        for (const Slice& slice : packs[k]) all.back().emplace_back(slice.sample, slice.begin);
      }
      return all;
    };
    // Backward packs run chains in their sequence, each from its end: reversed, they are the forward packs of the other.
    auto backward = packs_of(apart.backward.packs);
    std::reverse(backward.begin(), backward.end());
    CHECK(packs_of(rising.forward.packs) == backward);
    auto forward = packs_of(apart.forward.packs);
    std::reverse(forward.begin(), forward.end());
    CHECK(packs_of(rising.backward.packs) == forward);
    CHECK(rising.forward.rows.size() == apart.forward.rows.size());
  }
}
