#include "slimpack/partition/dispatch.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "slimpack/partition/dispatch_bound.hpp"
#include "slimpack/partition/dispatch_greedy.hpp"
#include "slimpack/partition/dispatch_search.hpp"
#include "tests/effort.hpp"
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

/// Eq. 2 of one pipeline. @param seconds of each of its samples on one stage.
double eq2_bound(std::span<const double> seconds, std::size_t stages) {
  const std::vector<Tokens> lengths(seconds.size(), 1);
  const std::vector<PipelineKind> kinds{{.max_tokens = 1, .stages = stages, .pipelines = 1}};
  const DispatchProblem problem{lengths, kinds, seconds};
  return slimpack::detail::dispatch_of(problem, std::vector<PipelineId>(seconds.size(), 0)).makespan();
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
      CHECK(trials.run(order, literal) == std::numeric_limits<double>::infinity());
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
  for (unsigned seed = 0; seed < slimpack::testing::seeds(600, 160); ++seed) {
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

TEST_CASE("no packing of a pipeline's samples takes less than Eq. 2, whatever the packs (appendix D.1)") {
  for (unsigned seed = 1; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<double> seconds(1 + random() % 9);
    for (double& s : seconds) s = std::uniform_real_distribution<double>(0.0, 5.0)(random);
    const std::size_t stages = 1 + random() % 6;
    const double bound = eq2_bound(seconds, stages);
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t packs = 1; packs <= seconds.size(); ++packs) {
      for (int trial = 0; trial < 200; ++trial) {
        std::vector<double> load(packs, 0.0);
        for (const double s : seconds) load[random() % packs] += s;
        const double slowest = *std::max_element(load.begin(), load.end());
        least = std::min(least, slowest * static_cast<double>(stages - 1 + packs));  // Eq. 1
      }
    }
    INFO("seed " << seed << ", " << seconds.size() << " samples, " << stages << " stages");
    CHECK(bound <= least * (1.0 + 1e-12));
    // One sample, and equal samples in packs of their own, reach it.
    CHECK(eq2_bound(std::vector<double>(1, seconds[0]), stages) ==
          Approx(seconds[0] * static_cast<double>(stages)));
    const std::vector<double> equal(seconds.size(), 2.0);
    CHECK(eq2_bound(equal, stages) == Approx(2.0 * static_cast<double>(stages - 1 + equal.size())));
  }
}

TEST_CASE("a sample that stands for several is bounded like as many samples") {
  for (unsigned seed = 1; seed < 100; ++seed) {
    test::DispatchInstance one = test::random_dispatch(seed, 6, 4, 3), all = one;
    const std::size_t samples = one.lengths.size();
    std::vector<double> count(samples, 0.0);
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < samples; ++i) {
      count[i] = static_cast<double>(1 + (seed + i) % 3);
      of.insert(of.end(), static_cast<std::size_t>(count[i]), i);
    }
    all.lengths.clear();
    all.seconds.clear();
    for (const std::size_t i : of) all.lengths.push_back(one.lengths[i]);
    for (std::size_t k = 0; k < one.kinds.size(); ++k) {
      for (const std::size_t i : of) all.seconds.push_back(one.problem().seconds_on(k, i));
    }
    INFO("seed " << seed << ": " << test::print(one));
    CHECK(detail::DispatchBounds(one.problem(), count).divisible(1e-6).seconds ==
          Approx(detail::DispatchBounds(all.problem()).divisible(1e-6).seconds).epsilon(1e-4));
  }
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

TEST_CASE("large cases: dispatches are valid, not slower than greedy, and the bound is below") {
  for (unsigned seed = 1; seed < 12; ++seed) {
    const auto in = test::random_dispatch(seed, 600, 40, 5);
    INFO("seed " << seed << ": " << test::print(in));
    const DispatchResult search = search_dispatch(in.problem());
    check_dispatch(in, search.dispatch);
    CHECK(search.dispatch.makespan() <= greedy_dispatch(in.problem()).makespan());
    CHECK(search.bound <= search.dispatch.makespan());
  }
}

TEST_CASE("the search is never slower than 100 trials, though what it starts from may be within the gap") {
  int close = 0;
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(400, 40); ++seed) {
    for (const std::size_t samples : {12U, 40U}) {
      const auto in = test::random_dispatch(seed, samples, samples == 12 ? 4 : 6, 3);
      INFO("seed " << seed << ": " << test::print(in));
      const double greedy = greedy_dispatch(in.problem(), {.trials = 100}).makespan();
      CHECK(search_dispatch(in.problem()).dispatch.makespan() <= greedy);
      const double hasty = search_dispatch(in.problem(), {.always_greedy = false}).dispatch.makespan();
      CHECK(hasty <= greedy * (1.0 + DispatchOptions{}.gap));
      close += hasty > greedy ? 1 : 0;
    }
  }
  if (!slimpack::testing::few) CHECK(close > 0);
}

TEST_CASE("no sample, one sample, equal samples, and more pipelines than samples") {
  for (const std::size_t samples : {0U, 1U, 3U, 12U}) {
    const test::DispatchInstance in{.lengths = std::vector<Tokens>(samples, 10),
                                    .kinds = {{10, 3, 4}, {9, 1, 2}, {20, 2, 0}},
                                    .seconds = std::vector<double>(3 * samples, 1.0)};
    INFO(test::print(in));
    const DispatchResult search = search_dispatch(in.problem());
    check_dispatch(in, search.dispatch);
    check_dispatch(in, greedy_dispatch(in.problem()));
    // Of three stages: the samples of the fullest pipeline, and two more.
    const double least = samples == 0 ? 0.0 : std::ceil(static_cast<double>(samples) / 4.0) + 2.0;
    CHECK(search.dispatch.makespan() == least);
    CHECK(search.bound <= least);
  }
}

TEST_CASE("what makes no sense is refused, by name") {
  using Catch::Matchers::Contains;
  const std::vector<Tokens> lengths{100, 5000};
  const std::vector<PipelineKind> kinds{{1000, 1, 2}, {4096, 2, 1}, {9000, 4, 0}};
  const std::vector<double> seconds(6, 1.0);
  // The closest kind with a pipeline, and by how much it falls short.
  CHECK_THROWS_WITH(search_dispatch({lengths, kinds, seconds}), Contains("sample 1 has 5000 tokens") &&
                                                                    Contains("kind 1") && Contains("4096") &&
                                                                    Contains("904"));
  CHECK_THROWS_AS(greedy_dispatch({lengths, kinds, seconds}), InvalidInput);
  CHECK_THROWS_AS(dispatch_lower_bound({lengths, kinds, seconds}), InvalidInput);
  const std::vector<Tokens> fit{100, 200}, empty_sample{100, 0};
  CHECK_THROWS_WITH(search_dispatch({empty_sample, kinds, seconds}), Contains("sample 1 has 0 tokens"));
  CHECK_THROWS_WITH(search_dispatch({fit, kinds, std::vector<double>(5, 1.0)}), Contains("5 seconds"));
  CHECK_THROWS_WITH(search_dispatch({fit, {}, {}}), Contains("0 pipelines"));
  const std::vector<PipelineKind> no_stage{{1000, 0, 1}};
  CHECK_THROWS_WITH(search_dispatch({fit, no_stage, std::vector<double>(2, 1.0)}), Contains("0 stages"));
  for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    std::vector<double> bad(6, 1.0);
    bad[3] = wrong;
    CHECK_THROWS_WITH(search_dispatch({fit, kinds, bad}), Contains("sample 1") && Contains("kind 1"));
  }
  CHECK_THROWS_WITH(greedy_dispatch({fit, kinds, seconds}, {.trials = 0}), Contains("0 trials"));
  CHECK_THROWS_WITH(search_dispatch({fit, kinds, seconds}, {.gap = -1.0}), Contains("gap"));
}
