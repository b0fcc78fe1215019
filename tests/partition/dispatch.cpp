#include "slimpack/partition/dispatch.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "slimpack/partition/dispatch_bound.hpp"
#include "slimpack/partition/dispatch_greedy.hpp"
#include "slimpack/partition/dispatch_search.hpp"
#include "tests/partition/dispatch_instances.hpp"

using namespace slimpack;

namespace {

/// Every sample on a pipeline that holds it, and the seconds of Eq. 2.
void check_dispatch(const test::DispatchInstance& in, const Dispatch& dispatch) {
  const std::vector<std::size_t> kind = in.kind_of();
  REQUIRE(dispatch.pipeline.size() == in.lengths.size());
  REQUIRE(dispatch.seconds.size() == kind.size());
  std::vector<std::vector<std::size_t>> samples(kind.size());
  for (std::size_t i = 0; i < in.lengths.size(); ++i) {
    REQUIRE(dispatch.pipeline[i] < kind.size());
    CHECK(in.lengths[i] <= in.kinds[kind[dispatch.pipeline[i]]].max_tokens);
    samples[dispatch.pipeline[i]].push_back(i);
  }
  for (std::size_t p = 0; p < kind.size(); ++p)
    CHECK(dispatch.seconds[p] == Approx(test::eq2(in, kind[p], samples[p])).epsilon(1e-12).margin(0.0));
}

/// Algorithm 1's lines 4 to 15 as they stand, for one order of the samples.
double literal_trial(const test::DispatchInstance& in, const std::vector<SampleId>& order) {
  std::vector<std::size_t> kind = in.kind_of();
  std::stable_sort(kind.begin(), kind.end(), [&](std::size_t a, std::size_t b) {
    return in.kinds[a].max_tokens > in.kinds[b].max_tokens;
  });
  const std::size_t D = kind.size();
  std::vector<double> C(D, 0.0), E(D, 0.0), most(D, 0.0);
  for (const SampleId i : order) {
    double least = std::numeric_limits<double>::infinity(), new_c = 0.0, new_e = 0.0, new_most = 0.0;
    std::size_t best = D;
    for (std::size_t j = 0; j < D && in.lengths[i] <= in.kinds[kind[j]].max_tokens; ++j) {
      const double t = in.problem().seconds_on(kind[j], i);
      const double l_max = std::max(t, most[j]), c = C[j] + t;
      const double e = l_max * static_cast<double>(in.kinds[kind[j]].stages - 1);
      double o_max = c + e;
      for (std::size_t k = 0; k < D; ++k) o_max = k == j ? o_max : std::max(o_max, C[k] + E[k]);
      if (o_max >= least) continue;
      least = o_max;
      best = j;
      new_c = c;
      new_e = e;
      new_most = l_max;
    }
    C[best] = new_c;
    E[best] = new_e;
    most[best] = new_most;
  }
  double worst = 0.0;
  for (std::size_t j = 0; j < D; ++j) worst = std::max(worst, C[j] + E[j]);
  return worst;
}

}  // namespace

TEST_CASE("a trial does what Algorithm 1 says, sample by sample") {
  for (unsigned seed = 2; seed < 400; seed += 2) {  // even seeds have whole seconds
    const auto in = test::random_dispatch(seed, seed % 60, 1 + seed % 30, 4);
    INFO("seed " << seed << ": " << test::print(in));
    detail::DispatchTrials trials(in.problem());
    std::vector<SampleId> order(in.lengths.size());
    std::iota(order.begin(), order.end(), SampleId{0});
    std::mt19937_64 random(seed);
    for (int trial = 0; trial < 3; ++trial) {
      detail::shuffle(random, order);
      const double literal = literal_trial(in, order);
      CHECK(trials.run(order, std::numeric_limits<double>::infinity()) == literal);
      const Dispatch made = detail::dispatch_of(in.problem(), trials.pipeline());
      check_dispatch(in, made);
      CHECK(made.makespan() == literal);
      CHECK(trials.run(order, std::nextafter(literal, 1e300)) == literal);
      if (!in.lengths.empty()) CHECK(trials.run(order, literal) == std::numeric_limits<double>::infinity());
    }
  }
}

TEST_CASE("orders of samples are permutations, and all come") {
  std::mt19937_64 random(1);
  std::vector<SampleId> order{0, 1, 2, 3};
  std::set<std::vector<SampleId>> seen;
  for (int n = 0; n < 1000; ++n) {
    detail::shuffle(random, order);
    CHECK(std::is_permutation(order.begin(), order.end(), std::vector<SampleId>{0, 1, 2, 3}.begin()));
    seen.insert(order);
  }
  CHECK(seen.size() == 24);
}

TEST_CASE("bound <= least makespan <= search <= greedy, and the search is within 1 % of the least") {
  std::size_t met = 0, tight = 0, cases = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const auto in = test::random_dispatch(seed, 1 + seed % 8, 1 + seed / 8 % 4, 3);
    INFO("seed " << seed << ": " << test::print(in));
    const double least = test::LeastDispatch(in).solve();
    const DispatchBound bound = dispatch_lower_bound(in.problem());
    const Dispatch greedy = greedy_dispatch(in.problem());
    const DispatchResult search = search_dispatch(in.problem());
    check_dispatch(in, greedy);
    check_dispatch(in, search.dispatch);
    CHECK(bound.seconds <= least * (1.0 + 1e-9));
    CHECK(search.bound <= least * (1.0 + 1e-9));
    CHECK(search.bound >= std::min(bound.seconds, search.dispatch.makespan()));
    CHECK(search.greedy == greedy.makespan());
    CHECK(search.dispatch.makespan() <= greedy.makespan());
    CHECK(search.dispatch.makespan() >= least * (1.0 - 1e-9));
    CHECK(search.dispatch.makespan() <= least * 1.01 + 1e-12);
    ++cases;
    met += search.dispatch.makespan() <= least * (1.0 + 1e-9) ? 1U : 0U;
    tight += search.bound >= 0.95 * least ? 1U : 0U;
  }
  CHECK(met > cases * 9 / 10);
  CHECK(tight > cases / 3);
}

TEST_CASE("more trials with a seed are never worse, other seeds differ, and the same call repeats itself") {
  std::size_t differ = 0;
  for (unsigned seed = 1; seed < 40; ++seed) {
    const auto in = test::random_dispatch(seed, 40, 6, 3);
    INFO("seed " << seed << ": " << test::print(in));
    double before = std::numeric_limits<double>::infinity();
    for (const std::size_t trials : {1U, 2U, 10U, 100U}) {
      const Dispatch greedy = greedy_dispatch(in.problem(), {.trials = trials});
      CHECK(greedy.makespan() <= before);
      CHECK(greedy.pipeline == greedy_dispatch(in.problem(), {.trials = trials}).pipeline);
      before = greedy.makespan();
    }
    differ += greedy_dispatch(in.problem(), {.trials = 1}).pipeline !=
                      greedy_dispatch(in.problem(), {.trials = 1, .seed = 1}).pipeline
                  ? 1
                  : 0U;
    CHECK(search_dispatch(in.problem()).dispatch.pipeline == search_dispatch(in.problem()).dispatch.pipeline);
  }
  CHECK(differ > 20);
}

TEST_CASE("large cases: dispatches are valid, not slower than greedy, and close to the bound") {
  for (unsigned seed = 1; seed < 12; ++seed) {
    const auto in = test::random_dispatch(seed, 600, 40, 5);
    INFO("seed " << seed << ": " << test::print(in));
    const DispatchResult search = search_dispatch(in.problem());
    check_dispatch(in, search.dispatch);
    CHECK(search.greedy == greedy_dispatch(in.problem()).makespan());
    CHECK(search.dispatch.makespan() <= search.greedy);
    CHECK(search.bound <= search.dispatch.makespan());
  }
}
