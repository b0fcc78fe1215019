#include "slimpack/cost/least_attention.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <type_traits>

#include "slimpack/cost/calibrated.hpp"
#include "tests/cost/random_jobs.hpp"

using namespace slimpack;
using slimpack::testing::Random;

namespace {

/// Can't tell attention from the rest. Its slices take far more than with any attention below.
struct Whole {
  std::size_t stages() const { return 3; }
  double slice_seconds(std::size_t s, Tokens, Tokens, Pass) const { return 1e9 * double(s + 1); }
  double pack_seconds(std::size_t s, Pass) const { return 3.0 + double(s); }
  double transfer_seconds(std::size_t s, Tokens tokens, Pass) const { return double(tokens) + double(s); }
};

/// Can tell attention from the rest, and nothing more.
struct Separable : Whole {
  double other_seconds(std::size_t s, Tokens begin, Tokens end, Pass pass) const {
    return (pass == Pass::forward ? 1.0 : 2.5) * double(s + 1) * double(end - begin);
  }
  double attention_seconds(std::size_t s, Pass pass, double layer) const {
    return (pass == Pass::forward ? 1.0 : 1.5) * double(s + 2) * layer;
  }
};

/// Has all that a separable model may have but a closed form.
struct Capable : Separable {
  double recompute_seconds(std::size_t, Tokens, Tokens) const { return 1e9; }
  double recompute_other_seconds(std::size_t s, Tokens begin, Tokens end) const {
    return 0.25 * double(s + 1) * double(end - begin) / ranks;
  }
  double recompute_pack_seconds(std::size_t s) const { return 0.25 * double(s + 1); }
  double sync_seconds() const { return 11.0; }
  bool supports_context_parallel(std::int32_t group) const { return group != 3; }
  Capable with_context_parallel(std::int32_t group) const { return {{}, ranks * group, way}; }
  ExchangeSet exchanges() const { return way; }
  Capable with_exchange(KeyExchange e) const { return {{}, ranks, {e}}; }

  std::int32_t ranks = 1;
  ExchangeSet way{KeyExchange::ring, KeyExchange::all_gather};
};

Approx same(double value) { return Approx(value).epsilon(1e-10); }

using Least = LeastAttentionCost<Capable>;
using Fewer = LeastAttentionCost<Separable>;
static_assert(RecomputingCostModel<Least> && MergeableCostModel<Least> && ExchangingCostModel<Least>);
static_assert(!RecomputingCostModel<Fewer> && !MergeableCostModel<Fewer> && !ExchangingCostModel<Fewer>);
static_assert(SeparableCostModel<Least> && SeparableCostModel<Fewer>);
static_assert(!PolynomialCostModel<LeastAttentionCost<CalibratedCost>>);
static_assert(std::is_same_v<decltype(with_attention(Whole{}, AttentionSeconds{}, 1)), Whole>);

/// Compares slices with the model's other work plus attention that is summed query by query and shared by the ranks.
void check_slices(const Least& least, const Capable& cost, const AttentionSeconds& rate, Random& random) {
  const Tokens begin = random.tokens(0, 500), end = begin + random.tokens(1, 500);
  double pairs = 0.0;
  for (Tokens query = begin; query < end; ++query) pairs += 2.0 * double(query + 1) / cost.ranks;
  REQUIRE(least.stages() == cost.stages());
  CHECK((least.sync_seconds() == cost.sync_seconds() && least.exchanges() == cost.exchanges()));
  for (std::size_t s = 0; s < least.stages(); ++s) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const double layer = pairs * (pass == Pass::forward ? rate.forward : rate.backward);
      CHECK(least.slice_seconds(s, begin, end, pass) ==
            same(cost.other_seconds(s, begin, end, pass) + cost.attention_seconds(s, pass, layer)));
      CHECK(least.other_seconds(s, begin, end, pass) == cost.other_seconds(s, begin, end, pass));
      CHECK(least.attention_seconds(s, pass, 7.0) == cost.attention_seconds(s, pass, 7.0));
      CHECK(least.pack_seconds(s, pass) == cost.pack_seconds(s, pass));
      CHECK(least.transfer_seconds(s, end, pass) == cost.transfer_seconds(s, end, pass));
    }
    CHECK(least.recompute_pack_seconds(s) == cost.recompute_pack_seconds(s));
    CHECK(least.recompute_seconds(s, begin, end) ==
          same(cost.recompute_other_seconds(s, begin, end) + pairs * rate.forward));
  }
}

}  // namespace

TEST_CASE("attention takes the given time for each pair, and the rest what the model says") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const AttentionSeconds rate{random.number(0.0, 2.0), random.number(0.0, 2.0)};
    const Capable cost = Capable{}.with_context_parallel(random.one_of<std::int32_t>({1, 2, 5}));
    const Least least = with_attention(cost, rate, cost.ranks);
    check_slices(least, cost, rate, random);
    check_slices(least.with_context_parallel(4), cost.with_context_parallel(4), rate, random);
    check_slices(least.with_exchange(KeyExchange::ring), cost.with_exchange(KeyExchange::ring), rate, random);
    CHECK((least.supports_context_parallel(4) && !least.supports_context_parallel(3)));
  }
}

TEST_CASE("a model's own way to take other attention is used, and agrees where no exchange hides") {
  int compared = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const auto drawn = testing::random_calibrated(random);
    const CalibratedCost cost = drawn.cost();
    const std::int32_t cp = drawn.job.layout.cp * drawn.members;
    const AttentionSeconds rate{random.number(0.0, 1e-9), random.number(0.0, 1e-9)};
    const CalibratedCost own = with_attention(cost, rate, cp);
    const LeastAttentionCost least(cost, {rate.forward / cp, rate.backward / cp});
    const Tokens begin = random.tokens(0, 90000), end = begin + random.tokens(1, 90000);
    compared += cost.is_polynomial() && cp > 1 ? 1 : 0;
    for (std::size_t s = 0; cost.is_polynomial() && s < cost.stages(); ++s) {
      for (const Pass p : {Pass::forward, Pass::backward})
        CHECK(own.slice_seconds(s, begin, end, p) == same(least.slice_seconds(s, begin, end, p)));
      CHECK(own.recompute_seconds(s, begin, end) == same(least.recompute_seconds(s, begin, end)));
    }
  }
  CHECK(compared > 10);
}
