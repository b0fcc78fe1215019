#include "judge.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <set>
#include <utility>

#include "difference.hpp"
#include "planner.hpp"
#include "prices_of_plan.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/plan/memory.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/plan/naive_memory.hpp"
#include "tests/plan/naive_run.hpp"

namespace campaign {

namespace {

constexpr double exactly = 1e-9;
constexpr double infinite = std::numeric_limits<double>::infinity();

/// What is left of a plan once it was checked.
struct Outcome {
  std::string name;
  bool planned = false;
  double seconds = infinite;
  double bound = 0.0;
  std::size_t pipelines = 0;
  std::string refusal;
};

class Judge {
 public:
  Judge(const Setting& setting, const Checks& checks)
      : setting_(setting),
        checks_(checks),
        planner_(make_planner(setting)),
        memory_(memory_model(setting, setting.job)) {}

  Result operator()() {
    const Outcome own = plan_own();
    const Outcome megatron = plan_megatron();
    if (unrestricted()) {
      compare(Check::megatron, own, megatron);
      if (wanted(Check::dynamic_cp)) compare(Check::dynamic_cp, own, plan_dynamic_cp());
    }
    if (wanted(Check::rivals)) against_rivals(own);
    if (wanted(Check::quick)) against_quick(own, megatron);
    if (setting_.options.packs ==
        0) {  // else the closest number that can be had is not the same with less freedom
      against_restrictions(own);
      against_tiles(own);
      against_memory(own);
    }
    check_bounds();
    check_same();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool wanted(Check check) const { return checks_[static_cast<std::size_t>(check)]; }

  /// Notes a value of a check; the worst one stays.
  /// @param detail makes its text.
  template <class Text>
  void note(Check check, double value, bool violated, const Text& detail) {
    if (!wanted(check)) return;
    Finding& finding = result_.findings[static_cast<std::size_t>(check)];
    const bool first = !finding.looked_at;
    finding.looked_at = true;
    if (!first && value <= finding.worst && (finding.violated || !violated)) return;
    finding.worst = std::max(finding.worst, value);
    finding.violated = finding.violated || violated;
    finding.detail = detail();
  }

  template <class Make>
  Outcome plan(std::string name, const Job& job, const Make& make) {
    Outcome outcome;
    outcome.name = std::move(name);
    const auto begin = std::chrono::steady_clock::now();
    try {
      Plan made = make();
      take_time(begin);
      outcome.planned = true;
      outcome.seconds = made.step.seconds;
      outcome.bound = made.step.lower_bound_seconds;
      outcome.pipelines = made.pipelines.size();
      examine(outcome.name, made, job);
      if (outcomes_.empty()) own_ = std::move(made);
    } catch (const InvalidInput& error) {
      take_time(begin);
      outcome.refusal = error.what();
      if (outcome.planned)
        note(Check::valid, infinite, true, [&] { return concat(outcome.name, ": ", outcome.refusal); });
    } catch (const std::exception& error) {
      outcome.refusal = error.what();
      note(Check::valid, infinite, true, [&] { return concat(outcome.name, " throws ", outcome.refusal); });
    }
    result_.log.push_back(outcome.planned
                              ? concat(outcome.name, ": ", outcome.seconds, " s, bound ", outcome.bound)
                              : concat(outcome.name, ": refused: ", outcome.refusal));
    outcomes_.push_back(outcome);
    return outcome;
  }

  Outcome plan_slimpack_with(std::string name, const SlimPackOptions& options) {
    return plan(std::move(name), setting_.job, [&] { return planner_.slimpack(options, memory_); });
  }

  void take_time(std::chrono::steady_clock::time_point begin) {
    last_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    result_.all_planning_seconds += last_seconds_;
    ++result_.plans;
  }

  /// The plan by itself: rules, times, memory.
  void examine(const std::string& name, const Plan& plan, const Job& job) {
    const auto checks = {Check::valid, Check::simulated, Check::prices, Check::peaks, Check::capacity};
    if (std::none_of(checks.begin(), checks.end(), [&](Check check) { return wanted(check); })) return;
    const auto found = violations(plan, 3);
    note(Check::valid, static_cast<double>(found.size()), !found.empty(),
         [&] { return std::string(found.empty() ? "" : concat(name, ": ", found.front())); });
    if (!found.empty()) return;
    const TransformerMemory memory = memory_model(setting_, job_of(plan, job));
    const double naive = testing::naive_seconds(plan) + plan.step.sync_seconds;
    const double off = naive < infinite ? difference_of(naive, plan.step.seconds) : infinite;
    note(Check::simulated, off, off > 1e-6,
         [&] { return concat(name, ": ", plan.step.seconds, " s, and ", naive, " naively"); });
    check_prices(name, plan);
    const MemoryCurves curves = memory_over_time(plan, time_plan(plan), memory);
    const auto peaks = testing::naive_peak_bytes(plan, memory);
    for (std::size_t p = 0; p < peaks.size(); ++p) {
      for (std::size_t s = 0; s < peaks[p].size(); ++s) {
        const double bytes = peaks[p][s], said = plan.step.peak_bytes[p][s], curve = curves.peak_bytes[p][s];
        const double most = std::max(difference_of(bytes, said), difference_of(bytes, curve));
        note(Check::peaks, most, most > 1e-6 + rounding(plan, s) / bytes, [&] {
          return concat(name, ", pipeline ", p, " stage ", s, ": ", said, " bytes, ", curve,
                        " by its curve, and ", bytes, " naively");
        });
        const double full = std::max(bytes, said) / memory.capacity_bytes();
        note(Check::capacity, full, full > 1.0 + exactly, [&] {
          return concat(name, ", pipeline ", p, " stage ", s, ": ", std::max(bytes, said), " bytes");
        });
      }
    }
  }

  /// Of pipelines as the setting's model has them.
  void check_prices(const std::string& name, const Plan& plan) {
    if (!wanted(Check::prices) || plan.pipelines.front().cp != setting_.job.layout.cp) return;
    Plan other = plan;
    planner_.price_anew(other);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan &said = plan.of(pass), &found = other.of(pass);
      for (std::size_t k = 0; k < said.packs.size(); ++k) {
        const std::size_t stages = said.seconds[k].size();
        for (std::size_t s = 0; s < stages; ++s) {
          const double off = difference_of(said.seconds[k][s], found.seconds[k][s]);
          const double sent =
              s + 1 < stages ? difference_of(said.transfer_seconds[k][s], found.transfer_seconds[k][s]) : 0.0;
          note(Check::prices, std::max(off, sent), std::max(off, sent) > exactly, [&] {
            return concat(name, ", ", pass_name(pass), " pack ", k, " stage ", s, ": ", said.seconds[k][s],
                          " s, and by the model ", found.seconds[k][s]);
          });
        }
      }
    }
  }

  /// The job with the pipelines that a plan has: megatron's may give ranks of data parallelism to context parallelism.
  [[nodiscard]] static Job job_of(const Plan& plan, Job job) {
    job.layout.dp = static_cast<std::int32_t>(plan.pipelines.size());
    job.layout.cp = plan.pipelines.front().cp;
    return job;
  }

  /// Bytes by which the planner's count may differ: where context parallelism took ranks from data parallelism, it
  /// rounds a pack's tokens up to a multiple of the ranks.
  [[nodiscard]] double rounding(const Plan& plan, std::size_t s) const {
    if (plan.pipelines.front().cp == setting_.job.layout.cp) return 0.0;
    return memory_.workspace_bytes(s, Pass::backward, 1, plan.pipelines.front().layers[s]);
  }

  [[nodiscard]] static double difference_of(double a, double b) {
    return std::abs(a - b) / std::max({std::abs(a), std::abs(b), 1e-300});
  }

  /// Of a plan that should be no longer than another one. Where a number of packs is given, the closest one that can
  /// be had depends on all the rest, so that less freedom can mean another number.
  void compare(Check check, const Outcome& free, const Outcome& restricted, double tolerance = exactly) {
    if (!restricted.planned || setting_.options.packs > 0) return;
    const double ratio = free.planned ? free.seconds / restricted.seconds : infinite;
    note(check, ratio, ratio > 1.0 + tolerance, [&] {
      return concat(restricted.name, " ", restricted.seconds, " s, ", free.name,
                    free.planned ? concat(" ", free.seconds, " s") : " refused: " + free.refusal);
    });
  }

  Outcome plan_own() {
    Outcome own = plan_slimpack_with(concat("tile ", setting_.options.tile), setting_.options);
    result_.planning_seconds = last_seconds_;
    if (own.planned) {
      result_.step = own.seconds;
      result_.bound = own.bound;
    }
    result_.refusal = own.refusal;
    return own;
  }

  [[nodiscard]] bool unrestricted() const {
    const SlimPackOptions& o = setting_.options;
    return o.packs == 0 && !o.equal_packs && o.asymmetric && o.merge && o.group_sizes == GroupSizes::any;
  }

  /// No plan if no check needs it.
  Outcome plan_megatron() {
    if (!wanted(Check::megatron) && !wanted(Check::bound) && !wanted(Check::quick)) return {};
    Outcome megatron = plan("megatron", setting_.job, [&] { return planner_.megatron(memory_); });
    if (megatron.planned) result_.megatron = megatron.seconds;
    return megatron;
  }

  Outcome plan_dynamic_cp() {
    return plan("dynamic-cp", setting_.job, [&] { return planner_.dynamic_cp(memory_); });
  }

  void against_rivals(const Outcome& own) {
    for (const RivalPlanner& rival : planner_.rivals) {
      const Outcome other = plan(rival.name, setting_.job, [&] { return rival.plan(memory_); });
      compare(Check::rivals, own, unrestricted() ? other : Outcome{});
    }
  }

  void against_quick(const Outcome& own, const Outcome& megatron) {
    SlimPackOptions options = setting_.options;
    options.search.thorough = false;
    const Outcome quick = plan_slimpack_with("quick", options);
    if (quick.planned) result_.quick = quick.seconds;
    compare(Check::quick, own, quick);
    compare(Check::quick, quick, unrestricted() ? megatron : Outcome{});
    if (own.planned && !quick.planned)
      note(Check::quick, infinite, true, [&] { return "quick refused: " + quick.refusal; });
  }

  void against_restrictions(const Outcome& own) {
    const auto restrict = [&](Check check, const char* name, const auto& change) {
      if (!wanted(check) && !wanted(Check::bound)) return;
      SlimPackOptions options = setting_.options;
      change(options);
      compare(check, own, plan_slimpack_with(name, options));
    };
    restrict(Check::symmetric, "symmetric", [](auto& o) { o.asymmetric = false; });
    restrict(Check::unmerged, "unmerged", [](auto& o) { o.merge = false; });
    if (!unrestricted()) return;
    restrict(Check::equal_packs, "equal packs", [](auto& o) { o.equal_packs = true; });
    restrict(Check::groups, "groups of 2^k", [](auto& o) { o.group_sizes = GroupSizes::powers_of_two; });
    const auto stages = static_cast<std::size_t>(setting_.job.layout.pp);
    const std::size_t share =
        (setting_.lengths.size() + static_cast<std::size_t>(setting_.job.layout.dp) - 1) /
        static_cast<std::size_t>(setting_.job.layout.dp);
    for (const std::size_t packs : std::set<std::size_t>{1, stages, 4 * stages, share})
      restrict(Check::given_packs, concat(packs, " packs").c_str(), [&](auto& o) { o.packs = packs; });
  }

  /// Every tile that divides another one allows what that one allows.
  void against_tiles(const Outcome& own) {
    if (!wanted(Check::tile) && !wanted(Check::multiples) && !wanted(Check::bound)) return;
    const Tokens tile = setting_.options.tile;
    std::vector<std::pair<Tokens, Outcome>> tiles{{tile, own}};
    for (const Tokens other : std::set<Tokens>{1, 2 * tile, 4 * tile, 128}) {
      if (other == tile) continue;
      SlimPackOptions options = setting_.options;
      options.tile = other;
      tiles.emplace_back(other, plan_slimpack_with(concat("tile ", other), options));
    }
    for (const auto& [fine, free] : tiles) {
      for (const auto& [coarse, restricted] : tiles) {
        if (coarse <= fine || coarse % fine != 0) continue;
        const bool doubled = std::has_single_bit(static_cast<std::uint64_t>(coarse / fine));
        compare(doubled ? Check::tile : Check::multiples, free, restricted);
      }
    }
  }

  void against_memory(const Outcome& own) {
    if (!wanted(Check::memory)) return;
    Outcome less = own;
    for (const double times : {1.25, 2.0}) {
      Job job = setting_.job;
      job.device.memory_bytes *= times;
      const TransformerMemory memory = memory_model(setting_, job);
      const Outcome more = plan(concat(times, " times the memory"), job,
                                [&] { return planner_.slimpack(setting_.options, memory); });
      compare(Check::memory, more, own, 0.01);
      if (times > 1.25) compare(Check::memory, more, less, 0.01);
      less = more;
    }
  }

  void check_bounds() {
    if (!wanted(Check::bound)) return;
    const auto dp = static_cast<std::size_t>(setting_.job.layout.dp);
    const Outcome *highest = nullptr, *shortest = nullptr;
    for (const Outcome& outcome : outcomes_) {
      if (!outcome.planned || outcome.pipelines != dp) continue;
      if (highest == nullptr || outcome.bound > highest->bound) highest = &outcome;
      if (shortest == nullptr || outcome.seconds < shortest->seconds) shortest = &outcome;
    }
    if (highest == nullptr) return;
    const double ratio = highest->bound / shortest->seconds;
    note(Check::bound, ratio, ratio > 1.0 + exactly, [&] {
      return concat("bound of ", highest->name, " ", highest->bound, " s, step of ", shortest->name, " ",
                    shortest->seconds, " s");
    });
  }

  /// After all these other plans.
  void check_same() {
    if (!wanted(Check::same) || !own_) return;
    try {
      const std::string differs = difference(*own_, planner_.slimpack(setting_.options, memory_));
      note(Check::same, differs.empty() ? 0.0 : 1.0, !differs.empty(), [&] { return differs; });
    } catch (const std::exception& error) {
      note(Check::same, infinite, true, [&] { return std::string(error.what()); });
    }
  }

  const Setting& setting_;
  const Checks& checks_;
  Planner planner_;
  TransformerMemory memory_;
  std::vector<Outcome> outcomes_;
  std::optional<Plan> own_;  // of the setting's options
  double last_seconds_ = 0.0;
  Result result_;
};

}  // namespace

Result judge(const Setting& setting, const Checks& checks) {
  try {
    return Judge(setting, checks)();
  } catch (const InvalidInput& error) {  // its models are impossible
    Result result;
    result.refusal = error.what();
    return result;
  }
}

}  // namespace campaign
