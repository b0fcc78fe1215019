#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "slimpack/partition/capped_greedy.hpp"
#include "slimpack/partition/capped_search.hpp"
#include "tests/partition/instances.hpp"

using namespace slimpack;

namespace {

struct Instance {
  std::vector<std::int64_t> weights = {}, sizes = {};
  std::size_t bins = 1;
  std::int64_t capacity = 1;
};

std::string print(const Instance& in) {
  return std::to_string(in.bins) + " bins of " + std::to_string(in.capacity) + ", weights " +
         test::print(in.weights) + "sizes " + test::print(in.sizes);
}

/// Documents whose weight is their square or anything; light or heavy tails; caps that are loose, tight, or
/// slightly too tight.
Instance random_instance(unsigned seed, std::size_t count) {
  std::mt19937_64 random(seed);
  Instance in{.bins = 2 + seed % 3};
  for (std::size_t i = 0; i < count; ++i) {
    const auto light = static_cast<std::int64_t>(50 + random() % 50);
    const auto heavy = static_cast<std::int64_t>(std::lognormal_distribution<double>(3.0, 1.2)(random)) + 1;
    in.sizes.push_back(seed % 2 == 0 ? light : heavy);
    const std::int64_t square = in.sizes.back() * in.sizes.back();
    in.weights.push_back(seed % 5 == 0 ? static_cast<std::int64_t>(random() % 1000) : square);
  }
  // As a loader fills sequences: the fullest of some packing is the capacity, or a little more than the mean.
  std::vector<std::uint32_t> bin(count);
  for (auto& b : bin) b = static_cast<std::uint32_t>(random() % in.bins);
  const auto filled = test::loads_of(in.sizes, bin, in.bins);
  const std::int64_t total = std::accumulate(filled.begin(), filled.end(), std::int64_t{0});
  const std::int64_t longest = *std::max_element(in.sizes.begin(), in.sizes.end());
  const std::int64_t mean = total / static_cast<std::int64_t>(in.bins) + 1;
  in.capacity = seed % 3 == 0 ? *std::max_element(filled.begin(), filled.end())
                              : std::max(longest, mean + mean * static_cast<std::int64_t>(seed % 4) / 50);
  return in;
}

std::int64_t least_makespan(const Instance& in) {
  return test::Exhaustive<std::int64_t>{in.weights, in.bins, in.sizes, in.capacity}.solve();
}

}  // namespace

TEST_CASE("greedy under a size limit does what Algorithm 1 says, item by item") {
  std::size_t left_over = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Instance in = random_instance(seed, 1 + seed % 40);
    in.capacity = std::max(*std::max_element(in.sizes.begin(), in.sizes.end()), in.capacity * 9 / 10);
    INFO("seed " << seed << ": " << print(in));
    std::vector<std::int64_t> load(in.bins), filled(in.bins);
    for (std::size_t b = 0; b < in.bins; ++b) {
      load[b] = static_cast<std::int64_t>((seed * (b + 1)) % 97);
      filled[b] = in.capacity * static_cast<std::int64_t>(b % 3) / 4;
    }
    const auto packed =
        capped_greedy(in.weights, {in.sizes, in.capacity}, BinContents<std::int64_t>{load, filled});
    std::vector<std::uint32_t> order(in.sizes.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return in.sizes[a] > in.sizes[b]; });
    std::vector<std::uint32_t> left;
    for (const std::uint32_t item : order) {
      const auto w = std::min_element(load.begin(), load.end()) - load.begin();
      const auto l = std::min_element(filled.begin(), filled.end()) - filled.begin();
      const auto fits = [&](auto b) { return filled[std::size_t(b)] + in.sizes[item] <= in.capacity; };
      const auto bin = fits(w) ? w : l;
      if (!fits(bin)) {
        left.push_back(item);
        CHECK(packed.assignment.bin[item] == unassigned);
        continue;
      }
      CHECK(packed.assignment.bin[item] == static_cast<std::uint32_t>(bin));
      load[std::size_t(bin)] += in.weights[item];
      filled[std::size_t(bin)] += in.sizes[item];
    }
    CHECK(packed.left == left);
    CHECK(packed.assignment.load == load);
    CHECK(packed.filled == filled);
    left_over += left.size();
  }
  CHECK(left_over > 300);
}

TEST_CASE("the bound under a size limit is below every assignment, and above the one without") {
  std::size_t raised = 0, met = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const Instance in = random_instance(seed, 3 + seed % 8);
    INFO("seed " << seed << ": " << print(in));
    const SizeLimit limit{in.sizes, in.capacity};
    const std::int64_t bound = makespan_lower_bound(in.weights, in.bins, limit);
    const std::int64_t least = least_makespan(in);
    CHECK(bound >= makespan_lower_bound(in.weights, in.bins));
    raised += bound > makespan_lower_bound(in.weights, in.bins) ? 1 : 0;
    if (least < 0) continue;
    CHECK(bound <= least);
    met += bound == least ? 1 : 0;
    const std::vector<double> real(in.weights.begin(), in.weights.end());
    CHECK(makespan_lower_bound(real, in.bins, limit) <= static_cast<double>(least) * (1.0 + 1e-12));
  }
  CHECK(raised > 40);
  CHECK(met > 40);
  // The first item's bin has to take 5 more: at least a seventh of the item with the least weight per size.
  const std::vector<std::int64_t> weights{900, 40, 30, 30}, sizes{90, 40, 35, 30};
  CHECK(makespan_lower_bound(weights, 2, {sizes, 100}) == 900 + 5);
}

TEST_CASE("the capped search finds the least makespan of small cases, or proves that there is none") {
  std::size_t tight = 0, none = 0, light = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    const Instance in = random_instance(seed, 4 + seed % 8);
    INFO("seed " << seed << ": " << print(in));
    const SizeLimit limit{in.sizes, in.capacity};
    const auto answer = capped_search(in.weights, limit, in.bins);
    const std::int64_t least = least_makespan(in);
    if (least < 0) {
      CHECK(answer.status == SolveStatus::infeasible);
      ++none;
      continue;
    }
    REQUIRE(answer.status == SolveStatus::optimal);
    CHECK(answer.assignment.makespan() == least);
    CHECK(answer.bound == least);
    CHECK(answer.gap() == 0.0);
    CHECK(answer.assignment.load == test::loads_of(in.weights, answer.assignment.bin, in.bins));
    const auto filled = test::loads_of(in.sizes, answer.assignment.bin, in.bins);
    CHECK(*std::max_element(filled.begin(), filled.end()) <= in.capacity);
    const std::int64_t total = std::accumulate(filled.begin(), filled.end(), std::int64_t{0});
    tight += 20 * total >= 19 * in.capacity * static_cast<std::int64_t>(in.bins) ? 1 : 0;
    light += seed % 2 == 0 ? 1 : 0;
    // Without branch and bound the bounds still enclose the optimum.
    const auto quick = capped_search(in.weights, limit, in.bins, {.max_exact_items = 0});
    CHECK(quick.bound <= least);
    if (!quick.assignment.load.empty()) CHECK(quick.assignment.makespan() >= least);
  }
  CHECK(tight > 60);
  CHECK(none > 20);
  CHECK(light > 100);
}

TEST_CASE("the capped search agrees with branch and bound on 200 cases of 12 to 16 items") {
  for (unsigned seed = 1000; seed < 1200; ++seed) {
    const Instance in = random_instance(seed, 12 + seed % 5);
    INFO("seed " << seed << ": " << print(in));
    const SizeLimit limit{in.sizes, in.capacity};
    const auto exact = exact_assignment(in.weights, in.bins, {.limit = limit});
    const auto answer = capped_search(in.weights, limit, in.bins, {.max_exact_steps = 50000000});
    REQUIRE((exact.status == SolveStatus::optimal || exact.status == SolveStatus::infeasible));
    CHECK(answer.status == exact.status);
    if (exact.status == SolveStatus::optimal) {
      CHECK(answer.assignment.makespan() == exact.assignment.makespan());
    }
  }
}

namespace {

/// Sequences of `capacity` tokens each, filled to the last token: documents with long tails, of which the last
/// one of each sequence is cut.
struct FullSequences {
  Instance in;
  std::vector<std::uint32_t> original;
};
FullSequences full_sequences(unsigned seed, std::size_t bins, std::int64_t capacity) {
  std::mt19937_64 random(seed);
  FullSequences full;
  full.in.bins = bins;
  full.in.capacity = capacity;
  for (std::uint32_t b = 0; b < bins; ++b) {
    for (std::int64_t room = capacity; room > 0;) {
      const double median = random() % 60 == 0 ? 40000.0 : 3000.0;
      const auto drawn =
          static_cast<std::int64_t>(std::lognormal_distribution<double>(std::log(median), 0.6)(random));
      const std::int64_t length = std::clamp<std::int64_t>(drawn, 1, room);
      room -= length;
      full.in.sizes.push_back(length);
      full.in.weights.push_back(length * length);
      full.original.push_back(b);
    }
  }
  return full;
}

}  // namespace

TEST_CASE("sequences without a free token are packed just as full, and balanced") {
  std::size_t proven = 0, without_start = 0;
  double before = 0.0, after = 0.0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const FullSequences full = full_sequences(seed, 4, 131072);
    const Instance& in = full.in;
    INFO("seed " << seed);
    const SizeLimit limit{in.sizes, in.capacity};
    const auto answer = capped_search(in.weights, limit, in.bins, {.start = full.original, .gap = 0.005});
    REQUIRE((answer.status == SolveStatus::optimal || answer.status == SolveStatus::feasible));
    CHECK(answer.assignment.load == test::loads_of(in.weights, answer.assignment.bin, in.bins));
    for (const std::int64_t tokens : test::loads_of(in.sizes, answer.assignment.bin, in.bins))
      CHECK(tokens == in.capacity);
    const auto original = test::loads_of(in.weights, full.original, in.bins);
    const auto first = *std::max_element(original.begin(), original.end());
    CHECK(answer.assignment.makespan() <= first);
    CHECK(answer.bound <= answer.assignment.makespan());
    before += static_cast<double>(first) / static_cast<double>(answer.bound) - 1.0;
    after += answer.gap();
    proven += answer.gap() <= 0.005 ? 1 : 0;
    const auto unaided = capped_search(in.weights, limit, in.bins, {.gap = 0.005});
    without_start += unaided.status == SolveStatus::unknown ? 0 : 1;
    const auto again = capped_search(in.weights, limit, in.bins, {.start = full.original, .gap = 0.005});
    CHECK(again.assignment == answer.assignment);
  }
  CHECK(proven >= 54);
  CHECK(without_start >= 54);
  CHECK(after < 0.05 * before);
}

TEST_CASE("the capped search at the edges") {
  const std::vector<std::int64_t> none;
  CHECK(capped_search(none, {none, 5}, 3).status == SolveStatus::optimal);
  const std::vector<std::int64_t> one{7}, size{5};
  CHECK(capped_search(one, {size, 5}, 1).assignment.makespan() == 7);
  const std::vector<std::int64_t> three{3, 3, 3}, sizes{3, 3, 3};
  CHECK(capped_search(three, {sizes, 5}, 2).status == SolveStatus::infeasible);
  CHECK(capped_search(three, {sizes, 6}, 2).assignment.makespan() == 6);
  const std::vector<double> real{0.1, 0.2, 0.3};
  CHECK(capped_search(real, {sizes, 6}, 2).assignment.makespan() == Approx(0.3));
}

TEST_CASE("packing under a size limit refuses what does not fit together") {
  const std::vector<std::int64_t> weights{1, 2}, sizes{3, 4}, load{0, 0}, filled{0, 9};
  CHECK_THROWS_WITH(capped_greedy(weights, {sizes, 3}, 2), Catch::Contains("size of item 1 is 4"));
  CHECK_THROWS_WITH(capped_greedy(weights, {sizes, 4}, 0), Catch::Contains("0 bins"));
  CHECK_THROWS_WITH(capped_greedy(weights, {{}, 4}, 1), Catch::Contains("0 sizes of 2 items"));
  CHECK_THROWS_WITH(capped_greedy(weights, {sizes, 8}, BinContents<std::int64_t>{load, filled}),
                    Catch::Contains("bin 1 holds 9"));
  CHECK_THROWS_WITH(capped_search(weights, {sizes, 0}, 1), Catch::Contains("capacity is 0"));
  CHECK_THROWS_WITH(capped_search(weights, {sizes, 3}, 1), Catch::Contains("size of item 1 is 4"));
  CHECK_THROWS_WITH(capped_search(weights, {sizes, 4}, 2, {.gap = -1.0}), Catch::Contains("gap is -1"));
  const std::vector<std::uint32_t> short_start{0}, wrong{0, 2}, heavy{0, 0};
  CHECK_THROWS_WITH(capped_search(weights, {sizes, 4}, 2, {.start = short_start}),
                    Catch::Contains("start has bins for 1 of 2"));
  CHECK_THROWS_WITH(capped_search(weights, {sizes, 4}, 2, {.start = wrong}),
                    Catch::Contains("item 1 into bin 2"));
  CHECK_THROWS_WITH(capped_search(weights, {sizes, 4}, 2, {.start = heavy}),
                    Catch::Contains("bin 0 holds 7"));
}
