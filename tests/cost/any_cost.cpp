#include "slimpack/cost/any_cost.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "tests/cost/random_jobs.hpp"

using namespace slimpack;
using slimpack::testing::Random;

namespace {

/// What every model has, in types that convert to those asked for.
struct Bare {
  unsigned stages() const { return 3; }
  float slice_seconds(std::size_t s, Tokens begin, Tokens end, Pass pass) const {
    const float passes = pass == Pass::forward ? 1.0F : 2.5F;
    return passes * static_cast<float>(s + 1) * static_cast<float>(end * end - begin * begin);
  }
  float pack_seconds(std::size_t s, Pass) const { return static_cast<float>(s) + 0.5F; }
  float transfer_seconds(std::size_t s, Tokens tokens, Pass) const {
    return static_cast<float>(s + 1) * static_cast<float>(tokens);
  }
};

/// The same with its own sums over stages.
struct Summing : Bare {
  explicit Summing(int* n) : calls(n) {}
  double pipeline_seconds(Tokens begin, Tokens end, Pass pass) const {
    ++*calls;
    return 6.0 * slice_seconds(0, begin, end, pass);
  }
  void add_slice_seconds(Tokens begin, Tokens end, Pass pass, std::span<double> seconds) const {
    ++*calls;
    for (std::size_t s = 0; s < seconds.size(); ++s) seconds[s] += slice_seconds(s, begin, end, pass);
  }
  int* calls;
};

/// Samples so short that `Bare` rounds nothing.
constexpr Tokens exact = 700;

/// Compares all that a model says of one slice in each pass. @param longest tokens that the slice and its prefix may have.
template <class C>
void check_model(const AnyCost& any, const C& cost, Random& random, Tokens longest = 3000) {
  const std::size_t stages = cost.stages();
  const Tokens begin = random.tokens(0, longest), end = begin + random.tokens(1, longest);
  REQUIRE(any.stages() == stages);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    double sum = 0.0;
    std::vector<double> added(stages, 0.25), samples(stages, 0.25), sent(stages - 1, -1.0);
    any.add_slice_seconds(begin, end, pass, added);
    any.add_sample_seconds(std::vector<Tokens>{end, end - begin}, pass, samples);
    any.transfer_seconds(end, pass, sent);
    for (std::size_t s = 0; s < stages; ++s) {
      const double seconds = cost.slice_seconds(s, begin, end, pass);
      CHECK(any.slice_seconds(s, begin, end, pass) == seconds);
      CHECK(added[s] == Approx(0.25 + seconds).epsilon(1e-12));
      double whole = cost.slice_seconds(s, 0, end, pass);
      whole += cost.slice_seconds(s, 0, end - begin, pass);
      CHECK(samples[s] == Approx(0.25 + whole).epsilon(1e-12));
      CHECK(any.pack_seconds(s, pass) == cost.pack_seconds(s, pass));
      sum += seconds;
      if (s + 1 == stages) continue;
      CHECK(any.transfer_seconds(s, end, pass) == cost.transfer_seconds(s, end, pass));
      CHECK(sent[s] == cost.transfer_seconds(s, end, pass));
    }
    CHECK(any.pipeline_seconds(begin, end, pass) == Approx(sum).epsilon(1e-12));
    if constexpr (std::is_same_v<C, CalibratedCost>) {
      CHECK(any.sync_seconds() == cost.sync_seconds());
      CHECK(any.exchanges() == cost.exchanges());
      REQUIRE((any.recomputes() && any.separable() && any.polynomial() == cost.is_polynomial()));
      for (std::size_t s = 0; s < stages; ++s) {
        CHECK(any.recompute_seconds(s, begin, end) == cost.recompute_seconds(s, begin, end));
        CHECK(7.0 * any.attention_weight(s, pass) == Approx(cost.attention_seconds(s, pass, 7.0)));
        if (!any.polynomial()) continue;
        CHECK(any.coefficients(s, pass) == cost.coefficients(s, pass));
        CHECK(any.recompute_coefficients(s) == cost.recompute_coefficients(s));
      }
    }
  }
}

}  // namespace

TEST_CASE("any cost says what its model says, alone, merged, and with one way to exchange") {
  int polynomial = 0, other = 0, refused = 0, ways = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const auto drawn = testing::random_calibrated(random);
    const CalibratedCost alone(drawn.job, drawn.options);
    for (const std::int32_t group : {1, 2, 3, 4}) {
      const auto members = static_cast<std::size_t>(group);
      REQUIRE(AnyCost(alone).merges(members) == alone.supports_context_parallel(group));
      if (!alone.supports_context_parallel(group)) {
        ++refused;
        continue;
      }
      const CalibratedCost cost = alone.with_context_parallel(group);
      const AnyCost any = AnyCost(alone).merged(members);
      check_model(any, cost, random);
      ++(any.polynomial() ? polynomial : other);
      for (const KeyExchange e : key_exchanges) {
        if (!cost.exchanges().contains(e)) continue;
        check_model(any.with_exchange(e), cost.with_exchange(e), random);
        ++ways;
      }
    }
  }
  for (const int seen : {polynomial, other, refused, ways}) CHECK(seen > 5);
}

TEST_CASE("what a model lacks is absent or costs nothing, and its own sums over stages are used") {
  Random random(1);
  const AnyCost any(Bare{});
  check_model(any.merged(1), Bare{}, random, exact);
  CHECK((any.merges(1) && !any.merges(2)));
  CHECK_FALSE((any.recomputes() || any.separable() || any.polynomial()));
  CHECK(any.exchanges().empty());
  CHECK(any.sync_seconds() + any.recompute_pack_seconds(2) + any.attention_weight(2, Pass::forward) == 0.0);
  int calls = 0;
  check_model(AnyCost(Summing(&calls)), Bare{}, random, exact);
  CHECK(calls == 8);  // both sums, and two samples, in both passes
}

TEST_CASE("a model may state its numbers as whole ones") {
  struct Whole {
    int stages() const { return 2; }
    int slice_seconds(std::size_t, Tokens begin, Tokens end, Pass) const {
      return static_cast<int>(end - begin);
    }
    void add_slice_seconds(Tokens begin, Tokens end, Pass pass, std::span<double> seconds) const {
      for (std::size_t s = 0; s < seconds.size(); ++s) seconds[s] += slice_seconds(s, begin, end, pass);
    }
    int pack_seconds(std::size_t, Pass) const { return 3; }
    int transfer_seconds(std::size_t, Tokens, Pass) const { return 1; }
  };
  const AnyCost any(Whole{});
  CHECK(any.stages() == 2);
  CHECK(any.pipeline_seconds(4, 9, Pass::forward) == 10.0);
  std::vector<double> seconds(any.stages(), 1.0);
  any.add_slice_seconds(4, 9, Pass::forward, seconds);
  CHECK(seconds == std::vector<double>{6.0, 6.0});
  CHECK(any.pack_seconds(1, Pass::backward) + any.transfer_seconds(0, 9, Pass::forward) == 4.0);
}
