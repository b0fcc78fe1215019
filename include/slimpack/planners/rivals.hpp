#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack {

/// A planner among others that plan the same batches.
struct Rival {
  std::string name;
  std::string where = {};  ///< what else it chose, such as a layout; for messages
  double seconds_per_token =
      std::numeric_limits<double>::infinity();  ///< trained; infinite: it has no plan …
  std::string reason = {};                      ///< … and why

  [[nodiscard]] bool planned() const { return seconds_per_token < std::numeric_limits<double>::infinity(); }
  [[nodiscard]] std::string title() const { return where.empty() ? name : concat(name, " (", where, ")"); }
};

/// The rival with the fewest seconds per trained token, the first one of equals.
/// @throws InvalidInput with all reasons if none has a plan.
[[nodiscard]] inline std::size_t best_rival(std::span<const Rival> rivals) {
  require(!rivals.empty(), "there are no planners; expected at least one");
  std::size_t best = 0;
  std::string reasons;
  for (std::size_t i = 0; i < rivals.size(); ++i) {
    if (rivals[i].seconds_per_token < rivals[best].seconds_per_token) best = i;
    if (!rivals[i].planned())
      reasons += concat(reasons.empty() ? "" : "; ", rivals[i].name, ": ", rivals[i].reason);
  }
  require(rivals[best].planned(), rivals.size() == 1 ? "" : "no planner has a plan: ", reasons);
  return best;
}

/// Why the best of several planners won, one sentence for a plan's notes: by how much the next best is slower, and which
/// have no plan. @param best as `best_rival` gives it.
[[nodiscard]] inline std::string why_best(std::span<const Rival> rivals, std::size_t best) {
  std::size_t next = best;
  std::string without;
  for (std::size_t i = 0; i < rivals.size(); ++i) {
    if (!rivals[i].planned())
      without += concat(without.empty() ? "; without a plan: " : ", ", rivals[i].name);
    if (i == best || !rivals[i].planned()) continue;
    if (next == best || rivals[i].seconds_per_token < rivals[next].seconds_per_token) next = i;
  }
  const Rival &winner = rivals[best], &second = rivals[next];
  const std::string chosen = concat("auto chose ", winner.title());
  if (next == best) return concat(chosen, ": the only planner with a plan", without);
  const double percent =
      std::round(1000.0 * (second.seconds_per_token / winner.seconds_per_token - 1.0)) / 10.0;
  return concat(chosen, ": the next best, ", second.title(), ", takes ",
                percent > 0.0 ? concat(percent, " % longer") : "as long", " per trained token", without);
}

/// What a rival has planned.
template <class Planned>
struct RivalPlan {
  Planned planned;
  double seconds_per_token = 0.0;
  std::string where = {};  ///< as `Rival::where`
};

/// The best of what rivals have planned, and why it won.
template <class Planned>
struct BestOfRivals {
  Planned planned;
  std::string why;
};

/// The best of what planners make, the first one of equals. @param make `make(i)` gives the RivalPlan of planner number
/// i, or throws InvalidInput with the reason why it has none.
/// @throws InvalidInput with all reasons if no planner has a plan.
template <class Make>
[[nodiscard]] auto best_of_rivals(std::span<const std::string> names, const Make& make) {
  using Planned = decltype(make(std::size_t{0}).planned);
  std::vector<Rival> rivals;
  std::optional<Planned> best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < names.size(); ++i) {
    Rival& own = rivals.emplace_back(Rival{.name = names[i]});
    try {
      RivalPlan<Planned> made = make(i);
      own.where = std::move(made.where);
      own.seconds_per_token = made.seconds_per_token;
      if (own.seconds_per_token < least) best = std::move(made.planned);
      least = std::min(least, own.seconds_per_token);
    } catch (const InvalidInput& error) {
      own.reason = error.what();
    }
  }
  const std::size_t winner = best_rival(rivals);
  return BestOfRivals<Planned>{std::move(*best), why_best(rivals, winner)};
}

}  // namespace slimpack
