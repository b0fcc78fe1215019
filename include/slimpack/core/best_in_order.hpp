#pragma once

#include <cstddef>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace slimpack {

/// The best of what several threads make of candidates. These count in one order, whatever the order in which they become
/// ready, so the outcome does not depend on threads. A candidate does not count if it would not be made one by one: if its
/// bound is above the best cost before it, but for rounding.
template <class Made>
class BestInOrder {
 public:
  /// @param bounds [place] what a candidate costs at least, in the order in which candidates count.
  explicit BestInOrder(std::vector<double> bounds)
      : bounds_(std::move(bounds)), waiting_(bounds_.size()), counts_(bounds_.size(), false) {}

  /// Whether a candidate has to be made, as far as those before it are known.
  [[nodiscard]] bool worth_making(std::size_t place) {
    const std::lock_guard lock(mutex_);
    return can_be_best(place);
  }

  /// Takes what came of a candidate, each once. @param made none if it was not worth making, or can't be made.
  void take(std::size_t place, double cost, std::optional<Made> made) {
    const std::lock_guard lock(mutex_);
    waiting_[place] = Waiting{cost, std::move(made)};
    for (; next_ < waiting_.size() && waiting_[next_]; ++next_) count(next_);
  }

  /// Whether a candidate counts. @pre all are taken.
  [[nodiscard]] bool counts(std::size_t place) const { return counts_[place]; }
  /// The place of the one that costs least, the first one of equals; none if none was made. @pre all are taken.
  [[nodiscard]] const std::optional<std::size_t>& best() const { return best_; }
  /// What was made of it. @pre there is one.
  [[nodiscard]] Made take_best() { return std::move(*made_); }

 private:
  struct Waiting {
    double cost;
    std::optional<Made> made;
  };

  [[nodiscard]] bool can_be_best(std::size_t place) const {
    constexpr double rounding = 1.0 - 1e-9;
    return bounds_[place] * rounding < least_;
  }

  void count(std::size_t place) {
    Waiting own = std::move(*waiting_[place]);
    if (!can_be_best(place)) return;
    counts_[place] = true;
    if (!own.made || !(own.cost < least_)) return;
    least_ = own.cost;
    best_ = place;
    made_ = std::move(own.made);
  }

  std::vector<double> bounds_;                   // [place]
  std::vector<std::optional<Waiting>> waiting_;  // [place]
  std::vector<bool> counts_;                     // [place]
  std::size_t next_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  std::optional<std::size_t> best_;
  std::optional<Made> made_;
  std::mutex mutex_;
};

}  // namespace slimpack
