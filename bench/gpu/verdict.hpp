#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/gpu/attention_by.hpp"
#include "bench/gpu/figures.hpp"
#include "slimpack/core/error.hpp"

// What the figures of a run of gpu.sh come to.
namespace slimpack::bench {

enum class Bar : unsigned char { at_most, at_least, none };

/// A figure that a run is for, and what is asked of it.
struct Expected {
  std::string name;
  const char* what;
  Bar bar = Bar::none;
  double limit = 0.0;
};

/// All of them but attention's ratios.
[[nodiscard]] inline std::vector<Expected> expected_figures() {
  std::vector<Expected> all{
      {"check/operators", "worst error of operators", Bar::at_most, 1e-2},
      {"check/steps", "worst error of whole steps", Bar::at_most, 1e-2},
      {"slicing/forward", "262144 tokens in 32 slices: cost over one piece, forward", Bar::at_most, 0.1},
      {"slicing/backward", "the same, backward", Bar::at_most, 0.1},
      {"slicing/all", "the same, both", Bar::at_most, 0.1},
      {"ceilings/flops", "FLOP/s of cuBLASLt, 8192 x 8192"},
      {"ceilings/bandwidth", "bytes/s of a copy"},
      {"profile/held out", "profile: median error, tasks held out"}};
  for (const AttentionBy by : {AttentionBy::mma_sync, AttentionBy::wgmma, AttentionBy::cudnn})
    all.push_back(
        {std::string("check/attention/") + name_of(by), "worst error, small packs", Bar::at_most, 1e-2});
  for (const AttentionBy by : {AttentionBy::mma_sync, AttentionBy::wgmma}) {
    all.push_back({std::string("check/timed attention/") + name_of(by),
                   "worst error, sampled rows of timed shapes", Bar::at_most, 1e-2});
  }
  for (const std::string tool : {"memcheck", "racecheck"}) {
    for (const std::string kernels : {"operators", "mma.sync", "wgmma"}) {
      // By wgmma, racecheck also reports what is no race.
      const bool judged = tool == "memcheck" || kernels != "wgmma";
      all.push_back(
          {concat("sanitizer/", tool, ", ", kernels), "findings", judged ? Bar::at_most : Bar::none, 0});
    }
  }
  for (const std::string plan : {"whole samples", "slices"}) {
    const std::string stage = "stage/" + plan;
    all.push_back({stage + "/prediction", "median error of task times", Bar::at_most, 0.05});
    all.push_back({stage + "/memory counted", "memory peak that the stage counted, off the simulated",
                   Bar::at_most, 0.02});
    all.push_back({stage + "/memory taken", "memory gone from the GPU's free one, off the simulated",
                   Bar::at_most, 0.02});
    all.push_back({stage + "/of cuBLASLt", "model-FLOPs utilisation of a step, of cuBLASLt's rate"});
    all.push_back({stage + "/of vendor's peak", "model-FLOPs utilisation of a step, of the vendor's peak"});
  }
  return all;
}

/// The fastest of ours, or of libraries, for a pass of a shape: figures "attention/SHAPE/PASS/BY" in seconds,
/// where BY is "ours, ..." for our kernels. Without any, words say why.
[[nodiscard]] inline Figure fastest_attention(const std::vector<Figure>& figures, const std::string& shape,
                                              const std::string& pass, bool ours) {
  const std::string begin = "attention/" + shape + "/" + pass + "/";
  Figure best;
  for (const Figure& f : figures) {
    if (f.name.rfind(begin, 0) != 0 || (f.name.rfind(begin + "ours", 0) == 0) != ours) continue;
    const std::string by = f.name.substr(begin.size());
    if (std::isnan(f.value)) {
      if (std::isnan(best.value)) best.words += (best.words.empty() ? "" : "; ") + by + ": " + f.words;
    } else if (!(best.value <= f.value)) {
      best = {.name = by, .value = f.value, .words = ""};
    }
  }
  return best;
}

/// Whether cuDNN's time is among them: without it, the fastest library would be one that is slower.
[[nodiscard]] inline bool has_cudnn(const std::vector<Figure>& figures, const std::string& shape,
                                    const std::string& pass) {
  const std::string begin = "attention/" + shape + "/" + pass + "/cuDNN";
  return std::any_of(figures.begin(), figures.end(),
                     [&](const Figure& f) { return f.name.rfind(begin, 0) == 0 && !std::isnan(f.value); });
}

namespace detail {

/// Whether a value keeps to a bar; "measured" without one.
[[nodiscard]] inline const char* verdict_of(Bar bar, double limit, double value) {
  if (bar == Bar::none) return "measured";
  const bool met = bar == Bar::at_most ? value <= limit : value >= limit;
  return met ? "met" : "missed";
}

[[nodiscard]] inline std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace detail

/// How often each verdict was given.
struct Verdicts {
  int met = 0, missed = 0, measured = 0, not_measured = 0;

  void count(std::string_view verdict) {
    ++(verdict == "met"        ? met
       : verdict == "missed"   ? missed
       : verdict == "measured" ? measured
                               : not_measured);
  }
};

/// Prints attention's table: the fastest of ours and the fastest of libraries, and how large a share of its
/// rate ours has.
inline void print_attention_verdicts(const std::vector<Figure>& figures,
                                     const std::vector<std::string>& shapes, std::ostream& out,
                                     Verdicts& verdicts) {
  out << "| shape | pass | ours, ms | library, ms | ours / library, rate | bar |  |\n"
      << "| --- | --- | --- | --- | --- | --- | --- |\n";
  const auto cell = [](const Figure& f) {
    if (!std::isnan(f.value)) return detail::number(f.value * 1e3) + " (" + f.name + ")";
    return f.words.empty() ? std::string("not measured") : f.words;
  };
  for (const std::string& shape : shapes) {
    for (const auto& [pass, bar] : {std::pair("forward", 0.7), std::pair("backward", 0.6)}) {
      const Figure ours = fastest_attention(figures, shape, pass, true),
                   library = fastest_attention(figures, shape, pass, false);
      const double ratio = library.value / ours.value;
      const char* verdict =
          std::isnan(ratio) ? "not measured" : detail::verdict_of(Bar::at_least, bar, ratio);
      // A slower library's bar is no bar.
      if (ratio >= bar && !has_cudnn(figures, shape, pass)) verdict = "not measured: cuDNN is missing";
      verdicts.count(verdict);
      out << "| " << shape << " | " << pass << " | " << cell(ours) << " | " << cell(library) << " | "
          << (std::isnan(ratio) ? "" : detail::number(ratio)) << " | >= " << bar << " | " << verdict
          << " |\n";
    }
  }
}

/// Prints every figure with its bar, and whether it was met. @param shapes names of attention's
/// @returns how often.
inline Verdicts print_verdicts(const std::vector<Figure>& figures, const std::vector<std::string>& shapes,
                               std::ostream& out) {
  Verdicts verdicts;
  print_attention_verdicts(figures, shapes, out, verdicts);
  out << "\n| figure | value | bar |  |\n| --- | --- | --- | --- |\n";
  for (const Expected& e : expected_figures()) {
    const Figure* f = find_figure(figures, e.name);
    const bool measured = f != nullptr && !std::isnan(f->value);
    const char* verdict = measured ? detail::verdict_of(e.bar, e.limit, f->value) : "not measured";
    verdicts.count(verdict);
    out << "| " << e.name << ": " << e.what << " | "
        << (measured       ? detail::number(f->value)
            : f != nullptr ? f->words
                           : "")
        << " | "
        << (e.bar == Bar::none ? "" : (e.bar == Bar::at_most ? "<= " : ">= ") + detail::number(e.limit))
        << " | " << verdict << " |\n";
  }
  out << "\n"
      << verdicts.met << " met, " << verdicts.missed << " missed, " << verdicts.measured
      << " measured that have no bar, " << verdicts.not_measured << " not measured\n";
  return verdicts;
}

}  // namespace slimpack::bench
