#include "slimpack/core/best_in_order.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "slimpack/core/parallel.hpp"

using namespace slimpack;

namespace {

/// A candidate; few different numbers, so that many are equal.
struct Drawn {
  double bound = 0.0, cost = 0.0;
  bool impossible = false;
};

std::vector<Drawn> drawn_candidates(std::mt19937& random) {
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  std::vector<Drawn> drawn(static_cast<std::size_t>(pick(0, 20)));
  for (Drawn& own : drawn) {
    own.bound = pick(1, 7);
    own.cost = own.bound + pick(0, 5);
    own.impossible = pick(0, 3) == 0;
  }
  std::stable_sort(drawn.begin(), drawn.end(),
                   [](const Drawn& a, const Drawn& b) { return a.bound < b.bound; });
  return drawn;
}

}  // namespace

TEST_CASE("what several threads make of candidates is what one makes, one by one", "[threads]") {
  std::size_t left_out = 0, none = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<Drawn> drawn = drawn_candidates(random);
    double least = std::numeric_limits<double>::infinity();
    std::optional<std::size_t> first;
    std::vector<bool> made;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      made.push_back(drawn[i].bound <= least);
      left_out += made[i] ? 0 : 1;
      if (!made[i] || drawn[i].impossible || drawn[i].cost >= least) continue;
      least = drawn[i].cost;
      first = i;
    }
    none += first ? 0 : 1;
    for (const std::size_t threads : {1u, 2u, 8u}) {
      CAPTURE(threads);
      std::vector<double> bounds;
      for (const Drawn& own : drawn) bounds.push_back(own.bound);
      BestInOrder<std::size_t> best(bounds);
      for_each_index(drawn.size(), threads, [&](std::size_t i) {
        const bool makes = best.worth_making(i) && !drawn[i].impossible;
        if (threads > 1) std::this_thread::sleep_for(std::chrono::microseconds(i * 37 % 5 * 40));
        best.take(i, drawn[i].cost, makes ? std::optional(10 * i) : std::nullopt);
      });
      CHECK(best.best() == first);
      if (first) CHECK(best.take_best() == 10 * *first);
      for (std::size_t i = 0; i < drawn.size(); ++i) CHECK(best.counts(i) == made[i]);
    }
  }
  CHECK(left_out > 300);
  CHECK(none > 5);
}

TEST_CASE("candidates that become ready in any order are counted in theirs") {
  BestInOrder<int> best({0.0, 1.0, 2.0});
  best.take(2, 2.5, 2);
  CHECK(best.worth_making(1));
  best.take(1, 2.5, 1);
  best.take(0, 3.0, 0);
  CHECK(best.best() == 1);
  CHECK(best.take_best() == 1);
  CHECK(best.counts(0));
  CHECK(best.counts(2));
}
