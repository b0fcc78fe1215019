#ifdef SLIMPACK_TEST_EIGEN
#include "slimpack/strategy/profiled_kinds.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/hydraulis.hpp"
#include "tests/planners/note_of.hpp"
#include "tests/planners/oracle.hpp"
#include "tests/planners/rules.hpp"

using namespace slimpack;

namespace {

/// A small model, and T(l, P) of the schemes of 16 devices with no context parallelism.
struct ProfiledCase {
  Job job;
  StrategySpace space;
  std::vector<Tokens> lengths;
  std::vector<SchemeFit> known;
};

ProfiledCase profiled_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](double lo, double hi) {
    return lo + (hi - lo) * static_cast<double>(random()) / 4294967296.0;
  };
  ProfiledCase c;
  c.job = {.model = transformer_preset("llama-7b"),
           .device = device_preset("a800"),
           .layout = {.dp = 16, .tp = 1, .cp = 1, .pp = 1}};
  c.space.schemes.devices = 16;
  c.space.schemes.most_cp = 1;
  c.lengths = oracle::random_lengths(random, 10 + random() % 50, 2, 12000);
  const double a = draw(1e-10, 1e-9), b = draw(5e-5, 2e-4), constant = draw(1e-3, 2e-2);
  for (const Scheme& scheme : schemes(c.job.model, c.job.device, c.space.schemes)) {
    if (scheme.pp > 4) continue;
    // More ranks lose more to communication.
    const double share = (1.0 + draw(0.0, 0.2) * scheme.tp) / static_cast<double>(scheme.ranks());
    c.known.push_back({scheme,
                       {.a = a * share, .b = b * share, .c = constant},
                       {.a = 2.5 * a * share, .b = 2.0 * b * share, .c = constant}});
  }
  return c;
}

/// What a profiler would measure, each time with an error of up to `noise` of it.
std::vector<SchemeProfile> sample(const ProfiledCase& c, double noise) {
  std::mt19937 random(1);
  std::vector<SchemeProfile> profiles;
  for (const SchemeFit& known : c.known) {
    SchemeProfile& profile = profiles.emplace_back(SchemeProfile{known.scheme, {}, {}});
    for (Tokens l = 128; l <= 32768; l *= 2) {
      const auto measured = [&](const QuadraticFit& fit) {
        const double error = 2.0 * static_cast<double>(random()) / 4294967296.0 - 1.0;
        return ProfileRow{l, fit.seconds(static_cast<double>(l)) * (1.0 + noise * error)};
      };
      profile.forward.push_back(measured(known.forward));
      profile.backward.push_back(measured(known.backward));
    }
  }
  return profiles;
}

Plan plan_with(const ProfiledCase& c, const std::vector<SchemeFit>& fits, double useful_share) {
  const HydraulisOptions options{.two_stage = {.recompute = false}};
  return plan_hydraulis(c.lengths, c.job, LengthHistogram(c.lengths), options, c.space,
                        profiled_kinds(c.job.model, c.job.device, fits, {.useful_share = useful_share}));
}

std::string strategy_of_plan(const Plan& plan) {
  const std::string note = slimpack::testing::note_of(plan, "strategy: ");
  return note.substr(0, note.find(','));
}

}  // namespace

TEST_CASE("fits to a profile give the strategies and plans of the prices that were profiled") {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    INFO("seed " << seed);
    const ProfiledCase c = profiled_case(seed);
    const Plan known = plan_with(c, c.known, 0.85);
    CHECK(violations(known).empty());
    CHECK(oracle::broken_rule(known).empty());
    const Plan fitted = plan_with(c, fit_schemes(sample(c, 0.0)), 0.85);
    CHECK(strategy_of_plan(fitted) == strategy_of_plan(known));
    CHECK(fitted.step.seconds == Approx(known.step.seconds).epsilon(1e-6));
    const Plan noisy = plan_with(c, fit_schemes(sample(c, 0.01)), 0.85);
    CHECK(noisy.step.seconds == Approx(known.step.seconds).epsilon(0.03));
  }
}

TEST_CASE("pipelines have no more packs than are useful, where so few fit") {
  int fewer = 0;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    INFO("seed " << seed);
    const ProfiledCase c = profiled_case(seed);
    const MakeKindModels make = profiled_kinds(c.job.model, c.job.device, c.known, {.useful_share = 0.85});
    const Strategy strategy =
        place_pipelines(c.job.model, c.job.device, 16, {{{4, 1, 1}, 2}, {{2, 1, 2}, 2}});
    const HydraulisOptions options{.two_stage = {.recompute = false}};
    const Plan plan = plan_hydraulis(c.lengths, c.job.model, c.job.device, {&strategy, 1}, make, options);
    const MakeKindModels any = profiled_kinds(c.job.model, c.job.device, c.known, {.useful_share = 0.0});
    const Plan free = plan_hydraulis(c.lengths, c.job.model, c.job.device, {&strategy, 1}, any, options);
    std::size_t packs = 0;
    for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
      const PricedModels models = make(strategy, strategy.kind[p]);
      const Tokens longest = largest_full_pack(models.memory, 0);
      REQUIRE(models.useful_tokens > 0);
      REQUIRE(models.useful_tokens <= longest);
      Tokens held = 0;
      std::size_t own = 0;
      for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
        if (plan.forward.pipelines[k].front() != p) continue;
        ++own;
        held += count_tokens(plan.forward.packs[k]);
      }
      const Tokens most = std::max((held + longest - 1) / longest, held / models.useful_tokens);
      CHECK(static_cast<Tokens>(own) <= std::max(most, Tokens{1}) + 1);
      packs += own;
    }
    fewer += packs < free.forward.packs.size() ? 1 : 0;
  }
  CHECK(fewer > 0);
}

TEST_CASE("profiles that say too little are refused by scheme, pass and row") {
  const ProfiledCase c = profiled_case(1);
  std::vector<SchemeProfile> profiles = sample(c, 0.0);
  const auto refused = [](std::vector<SchemeProfile> given, const char* text) {
    CHECK_THROWS_WITH(fit_schemes(given), Catch::Contains(text));
  };
  refused({}, "there are no profiles");
  auto changed = profiles;
  changed[1].backward.resize(2);
  refused(
      changed,
      "profile of (tp 1, cp 1, pp 2), backward: the profile has 2 different lengths; expected at least 3");
  changed = profiles;
  for (ProfileRow& row : changed[0].forward) row.tokens = 512;
  refused(changed, "profile of (tp 1, cp 1, pp 1), forward: the profile has 1 different lengths");
  changed = profiles;
  for (ProfileRow& row : changed[0].forward) row.seconds = 0.25;
  refused(changed, "forward: a constant of 0.25 seconds fits best; expected longer samples that take longer");
  for (const double seconds : {0.1, 0.2, 0.3, 0.7, 1e-3}) {  // their fits' slopes are not all exactly 0
    for (const std::size_t rows : {std::size_t{3}, std::size_t{4}, std::size_t{9}}) {
      changed = profiles;
      changed[0].forward.resize(rows);
      for (ProfileRow& row : changed[0].forward) row.seconds = seconds;
      refused(changed, "seconds fits best; expected longer samples that take longer");
    }
  }
  changed = profiles;
  for (ProfileRow& row : changed[0].forward) row.seconds = 1.0 / static_cast<double>(row.tokens);
  refused(changed, "seconds fits best; expected longer samples that take longer");
  changed = profiles;
  changed[2].forward[3].seconds = -1.0;
  refused(changed, "profile row 3 has -1 seconds");
  changed = profiles;
  changed[2].backward.clear();
  refused(changed, "backward: the profile has 0 different lengths");
  changed = profiles;
  changed[3].scheme = changed[0].scheme;
  refused(changed, "profiles 0 and 3 are both of (tp 1, cp 1, pp 1)");
  CHECK_THROWS_WITH(profiled_kinds(c.job.model, c.job.device, {}), Catch::Contains("there are no fits"));
  CHECK_THROWS_WITH(profiled_kinds(c.job.model, c.job.device, c.known, {.useful_share = 2.0}),
                    Catch::Contains("useful_share is 2"));
}

TEST_CASE("the documentation's example plans by its profiles") {
  const Job job{.model = transformer_preset("llama-7b"),
                .device = device_preset("a800"),
                .layout = {.dp = 8, .tp = 1, .cp = 1, .pp = 1}};
  const std::vector<Tokens> lengths{300, 12000, 700, 4000, 2500, 90};
  std::vector<SchemeProfile> profiles{{.scheme = {.tp = 4, .cp = 1, .pp = 1},
                                       .forward = {{1024, 0.011}, {4096, 0.045}, {16384, 0.21}},
                                       .backward = {{1024, 0.022}, {4096, 0.091}, {16384, 0.45}}},
                                      {.scheme = {.tp = 2, .cp = 1, .pp = 1},
                                       .forward = {{1024, 0.021}, {4096, 0.085}, {16384, 0.41}},
                                       .backward = {{1024, 0.042}, {4096, 0.171}, {16384, 0.88}}}};
  const auto fits = fit_schemes(profiles);
  const auto make = profiled_kinds(job.model, job.device, fits);
  const Plan plan = plan_hydraulis(lengths, job, LengthHistogram(lengths), {}, {}, make);
  CHECK(violations(plan).empty());
  for (const SchemeFit& fit : fits)
    CHECK(fit.both().seconds(4096.0) == Approx(fit.scheme.tp == 4 ? 0.136 : 0.256).epsilon(0.05));
  CHECK(plan.step.pipeline_seconds >= 0.2);  // the long sample, on four devices
}

TEST_CASE("a strategy of a scheme without a profile is refused, and proposals leave it out") {
  const ProfiledCase c = profiled_case(2);
  const Scheme profiled{.tp = 4, .cp = 1, .pp = 2};
  std::vector<SchemeFit> one;
  for (const SchemeFit& fit : c.known) {
    if (fit.scheme == profiled) one.push_back(fit);
  }
  REQUIRE(one.size() == 1);
  const MakeKindModels make = profiled_kinds(c.job.model, c.job.device, one);
  const Strategy strategy = place_pipelines(c.job.model, c.job.device, 16, {{{8, 1, 1}, 2}});
  CHECK_THROWS_WITH(
      plan_hydraulis(c.lengths, c.job.model, c.job.device, {&strategy, 1}, make),
      Catch::Contains("there is no profile of (tp 8, cp 1, pp 1); expected one of (tp 4, cp 1, pp 2)"));
  CHECK(strategy_of_plan(plan_with(c, one, 0.85)) == "strategy: 2 x (tp 4");
}
#endif
