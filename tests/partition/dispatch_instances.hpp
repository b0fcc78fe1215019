#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "slimpack/partition/dispatch.hpp"

namespace test {

/// Samples and kinds of pipelines, with room for the seconds.
struct DispatchInstance {
  std::vector<slimpack::Tokens> lengths;
  std::vector<slimpack::PipelineKind> kinds;
  std::vector<double> seconds;

  [[nodiscard]] slimpack::DispatchProblem problem() const { return {lengths, kinds, seconds}; }
  /// [pipeline]
  [[nodiscard]] std::vector<std::size_t> kind_of() const {
    std::vector<std::size_t> kind;
    for (std::size_t k = 0; k < kinds.size(); ++k) kind.insert(kind.end(), kinds[k].pipelines, k);
    return kind;
  }
};

inline std::string print(const DispatchInstance& in) {
  std::string text = "lengths";
  for (const auto length : in.lengths) text += " " + std::to_string(length);
  for (const auto& kind : in.kinds)
    text += "; " + std::to_string(kind.pipelines) + " of " + std::to_string(kind.stages) + " stages up to " +
            std::to_string(kind.max_tokens);
  return text;
}

/// Up to `most_kinds` kinds, by falling MaxLen or not; lengths with heavy or light tails or all equal; seconds that are
/// whole numbers (so that sums are exact), like a model's, or free of any model.
inline DispatchInstance random_dispatch(unsigned seed, std::size_t samples, std::size_t pipelines,
                                        std::size_t most_kinds) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  DispatchInstance in;
  for (std::size_t i = 0; i < samples; ++i) {
    const double tail = std::lognormal_distribution<double>(6.0, 1.3)(random);
    in.lengths.push_back(seed % 7 == 0   ? 1000
                         : seed % 3 == 0 ? pick(500, 1000)
                                         : 1 + static_cast<std::int64_t>(std::min(tail, 30000.0)));
  }
  const slimpack::Tokens longest =
      in.lengths.empty() ? 1000 : *std::max_element(in.lengths.begin(), in.lengths.end());
  const auto kinds =
      static_cast<std::size_t>(pick(1, static_cast<std::int64_t>(std::min(most_kinds, pipelines))));
  std::vector<std::size_t> count(kinds, 1);
  for (std::size_t p = kinds; p < pipelines; ++p) ++count[random() % kinds];
  for (std::size_t k = 0; k < kinds; ++k) {
    const auto most = k == 0 ? longest + pick(0, 100) : std::max<slimpack::Tokens>(1, longest / pick(1, 8));
    in.kinds.push_back({most, static_cast<std::size_t>(pick(1, 4)), count[k]});
  }
  if (seed % 5 == 0) std::reverse(in.kinds.begin(), in.kinds.end());
  std::vector<double> devices(kinds);
  for (double& d : devices) d = static_cast<double>(pick(1, 8));
  in.seconds = slimpack::dispatch_seconds(in.lengths, in.kinds, [&](std::size_t k, slimpack::Tokens length) {
    const auto l = static_cast<double>(length);
    if (seed % 11 == 0) return static_cast<double>(pick(0, 100));
    const double modelled = (5.0 + l / 20.0 + l * l / 2e5) / devices[k];
    return seed % 2 == 0 ? std::ceil(modelled) : modelled;
  });
  return in;
}

/// Instances of Eq. 3 that are hard to solve: three kinds of pipelines, the longer their samples may be, the more devices they have.
/// @param light lengths have light tails, so that no sample sets the makespan. @param tight kinds hold no more than a third and two
/// thirds of the samples; otherwise half and a quarter of the longest.
inline DispatchInstance hard_dispatch(unsigned seed, std::size_t samples, std::size_t pipelines, bool light,
                                      bool tight) {
  std::mt19937_64 random(seed);
  DispatchInstance in;
  for (std::size_t i = 0; i < samples; ++i) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    // Heavy tails: log-logistic, median 400.
    const double drawn = light ? 500.0 + 500.0 * uniform : 400.0 * std::pow(uniform / (1.0 - uniform), 0.8);
    in.lengths.push_back(1 + static_cast<std::int64_t>(std::min(drawn, 30000.0)));
  }
  std::vector<slimpack::Tokens> sorted = in.lengths;
  std::sort(sorted.begin(), sorted.end());
  const slimpack::Tokens longest = sorted.back();
  const slimpack::Tokens most[] = {longest, tight ? sorted[2 * samples / 3] : longest / 2,
                                   tight ? sorted[samples / 3] : longest / 4};
  const std::size_t stages[] = {2, 1, 4};
  const double devices[] = {8.0, 4.0, 2.0};
  for (std::size_t k = 0; k < 3; ++k)
    in.kinds.push_back({most[k], stages[k], pipelines / 3 + (k < pipelines % 3 ? 1 : 0)});
  in.seconds = slimpack::dispatch_seconds(in.lengths, in.kinds, [&](std::size_t k, slimpack::Tokens length) {
    const auto l = static_cast<double>(length);
    return (5.0 + l / 20.0 + l * l / 2e5) / devices[k];
  });
  return in;
}

/// Eq. 2 by its definition: "the longest" is the one with the most seconds.
inline double eq2(const DispatchInstance& in, std::size_t kind, const std::vector<std::size_t>& samples) {
  double sum = 0.0, most = 0.0;
  for (const std::size_t i : samples) {
    sum += in.problem().seconds_on(kind, i);
    most = std::max(most, in.problem().seconds_on(kind, i));
  }
  return sum + most * static_cast<double>(in.kinds[kind].stages - 1);
}

/// Least makespan over all dispatches.
class LeastDispatch {
 public:
  explicit LeastDispatch(const DispatchInstance& in) : in_(in), kind_(in.kind_of()), samples_(kind_.size()) {}

  double solve(std::size_t sample = 0) {
    double makespan = 0.0;
    for (std::size_t p = 0; p < kind_.size(); ++p)
      makespan = std::max(makespan, eq2(in_, kind_[p], samples_[p]));
    if (sample == in_.lengths.size()) return best_ = std::min(best_, makespan);
    if (makespan >= best_) return best_;
    for (std::size_t p = 0; p < kind_.size(); ++p) {
      if (in_.lengths[sample] > in_.kinds[kind_[p]].max_tokens) continue;
      // Of empty pipelines of a kind, the first.
      if (p > 0 && kind_[p - 1] == kind_[p] && samples_[p - 1].empty()) continue;
      samples_[p].push_back(sample);
      solve(sample + 1);
      samples_[p].pop_back();
    }
    return best_;
  }

 private:
  const DispatchInstance& in_;
  std::vector<std::size_t> kind_;
  std::vector<std::vector<std::size_t>> samples_;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace test
