#include "slimpack/cost/pack_attention.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/sharding/by_position.hpp"
#include "tests/cost/random_jobs.hpp"
#include "tests/cost/random_profile.hpp"

using namespace slimpack;
using slimpack::testing::Random;

static_assert(BoundedAttentionModel<AttentionKernel> && BoundedAttentionModel<ProfiledAttention>);

namespace {

double of(const AttentionSeconds& seconds, Pass pass) {
  return pass == Pass::forward ? seconds.forward : seconds.backward;
}

std::vector<Slice> random_pack(Random& random, Tokens most) {
  std::vector<Slice> pack;
  for (Tokens i = random.tokens(1, 5); i > 0; --i) {
    const Tokens begin = random.chance(0.3) ? 0 : random.tokens(0, most);
    pack.push_back({static_cast<SampleId>(i), begin, begin + random.tokens(1, most)});
  }
  return pack;
}

/// The slowest rank of explicit shards.
template <class A>
double naive_by_position(const A& model, std::span<const Slice> pack, std::int32_t ranks, Tokens block,
                         Pass pass) {
  double most = 0.0;
  const ContextShards shards = position_shards(pack, ranks, block);
  for (std::size_t r = 0; r < shards.ranks.size(); ++r)
    most = std::max(most, of(attention_seconds(model, shards.ranks[r]), pass));
  return most;
}

template <class A>
void check(const A& model, Random& random) {
  const Tokens block = random.one_of<Tokens>({1, 7, 64, 128, 256});
  ModelPackAttention attention(model, block);
  const AttentionSeconds least = model.least_seconds_per_twice_pair();
  for (int i = 0; i < 8; ++i) {
    const auto ranks = static_cast<std::int32_t>(random.tokens(2, 9));
    const std::vector<Slice> pack = random_pack(random, 40 * block);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const double alone = attention.by_heads(pack, 1, pass),
                   shared = attention.by_position(pack, ranks, pass),
                   heads = attention.by_heads(pack, ranks, pass);
      CHECK(alone == Approx(of(attention_seconds(model, std::span<const Slice>(pack)), pass)));
      CHECK(shared == Approx(naive_by_position(model, pack, ranks, block, pass)));
      const double launch = of(model.launch_seconds(), pass);
      CHECK(heads - launch == Approx((alone - launch) / ranks));
      // No sharing takes less than equal shares at the best rate.
      const double bound = launch + of(least, pass) * twice_causal_pairs(pack) / ranks;
      CHECK(shared >= bound * (1.0 - 1e-12));
      CHECK(heads >= bound * (1.0 - 1e-12));
    }
  }
}

}  // namespace

TEST_CASE("the ranges of a rank are those that it owns of a sample", "[pack_attention]") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const auto ranks = static_cast<std::size_t>(random.tokens(2, 9));
    const Tokens block = random.tokens(1, 40), length = 14 * static_cast<Tokens>(ranks) * block;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const PositionRanges ranges(ranks, rank, block);
      std::vector<Slice> owned;
      owned_ranges({0, 0, length}, ranks, rank, block, owned);
      owned.pop_back();  // it may go on after the end
      for (std::size_t i = 0; i < owned.size(); ++i) CHECK(ranges[static_cast<Tokens>(i)] == owned[i]);
      const Tokens token = random.tokens(0, owned.back().end);
      const auto round = DealtRounds(ranks, block).containing(token);
      CHECK(ranges.beginning_before(token, round) ==
            std::count_if(owned.begin(), owned.end(), [&](const Slice& r) { return r.begin < token; }));
      CHECK(ranges.ended_at(token, round) ==
            std::count_if(owned.begin(), owned.end(), [&](const Slice& r) { return r.end <= token; }));
    }
  }
}

TEST_CASE("attention of packs is that of the slowest rank's explicit shard, whatever the model",
          "[pack_attention]") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    check(AttentionKernel(assumed_attention_table(device_preset("h100")), transformer_preset("llama-7b"), 8),
          random);
    check(ProfiledAttention(testing::machine(seed, true)), random);
  }
}

TEST_CASE("packs without tokens take no attention", "[pack_attention]") {
  ModelPackAttention attention(
      assumed_attention(
          {.model = transformer_preset("llama-7b"), .device = device_preset("h100"), .layout = {}}),
      128);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    CHECK(attention.by_heads({}, 1, pass) == 0.0);
    CHECK(attention.by_heads({}, 4, pass) == 0.0);
    CHECK(attention.by_position({}, 4, pass) == 0.0);
  }
}
