#include "slimpack/partition/local_search.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "slimpack/partition/bounds.hpp"
#include "slimpack/partition/greedy.hpp"
#include "slimpack/partition/karmarkar_karp.hpp"
#include "tests/partition/instances.hpp"

using namespace slimpack;

namespace {

/// Every item in a random bin.
template <class W>
BasicAssignment<W> random_assignment(const std::vector<W>& weights, std::size_t bins, unsigned seed) {
  std::mt19937_64 random(seed);
  BasicAssignment<W> assignment{std::vector<std::uint32_t>(weights.size()), {}};
  for (auto& b : assignment.bin) b = static_cast<std::uint32_t>(random() % bins);
  assignment.load = test::loads_of(weights, assignment.bin, bins);
  return assignment;
}

struct Items {
  std::vector<std::int64_t> weights;
  std::vector<std::int64_t> sizes = {};
  std::int64_t capacity = 0;
};

/// Whether moving `item` to `bin`, in exchange for `back` if there is one, keeps both bins below the fullest
/// one.
bool relieves(const Items& in, const BasicAssignment<std::int64_t>& a, std::size_t item, std::uint32_t bin,
              std::size_t back) {
  auto moved = a.bin;
  const std::uint32_t from = moved[item];
  moved[item] = bin;
  if (back < moved.size()) moved[back] = from;
  if (!in.sizes.empty()) {
    for (const std::int64_t size : test::loads_of(in.sizes, moved, a.load.size()))
      if (size > in.capacity) return false;
  }
  const auto load = test::loads_of(in.weights, moved, a.load.size());
  return std::max(load[from], load[bin]) < a.load[from];
}

/// Whether any move or swap relieves the fullest bin. All of them are tried.
bool can_improve(const Items& in, const BasicAssignment<std::int64_t>& a, bool keep_counts = false) {
  std::size_t last = 0;  // of equally full bins the search looks at the last one
  for (std::size_t b = 0; b < a.load.size(); ++b) last = a.load[b] >= a.load[last] ? b : last;
  for (std::size_t item = 0; item < a.bin.size(); ++item) {
    if (a.bin[item] != last) continue;
    for (std::uint32_t bin = 0; bin < a.load.size(); ++bin) {
      if (!keep_counts && bin != last && relieves(in, a, item, bin, a.bin.size())) return true;
    }
    for (std::size_t back = 0; back < a.bin.size(); ++back) {
      if (a.bin[back] != last && relieves(in, a, item, a.bin[back], back)) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("local search ends where no move or swap helps, above the optimum") {
  std::size_t reached = 0, cases = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const std::size_t bins = 1 + seed % 4, count = seed % 10;
    const auto weights = test::random_weights<std::int64_t>(seed, count);
    INFO("seed " << seed << ", " << bins << " bins: " << test::print(weights));
    auto assignment = random_assignment(weights, bins, seed);
    const std::int64_t before = assignment.makespan();
    const auto result = improve_assignment(weights, assignment);
    CHECK(assignment.load == test::loads_of(weights, assignment.bin, bins));
    CHECK(result.before == before);
    CHECK(result.after == assignment.makespan());
    CHECK(result.after <= before);
    CHECK(result.local_optimum);
    CHECK_FALSE(can_improve({weights}, assignment));
    const std::int64_t least = test::Exhaustive<std::int64_t>{weights, bins}.solve();
    CHECK(result.after >= least);
    CHECK(result.after <= 2 * least);  // Finn and Horowitz 1979: moves alone give 2 - 2 / (bins + 1)
    ++cases;
    reached += result.after == least ? 1 : 0;
  }
  CHECK(10 * reached >= 8 * cases);
}

TEST_CASE("local search keeps the size limit") {
  std::size_t improved = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const std::size_t bins = 2 + seed % 3, count = 4 + seed % 8;
    const auto weights = test::random_weights<std::int64_t>(seed, count);
    auto assignment = random_assignment(weights, bins, seed);
    std::mt19937_64 random(seed + 1000);
    std::vector<std::int64_t> sizes(count);
    for (auto& s : sizes) s = static_cast<std::int64_t>(random() % 10);
    const auto filled = test::loads_of(sizes, assignment.bin, bins);
    const std::int64_t capacity =
        *std::max_element(filled.begin(), filled.end()) + static_cast<std::int64_t>(seed % 3);
    INFO("seed " << seed << ", " << bins << " bins: " << test::print(weights) << "sizes "
                 << test::print(sizes));
    const auto result = improve_assignment(weights, assignment, {.limit = {sizes, capacity}});
    for (const std::int64_t size : test::loads_of(sizes, assignment.bin, bins)) CHECK(size <= capacity);
    CHECK(assignment.load == test::loads_of(weights, assignment.bin, bins));
    CHECK_FALSE(can_improve({weights, sizes, capacity}, assignment));
    const std::int64_t least = test::Exhaustive<std::int64_t>{weights, bins, sizes, capacity}.solve();
    CHECK(result.after >= least);
    improved += result.after < result.before ? 1 : 0;
  }
  CHECK(improved > 200);
}

TEST_CASE("local search keeps the bins' numbers of items if told to") {
  std::size_t improved = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const std::size_t bins = 1 + seed % 4, count = seed % 14;
    const auto weights = test::random_weights<std::int64_t>(seed, count);
    INFO("seed " << seed << ", " << bins << " bins: " << test::print(weights));
    auto assignment = karmarkar_karp(weights, bins, {.equal_counts = true});
    const std::vector<std::int64_t> ones(count, 1);
    const auto counts = test::loads_of(ones, assignment.bin, bins);
    const auto result = improve_assignment(weights, assignment, {.keep_counts = true});
    CHECK(result.moves == 0);
    CHECK(test::loads_of(ones, assignment.bin, bins) == counts);
    CHECK(assignment.load == test::loads_of(weights, assignment.bin, bins));
    CHECK(result.local_optimum);
    CHECK_FALSE(can_improve({weights}, assignment, true));
    improved += result.after < result.before ? 1 : 0;
  }
  CHECK(improved > 20);
}

TEST_CASE("local search more than halves the distance of LPT from the bound") {
  double lpt_excess = 0.0, excess = 0.0;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    const auto weights = test::random_weights<double>(8 * seed + 5, 60);  // 500 to 1000
    auto assignment = lpt(weights, 16);
    const double bound = makespan_lower_bound(weights, 16);
    lpt_excess += assignment.makespan() / bound - 1.0;
    const auto result = improve_assignment(weights, assignment);
    CHECK(result.local_optimum);
    const auto load = test::loads_of(weights, assignment.bin, 16);
    for (std::size_t b = 0; b < 16; ++b) CHECK(load[b] == Approx(assignment.load[b]));
    excess += result.after / bound - 1.0;
  }
  CHECK(excess < 0.5 * lpt_excess);
}

TEST_CASE("local search carries what bins held before, and stops when its rounds are up") {
  const std::vector<int> weights{4, 3, 2, 1};
  BasicAssignment<int> assignment{{0, 0, 0, 0}, {110, 100, 0}};
  const auto result = improve_assignment(weights, assignment, {.max_rounds = 1});
  CHECK(result.moves == 1);
  CHECK_FALSE(result.local_optimum);
  CHECK(assignment.load == std::vector<int>{106, 100, 4});
  CHECK(improve_assignment(weights, assignment).local_optimum);
  CHECK(assignment.load == std::vector<int>{100, 100, 10});
}

TEST_CASE("local search ends where loads are close enough, and nowhere else before its optimum") {
  std::size_t ended_early = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    const std::size_t bins = 2 + seed % 5;
    const auto weights = test::random_weights<std::int64_t>(seed, 10 + seed);
    auto close = random_assignment(weights, bins, seed), best = close;
    const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(bins),
                 share = 0.05;
    const auto result = improve_assignment(weights, close, {.close = share});
    const auto all = improve_assignment(weights, best);
    CHECK(close.load == test::loads_of(weights, close.bin, bins));
    CHECK((result.local_optimum || static_cast<double>(result.after) <= (1.0 + share) * mean));
    CHECK(result.moves + result.swaps <= all.moves + all.swaps);
    if (result.local_optimum) CHECK(close.bin == best.bin);
    ended_early += result.local_optimum ? 0 : 1;
  }
  CHECK(ended_early > 50);
}

TEST_CASE("local search at the edges") {
  BasicAssignment<double> none{{}, {0.0, 0.0}};
  CHECK(improve_assignment(std::vector<double>{}, none).local_optimum);
  BasicAssignment<unsigned> swap{{0, 0, 1, 1}, {12, 8}};  // 7 and 5, 5 and 3: no move helps, 7 for 5 does
  CHECK(improve_assignment(std::vector<unsigned>{7, 5, 5, 3}, swap).after == 10);
  auto equal = random_assignment(std::vector<double>(100, 0.1), 10, 1);
  CHECK(improve_assignment(std::vector<double>(100, 0.1), equal).after == Approx(1.0));
  BasicAssignment<int> one{{0, 0}, {3}};
  CHECK(improve_assignment(std::vector<int>{1, 2}, one).after == 3);
}

TEST_CASE("local search of a million items after differencing") {
  std::vector<std::int64_t> weights = test::random_weights<std::int64_t>(4, 1000000);
  auto assignment = karmarkar_karp(weights, 512);
  CHECK(improve_assignment(weights, assignment).after >= makespan_lower_bound(weights, 512));
  CHECK(assignment.load == test::loads_of(weights, assignment.bin, 512));
}

TEST_CASE("local search refuses what does not fit together") {
  const std::vector<int> weights{1, 2};
  const std::vector<std::int64_t> sizes{3, 4};
  BasicAssignment<int> a{{0, 2}, {1, 2}};
  CHECK_THROWS_WITH(improve_assignment(weights, a), Catch::Contains("bin of item 1 is 2"));
  a.bin = {0};
  CHECK_THROWS_WITH(improve_assignment(weights, a), Catch::Contains("bins for 1 of 2 items"));
  a.bin = {0, 0};
  a.load = {3, 0};
  CHECK_THROWS_WITH(improve_assignment(weights, a, {.limit = {sizes, 6}}), Catch::Contains("bin 0 holds 7"));
  CHECK_THROWS_WITH(improve_assignment(weights, a, {.limit = {std::span(sizes).first(1), 6}}),
                    Catch::Contains("1 sizes of 2 items"));
  CHECK_THROWS_WITH(improve_assignment(weights, a, {.limit = {sizes, 3}}),
                    Catch::Contains("size of item 1 is 4"));
  CHECK_THROWS_WITH(improve_assignment(weights, a, {.close = -0.1}), Catch::Contains("close is -0.1"));
  a.load.clear();
  CHECK_THROWS_WITH(improve_assignment(weights, a), Catch::Contains("0 bins"));
}
