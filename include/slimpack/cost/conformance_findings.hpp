#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack {

/// How a model is examined.
struct ConformanceOptions {
  unsigned seed = 1;
  int trials = 200;                              ///< random slices of each stage and pass
  Tokens longest = 1 << 18;                      ///< of a sample
  double tolerance = 1e-9;                       ///< relative, for rounding
  std::vector<std::int32_t> groups{2, 3, 4, 8};  ///< sizes of merged groups, where the model supports them
  /// Whether members of a group may take less time together than one pipeline alone does. Lower bounds of steps hold
  /// if they don't.
  bool merging_may_save_work = false;
};

namespace detail {

/// Collects violations: of each property the first, with the numbers that show it.
class Findings {
 public:
  explicit Findings(unsigned seed) : seed_(seed) {}

  /// @param property as the documentation of `check_cost_model` names it.
  template <class... Parts>
  void expect(bool holds, std::string_view property, const Parts&... parts) {
    if (holds || std::find(violated_.begin(), violated_.end(), property) != violated_.end()) return;
    violated_.emplace_back(property);
    messages_.push_back(concat(property, ": ", parts..., " (seed ", seed_, ")"));
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(messages_); }

 private:
  unsigned seed_;
  std::vector<std::string> violated_, messages_;
};

[[nodiscard]] constexpr const char* pass_text(Pass pass) {
  return pass == Pass::forward ? "forward" : "backward";
}

/// `0 <= low <= middle <= high`, of samples that are short as often as long.
struct RandomCuts {
  Tokens low, middle, high;

  RandomCuts(std::mt19937& random, Tokens longest) {
    const double share = std::uniform_real_distribution<double>(0.0, 1.0)(random);
    const auto length = static_cast<Tokens>(std::pow(static_cast<double>(longest), share));
    Tokens at[3];
    for (Tokens& t : at) t = std::uniform_int_distribution<Tokens>(0, length)(random);
    std::sort(at, at + 3);
    low = std::uniform_int_distribution<int>(0, 2)(random) == 0 ? 0 : at[0];
    middle = at[1];
    high = at[2];
  }
};

}  // namespace detail

}  // namespace slimpack
