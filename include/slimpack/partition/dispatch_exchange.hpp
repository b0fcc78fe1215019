#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/partition/dispatch.hpp"
#include "slimpack/partition/dispatch_loads.hpp"

namespace slimpack::detail {

/// Relieves the slowest of some pipelines by exchanging up to two samples for up to two with another, until that
/// helps no more.
class DispatchExchange {
 public:
  explicit DispatchExchange(DispatchLoads& loads) : loads_(loads) {}

  [[nodiscard]] std::uint64_t steps() const { return steps_; }

  /// Ends when the slowest takes at most `enough`, when no exchange relieves it, or when more than `most_steps` exchanges
  /// have been looked at in all. Pairs of samples are tried where single ones do not help, if `pairs`.
  void improve(std::span<const std::size_t> pipelines, double enough, bool pairs, std::uint64_t most_steps) {
    order_.clear();
    for (const std::size_t p : pipelines) order_.insert({loads_.load(p), p});
    while (order_.size() > 1 && order_.rbegin()->first > enough && steps_ < most_steps) {
      if (!relieve(enough, false, most_steps) && !(pairs && relieve(enough, true, most_steps))) break;
    }
  }

 private:
  struct Exchange {
    double worse = 0.0;  ///< of the two pipelines afterwards
    std::size_t with = 0;
    LeavingSamples given = {}, back = {};
  };
  /// After so many pipelines with which an exchange helps, the best is taken.
  static constexpr std::size_t enough_partners = 4;
  /// Pairs are tried only between pipelines of few samples.
  static constexpr std::size_t most_paired = 48;

  bool relieve(double enough, bool pairs, std::uint64_t most_steps) {
    const std::size_t from = order_.rbegin()->second;
    if (pairs && loads_.items(from).size() > most_paired) return false;
    loads_.list_leaving(from, pairs, given_);
    // What rounding gains is no gain.
    const double before = loads_.load(from) * (1.0 - 1e-12);
    Exchange best{.worse = before};
    std::size_t partners = 0;
    for (const auto& [load, to] : order_) {
      if (to == from || steps_ >= most_steps) break;
      if (pairs && loads_.items(to).size() > most_paired) continue;
      if (!consider(from, to, pairs, best)) continue;
      if (best.worse <= enough || ++partners == enough_partners) break;
    }
    if (best.worse >= before) return false;
    order_.erase({loads_.load(from), from});
    order_.erase({loads_.load(best.with), best.with});
    loads_.exchange(from, best.given, best.with, best.back);
    order_.insert({loads_.load(from), from});
    order_.insert({loads_.load(best.with), best.with});
    return true;
  }

  /// Notes the best exchange with a pipeline, if it is the best so far. The more is given, the more may come back, so
  /// that one pass over both lists finds where the two pipelines become about equal.
  bool consider(std::size_t from, std::size_t to, bool pairs, Exchange& best) {
    loads_.list_leaving(to, pairs, back_);
    bool better = false;
    std::size_t b = 0;
    for (const LeavingSamples& given : given_) {
      double own = 0.0, other = 0.0;
      const auto look = [&](std::size_t place) {
        ++steps_;
        own = loads_.load_after(from, given, back_[place]);
        other = loads_.load_after(to, back_[place], given);
        if (std::max(own, other) >= best.worse) return;
        best = {std::max(own, other), to, given, back_[place]};
        better = true;
      };
      if (b > 0) look(b - 1);
      while (true) {
        look(b);
        if (own >= other || b + 1 == back_.size()) break;
        ++b;
      }
    }
    return better;
  }

  DispatchLoads& loads_;
  std::set<std::pair<double, std::size_t>> order_;  // pipelines by what they take
  std::vector<LeavingSamples> given_, back_;
  std::uint64_t steps_ = 0;
};

}  // namespace slimpack::detail
