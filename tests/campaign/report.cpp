#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <ostream>

namespace campaign {

namespace {

const Finding& finding_of(const Judged& j, std::size_t check) { return j.result.findings[check]; }

/// Violations first, worst first.
std::vector<const Judged*> worst_of(const std::vector<Judged>& judged, std::size_t check, std::size_t most) {
  std::vector<const Judged*> cases;
  for (const Judged& j : judged) {
    if (finding_of(j, check).violated) cases.push_back(&j);
  }
  std::stable_sort(cases.begin(), cases.end(), [&](const Judged* a, const Judged* b) {
    return finding_of(*a, check).worst > finding_of(*b, check).worst;
  });
  cases.resize(std::min(cases.size(), most));
  return cases;
}

/// How many violations a check allows.
std::size_t allowed(Check check, std::size_t looked_at) {
  if (!check_texts[static_cast<std::size_t>(check)].fails) return looked_at;
  return check == Check::memory ? (looked_at + 999) / 1000 : 0;
}

/// The geometric mean of the ratio of two steps, over the settings that have both.
void print_ratio(std::ostream& out, const std::vector<Judged>& judged, const char* names,
                 std::optional<double> Result::*step, std::optional<double> Result::*other) {
  double logs = 0.0;
  std::size_t both = 0;
  for (const Judged& j : judged) {
    if (!(j.result.*step) || !(j.result.*other)) continue;
    ++both;
    logs += std::log(*(j.result.*step) / *(j.result.*other));
  }
  if (both > 0)
    out << names << ", geometric mean: " << std::exp(logs / static_cast<double>(both)) << " (" << both
        << " settings)\n";
}

void print_figures(std::ostream& out, const std::vector<Judged>& judged) {
  double gaps = 0.0, own = 0.0, all = 0.0;
  std::size_t planned = 0, refused = 0, plans = 0;
  for (const Judged& j : judged) {
    const Result& r = j.result;
    own += r.planning_seconds;
    all += r.all_planning_seconds;
    plans += r.plans;
    if (!r.step) {
      ++refused;
      continue;
    }
    ++planned;
    gaps += 1.0 - r.bound / *r.step;
  }
  out << "\n"
      << judged.size() << " settings: " << planned << " planned, " << refused << " refused; " << plans
      << " plans\n";
  print_ratio(out, judged, "slimpack over megatron", &Result::step, &Result::megatron);
  print_ratio(out, judged, "quick over slimpack", &Result::quick, &Result::step);
  if (planned > 0) out << "mean gap to the bound: " << gaps / double(planned) << "\n";
  out << "seconds of planning: " << own << " for the settings' own plans, " << all << " for all\n";
}

void print_slowest(std::ostream& out, const std::vector<Judged>& judged, std::size_t most) {
  std::vector<const Judged*> slowest;
  for (const Judged& j : judged) slowest.push_back(&j);
  std::stable_sort(slowest.begin(), slowest.end(), [](const Judged* a, const Judged* b) {
    return a->result.planning_seconds > b->result.planning_seconds;
  });
  slowest.resize(std::min(slowest.size(), most));
  for (const Judged* j : slowest)
    out << "  " << j->result.planning_seconds << " s  campaign " << j->reproduction << "  # " << j->name
        << "\n";
}

}  // namespace

bool report(std::ostream& out, const std::vector<Judged>& judged, const Checks& checks, std::size_t worst) {
  bool good = true;
  out << std::setprecision(4) << std::left;
  for (std::size_t c = 0; c < number_of_checks; ++c) {
    if (!checks[c]) continue;
    std::size_t looked_at = 0, violated = 0;
    double most = 0.0;
    for (const Judged& j : judged) {
      looked_at += finding_of(j, c).looked_at ? 1 : 0;
      violated += finding_of(j, c).violated ? 1 : 0;
      most = std::max(most, finding_of(j, c).worst);
    }
    const bool fails = violated > allowed(static_cast<Check>(c), looked_at);
    good = good && !fails;
    out << std::setw(12) << check_texts[c].name << std::right << std::setw(6) << violated << " of "
        << std::setw(6) << looked_at << "  worst " << std::setw(10) << most << std::left << "  "
        << (fails          ? "FAILED  "
            : violated > 0 ? "listed  "
                           : "        ")
        << check_texts[c].says << "\n";
  }
  for (std::size_t c = 0; c < number_of_checks; ++c) {
    const auto cases = checks[c] ? worst_of(judged, c, worst) : std::vector<const Judged*>{};
    if (!cases.empty()) out << "\n" << check_texts[c].name << ": " << check_texts[c].says << "\n";
    for (const Judged* j : cases) {
      out << "  " << finding_of(*j, c).worst << "  campaign " << j->reproduction << "  # " << j->name
          << "\n      " << finding_of(*j, c).detail << "\n";
    }
  }
  print_figures(out, judged);
  print_slowest(out, judged, worst);
  return good;
}

void write_table(std::ostream& out, const std::vector<Judged>& judged) {
  out << "setting\tstep\tbound\tmegatron\tplanning_seconds\tname\n" << std::setprecision(9);
  for (const Judged& j : judged) {
    const Result& r = j.result;
    out << j.reproduction << "\t" << r.step.value_or(NAN) << "\t" << r.bound << "\t"
        << r.megatron.value_or(NAN) << "\t" << r.planning_seconds << "\t" << j.name << "\n";
  }
}

void report_ratios(std::ostream& out, std::vector<Pair> pairs, std::size_t worst) {
  out << std::setprecision(5);
  if (pairs.empty()) {
    out << "no setting has both plans\n";
    return;
  }
  double ours = 0.0, theirs = 0.0, logs = 0.0;
  for (const Pair& p : pairs) {
    ours += p.ours;
    theirs += p.theirs;
    logs += std::log(p.ours / p.theirs);
  }
  const auto ratio = [](const Pair& p) { return p.ours / p.theirs; };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const Pair& a, const Pair& b) { return ratio(a) > ratio(b); });
  const double count = static_cast<double>(pairs.size());
  out << pairs.size() << " settings with both plans; ours over theirs\n"
      << "ratio of mean steps " << ours / theirs << "\ngeometric mean      " << std::exp(logs / count)
      << "\nquantiles (min, 1 %, 10 %, 50 %, 90 %, 99 %, max):";
  for (const double q : {0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0})
    out << " " << ratio(pairs[pairs.size() - 1 - static_cast<std::size_t>(q * (count - 1.0))]);
  const auto longer =
      std::count_if(pairs.begin(), pairs.end(), [&](const Pair& p) { return ratio(p) > 1.0 + 1e-9; });
  out << "\nlonger in " << longer << "\n";
  for (std::size_t i = 0; i < std::min(worst, pairs.size()) && ratio(pairs[i]) > 1.0 + 1e-9; ++i) {
    out << "  " << ratio(pairs[i]) << "  " << pairs[i].ours << " s against " << pairs[i].theirs
        << "  campaign " << pairs[i].reproduction << "  # " << pairs[i].name << "\n";
  }
}

}  // namespace campaign
