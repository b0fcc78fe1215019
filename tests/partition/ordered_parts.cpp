#include "slimpack/partition/ordered_parts.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

constexpr double impossible_cost = std::numeric_limits<double>::infinity();

/// Costs of parts of a row of lengths: padded to the longest as DynaPipe's are, or packed; nothing holds more than `limit` tokens.
struct PartCost {
  std::vector<double> lengths;
  bool padded;
  double limit;

  double operator()(std::size_t begin, std::size_t end) const {
    double longest = 0.0, tokens = 0.0, squares = 0.0;
    for (std::size_t i = begin; i < end; ++i) {
      longest = std::max(longest, lengths[i]);
      tokens += lengths[i];
      squares += lengths[i] * lengths[i];
    }
    const auto count = static_cast<double>(end - begin);
    if (padded) tokens = count * longest, squares = count * longest * longest;
    return tokens > limit ? impossible_cost : 5.0 + tokens + squares / 50.0;
  }
};

PartCost random_cost(std::mt19937& random) {
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  PartCost cost{{}, pick(0, 1) == 1, pick(0, 2) == 0 ? impossible_cost : static_cast<double>(pick(60, 200))};
  const int items = pick(1, 11);
  for (int i = 0; i < items; ++i) cost.lengths.push_back(pick(1, pick(0, 3) == 0 ? 100 : 20));
  if (pick(0, 2) > 0) std::sort(cost.lengths.begin(), cost.lengths.end(), std::greater<>());
  return cost;
}

/// The objective of the best of all splits.
double best_of_all_splits(const PartCost& cost, const OrderedPartsOptions& options) {
  const std::size_t items = cost.lengths.size();
  double best = impossible_cost;
  for (std::size_t cuts = 0; cuts < std::size_t{1} << (items - 1); ++cuts) {
    double most = 0.0, sum = 0.0;
    std::size_t begin = 0;
    for (std::size_t end = 1; end <= items; ++end) {
      if (end < items && (cuts >> (end - 1) & 1) == 0) continue;
      most = std::max(most, cost(begin, end));
      sum += cost(begin, end);
      begin = end;
    }
    best = std::min(best, options.most_weight * most + options.sum_weight * sum);
  }
  return best;
}

}  // namespace

TEST_CASE("parts of a row of items are as good as the best of all splits") {
  int split = 0, impossible = 0, whole = 0;
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const PartCost cost = random_cost(random);
    const OrderedPartsOptions options{.most_weight = static_cast<double>(random() % 8),
                                      .sum_weight = 1.0 / static_cast<double>(1 + random() % 4),
                                      .gap = random() % 2 == 0 ? 0.0 : 0.02};
    const OrderedParts parts = ordered_parts(cost.lengths.size(), cost, options);
    const double best = best_of_all_splits(cost, options);
    if (best == impossible_cost) {
      CHECK(parts.ends.empty());
      CHECK(parts.objective == impossible_cost);
      ++impossible;
      continue;
    }
    CHECK(parts.bound <= best * (1.0 + 1e-12));
    CHECK(parts.objective >= best * (1.0 - 1e-12));
    CHECK(parts.objective <= best * (1.0 + 1e-12) / (1.0 - options.gap));
    CHECK(parts.objective <= parts.bound * (1.0 + 1e-12) / (1.0 - options.gap));
    REQUIRE(!parts.ends.empty());
    CHECK(std::adjacent_find(parts.ends.begin(), parts.ends.end(), std::greater_equal<>()) ==
          parts.ends.end());
    CHECK(parts.ends.back() == cost.lengths.size());
    double most = 0.0, sum = 0.0;
    std::size_t begin = 0;
    for (const std::size_t end : parts.ends) {
      most = std::max(most, cost(begin, end));
      sum += cost(begin, end);
      begin = end;
    }
    CHECK(parts.most == Approx(most));
    CHECK(parts.sum == Approx(sum));
    CHECK(parts.objective == Approx(options.most_weight * most + options.sum_weight * sum));
    split += parts.ends.size() > 1 ? 1 : 0;
    whole += parts.ends.size() == 1 ? 1 : 0;
  }
  CHECK(split > 500);
  CHECK(whole > 50);
  CHECK(impossible > 20);
}

TEST_CASE("without items there are no parts, and bad options are refused") {
  const auto cost = [](std::size_t, std::size_t) { return 1.0; };
  CHECK(ordered_parts(0, cost).ends.empty());
  CHECK(ordered_parts(0, cost).objective == 0.0);
  CHECK_THROWS_WITH(ordered_parts(3, cost, {.most_weight = -1.0}),
                    Catch::Contains("are -1 and 1; expected 0 or more"));
  CHECK_THROWS_WITH(ordered_parts(3, cost, {.gap = -0.5}), Catch::Contains("gap is -0.5"));
}
