#include "slimpack/cost/prices.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/measured.hpp"
#include "tests/cost/random_jobs.hpp"
#include "tests/cost/random_profile.hpp"

using namespace slimpack;
using slimpack::testing::Random;

namespace {

/// The same times without closed form, and slower by a power of the slice's end.
template <class C>
struct Bent {
  C cost;

  std::size_t stages() const { return cost.stages(); }
  double slice_seconds(std::size_t s, Tokens begin, Tokens end, Pass pass) const {
    return cost.slice_seconds(s, begin, end, pass) +
           1e-12 * (std::pow(static_cast<double>(end), 1.5) - std::pow(static_cast<double>(begin), 1.5));
  }
  double pack_seconds(std::size_t s, Pass pass) const { return cost.pack_seconds(s, pass); }
  double transfer_seconds(std::size_t s, Tokens tokens, Pass pass) const {
    return cost.transfer_seconds(s, tokens, pass);
  }
  double recompute_seconds(std::size_t s, Tokens begin, Tokens end) const {
    return 1.1 * cost.recompute_seconds(s, begin, end);
  }
  double recompute_pack_seconds(std::size_t s) const { return 1e-6 * static_cast<double>(s + 1); }
  double sync_seconds() const { return 0.25; }
  bool supports_context_parallel(std::int32_t group) const { return cost.supports_context_parallel(group); }
  Bent with_context_parallel(std::int32_t group) const { return {cost.with_context_parallel(group)}; }
};

/// All that a model can have, and nothing else.
struct Plain {
  std::size_t stages() const { return 2; }
  double slice_seconds(std::size_t s, Tokens begin, Tokens end, Pass) const {
    return static_cast<double>(s + 1) * static_cast<double>(end - begin);
  }
  double pack_seconds(std::size_t, Pass) const { return 1.0; }
  double transfer_seconds(std::size_t, Tokens, Pass) const { return 0.5; }
};

Packs random_packs(Random& random) {
  Packs packs;
  for (Tokens k = random.tokens(1, 4); k > 0; --k) {
    for (Tokens i = random.tokens(0, 5); i > 0; --i) {
      const Tokens begin = random.tokens(0, 50000);
      packs.add({0, begin, begin + random.tokens(1, 20000)});
    }
    packs.close();
  }
  return packs;
}

/// Compares all that prices say with the model, and the sums over slices and stages with sums of slices.
template <class C>
void check(const Prices& prices, const C& cost, Random& random) {
  const auto same = [](double value) { return Approx(value).epsilon(1e-9).margin(1e-15); };
  const std::size_t stages = cost.stages();
  REQUIRE(prices.stages() == stages);
  CHECK(prices.sync_seconds() == slimpack::sync_seconds(cost));
  CHECK(prices.recomputes() == RecomputingCostModel<C>);
  const Packs packs = random_packs(random);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (std::size_t k = 0; k < packs.size(); ++k) {
      std::vector<double> expected(stages), found(stages, -1.0), added(stages, 0.5), sent(stages - 1, -1.0);
      const Tokens tokens = count_tokens(packs[k]);
      prices.price_pack(packs[k], pass, found);
      prices.transfer_seconds(tokens, pass, sent);
      for (std::size_t s = 0; s < stages; ++s) {
        CHECK(prices.pack_seconds(s, pass) == cost.pack_seconds(s, pass));
        expected[s] = cost.pack_seconds(s, pass);
        for (const Slice& slice : packs[k]) {
          const double seconds = cost.slice_seconds(s, slice.begin, slice.end, pass);
          CHECK(prices.slice_seconds(s, slice.begin, slice.end, pass) == same(seconds));
          expected[s] += seconds;
        }
        CHECK(found[s] == same(expected[s]));
        if (s + 1 == stages) continue;
        CHECK(sent[s] == same(cost.transfer_seconds(s, tokens, pass)));
        CHECK(prices.transfer_seconds(s, tokens, pass) == sent[s]);
      }
      for (const Slice& slice : packs[k]) {
        double sum = 0.0;
        for (std::size_t s = 0; s < stages; ++s) sum += cost.slice_seconds(s, slice.begin, slice.end, pass);
        CHECK(prices.pipeline_seconds(slice.begin, slice.end, pass) == same(sum));
        CHECK(SlicePrices(prices, pass)(slice.begin, slice.end) == same(sum));
        prices.add_slice_seconds(slice.begin, slice.end, pass, added);
      }
      for (std::size_t s = 0; s < stages; ++s)
        CHECK(added[s] == same(0.5 + expected[s] - cost.pack_seconds(s, pass)));
    }
  }
  const std::vector<Tokens> lengths{random.tokens(1, 90000), random.tokens(1, 90000), random.tokens(1, 90)};
  std::vector<double> sum(stages, 0.0);
  add_sample_seconds(prices, lengths, sum);
  for (std::size_t s = 0; s < stages; ++s) {
    double expected = 0.0;
    for (const Tokens length : lengths) {
      for (const Pass pass : {Pass::forward, Pass::backward})
        expected += cost.slice_seconds(s, 0, length, pass);
    }
    CHECK(sum[s] == same(expected));
  }
  if constexpr (RecomputingCostModel<C>) {
    for (std::size_t k = 0; k < packs.size(); ++k) {
      std::vector<double> recompute(stages, -1.0);
      prices.price_recompute(packs[k], recompute);
      for (std::size_t s = 0; s < stages; ++s) {
        double expected = recompute_pack_seconds(cost, s);
        for (const Slice& slice : packs[k]) expected += cost.recompute_seconds(s, slice.begin, slice.end);
        CHECK(recompute[s] == same(expected));
      }
    }
  }
}

/// Of one pipeline and of groups.
template <class C>
void check_groups(const C& cost, Random& random) {
  GroupPrices prices{Prices(cost)};
  check(prices.alone(), cost, random);
  CHECK(&prices.shared_by(1) == &prices.alone());
  for (const std::size_t group : {4u, 2u, 3u, 2u}) {
    INFO("group of " << group);
    const auto members = static_cast<std::int32_t>(group);
    CHECK(prices.allows(group) == cost.supports_context_parallel(members));
    if (prices.allows(group)) check(prices.shared_by(group), C(cost.with_context_parallel(members)), random);
  }
}

}  // namespace

TEST_CASE("prices are those of the model, alone and merged, with and without closed form") {
  int polynomial = 0, other = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const auto [job, options, members] = slimpack::testing::random_calibrated(random);
    try {
      const CalibratedCost cost(job, options);
      ++(Prices(cost).polynomial() ? polynomial : other);
      CHECK(Prices(cost).polynomial() == cost.is_polynomial());
      check_groups(cost, random);
      CHECK_FALSE(Prices(Bent<CalibratedCost>{cost}).polynomial());
      check_groups(Bent<CalibratedCost>{cost}, random);
    } catch (const InvalidInput&) {  // an impossible job
    }
  }
  CHECK(polynomial > 50);
  CHECK(other > 5);
}

TEST_CASE("a profile's prices hold the constants of recomputed packs") {
  bool constant = false;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Profile profile = slimpack::testing::machine(seed, seed % 2 == 0);
    const MeasuredCost cost(profile, profile.model, split_layers(profile.model.layers, 2), {.replicas = 2});
    REQUIRE(Prices(cost).polynomial());
    check_groups(cost, random);
    constant = constant || cost.recompute_pack_seconds(0) > 0.0;
  }
  CHECK(constant);
}

TEST_CASE("a model without options is priced alone only") {
  Random random(1);
  GroupPrices prices{Prices(Plain{})};
  check(prices.alone(), Plain{}, random);
  CHECK(prices.allows(1));
  CHECK_FALSE(prices.allows(2));
  CHECK(prices.alone().sync_seconds() == 0.0);
}

TEST_CASE("prices hold a copy of the model") {
  struct Counted : Plain {
    explicit Counted(int* n) : alive(n) { ++*alive; }
    Counted(const Counted& other) : Plain(other), alive(other.alive) { ++*alive; }
    Counted& operator=(const Counted&) = delete;
    ~Counted() { --*alive; }
    int* alive;
  };
  int alive = 0;
  {
    const auto prices = [&] { return Prices(Counted(&alive)); }();
    const Prices copy = prices;
    CHECK(alive == 1);
    CHECK(copy.slice_seconds(1, 0, 3, Pass::forward) == 6.0);
  }
  CHECK(alive == 0);
}

TEST_CASE("a model without stages is refused") {
  struct Empty : Plain {
    std::size_t stages() const { return 0; }
  };
  CHECK_THROWS_WITH(Prices(Empty{}), Catch::Contains("0 stages; expected at least one"));
}
