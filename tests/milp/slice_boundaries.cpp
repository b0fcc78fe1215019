#include "slimpack/milp/slice_boundaries.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/milp/check.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/slicing/micropack.hpp"
#include "tests/milp/solvers.hpp"
#include "tests/slicing/streams.hpp"

using namespace slimpack;

namespace {

using test::cost_of, test::stream;

std::vector<double> seconds_of(const Packs& packs, const CalibratedCost& cost, Pass pass) {
  std::vector<double> seconds;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    seconds.push_back(0.0);
    for (const Slice& slice : packs[k]) seconds.back() += cost.pipeline_seconds(slice.begin, slice.end, pass);
  }
  return seconds;
}

double largest(const Packs& packs, const CalibratedCost& cost, Pass pass) {
  const std::vector<double> seconds = seconds_of(packs, cost, pass);
  return *std::max_element(seconds.begin(), seconds.end());
}

/// Every token once, in the order of the pass, at multiples of the tile; whole where they have to be.
void check_packs(const Packs& packs, const std::vector<Tokens>& lengths, Pass pass,
                 const SliceBoundaryOptions& options) {
  std::vector<Tokens> taken(lengths.size(), 0);
  for (std::size_t k = 0; k < packs.size(); ++k) {
    CHECK_FALSE(packs[k].empty());
    for (const Slice& slice : packs[k]) {
      const std::size_t i = slice.sample - 10;
      REQUIRE(i < lengths.size());
      CHECK((pass == Pass::forward ? slice.begin == taken[i] : slice.end == lengths[i] - taken[i]));
      taken[i] += slice.size();
      if (lengths[i] <= options.whole_up_to) CHECK(slice.size() == lengths[i]);
      CHECK((slice.begin % options.tile == 0 && (slice.end % options.tile == 0 || slice.end == lengths[i])));
    }
  }
  CHECK(taken == lengths);
}

/// The least largest pack by trying everything: parts of samples one by one, each in no pack before its
/// predecessor's.
double try_everything(const std::vector<Tokens>& lengths, std::size_t packs, const CalibratedCost& cost,
                      Pass pass, const SliceBoundaryOptions& options) {
  struct Part {
    double seconds;
    bool first;   // of its sample
    bool sliced;  // its sample may be
  };
  std::vector<Part> parts;
  for (const Tokens length : lengths) {
    const bool sliced = length > options.whole_up_to;
    const Tokens tile = sliced ? options.tile : length;
    std::vector<Part> mine;
    for (Tokens begin = 0; begin < length; begin += tile)
      mine.push_back({cost.pipeline_seconds(begin, std::min(length, begin + tile), pass), false, sliced});
    if (pass == Pass::backward) std::reverse(mine.begin(), mine.end());
    mine[0].first = true;
    parts.insert(parts.end(), mine.begin(), mine.end());
  }
  double best = std::numeric_limits<double>::infinity();
  std::vector<double> load(packs, 0.0);
  const std::function<void(std::size_t, std::size_t, std::size_t)> place =
      [&](std::size_t part, std::size_t last, std::size_t sliced_last) {
        if (part == parts.size()) {
          best = std::min(best, *std::max_element(load.begin(), load.end()));
          return;
        }
        const Part& p = parts[part];
        const std::size_t from = !p.first ? last : options.one_at_a_time && p.sliced ? sliced_last : 0;
        for (std::size_t k = from; k < packs; ++k) {
          load[k] += p.seconds;
          place(part + 1, k, p.sliced ? k : sliced_last);
          load[k] -= p.seconds;
        }
      };
  place(0, 0, 0);
  return best;
}

/// A few samples, longest first, of at most ten tiles together; some end within a tile.
std::vector<Tokens> random_lengths(std::mt19937& random, Tokens tile) {
  std::vector<Tokens> lengths;
  for (Tokens left = 10; left > 0;) {
    const Tokens tiles = std::uniform_int_distribution<Tokens>(1, std::min<Tokens>(left, 6))(random);
    lengths.push_back(tiles * tile - std::uniform_int_distribution<Tokens>(0, tile - 1)(random));
    left -= tiles + (random() % 2 == 0 ? 1 : 0);
  }
  std::sort(lengths.begin(), lengths.end(), std::greater<>{});
  return lengths;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("slice boundaries by MILP are as good as trying everything", "", test::Solvers) {
  if constexpr (!TestType::integers_alone) {
    for (unsigned seed = 1; seed <= 60; ++seed) {
      std::mt19937 random(seed);
      const Tokens tile = seed % 2 == 0 ? 128 : 4096;
      const std::vector<Tokens> lengths = random_lengths(random, tile);
      const std::size_t packs = 1 + random() % 4;
      const CalibratedCost cost = cost_of(1);
      const Pass pass = seed % 3 == 0 ? Pass::backward : Pass::forward;
      const SliceBoundaryOptions options{
          .tile = tile, .whole_up_to = seed % 5 == 0 ? 2 * tile : 0, .one_at_a_time = seed % 4 == 0};
      INFO("seed " << seed << ", " << packs << " packs");
      SliceBoundaryModel boundaries(stream(lengths, cost, pass, 10), packs, cost, pass, options);
      const MilpResult result = TestType::solve(boundaries.model());
      REQUIRE(result.status == SolveStatus::optimal);
      const Packs found = boundaries.decode(result.values);
      CHECK(found.size() <= packs);
      check_packs(found, lengths, pass, options);
      const double best = try_everything(lengths, packs, cost, pass, options);
      CHECK(largest(found, cost, pass) == Approx(best).epsilon(2e-6));
      CHECK(result.objective * boundaries.scale() == Approx(best).epsilon(2e-6));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("the planner's cutter is within a tile of the best slice boundaries", "",
                        test::Solvers) {
  if constexpr (!TestType::integers_alone) {
    int better = 0;
    for (unsigned seed = 1; seed <= 40; ++seed) {
      std::mt19937 random(seed);
      const Tokens tile = 2048;
      const std::vector<Tokens> lengths = random_lengths(random, tile);
      const std::size_t packs = 2 + random() % 3;
      const CalibratedCost cost = cost_of(1);
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        INFO("seed " << seed << ", " << packs << " packs");
        const auto samples = stream(lengths, cost, pass, 10);
        Packs cut;
        cut_micropacks(std::span<const StreamSample>(samples), packs, cost, pass, {.tile = tile}, cut);
        SliceBoundaryModel boundaries(samples, packs, cost, pass, {.tile = tile});
        boundaries.set_initial(cut);
        const MilpResult result = TestType::solve(boundaries.model());
        REQUIRE(result.status == SolveStatus::optimal);
        const double best = result.objective * boundaries.scale(), ours = largest(cut, cost, pass);
        CHECK(best <= ours * (1 + 1e-9));
        const double tile_seconds =
            cost.pipeline_seconds(std::max<Tokens>(lengths[0] - tile, 0), lengths[0], pass);
        CHECK(ours <= best + tile_seconds);
        if (best < ours * (1 - 1e-6)) ++better;
      }
    }
    CHECK(better > 0);
  }
}

TEST_CASE("packs come back from the model's variables") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<Tokens> lengths = random_lengths(random, 100);
    const std::size_t packs = 1 + random() % 5;
    const CalibratedCost cost = cost_of(1);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const auto samples = stream(lengths, cost, pass, 10);
      Packs cut;
      cut_micropacks(std::span<const StreamSample>(samples), packs, cost, pass, {.tile = 100}, cut);
      const SliceBoundaryModel boundaries(samples, packs, cost, pass, {.tile = 100});
      const std::vector<double> values = boundaries.encode(cut);
      REQUIRE_FALSE(find_violation(boundaries.model(), values));
      CHECK(objective_value(boundaries.model(), values) * boundaries.scale() ==
            Approx(largest(cut, cost, pass)));
      const Packs back = boundaries.decode(values);
      CHECK(seconds_of(back, cost, pass).size() == cut.size());
      CHECK(largest(back, cost, pass) == Approx(largest(cut, cost, pass)));
      check_packs(back, lengths, pass, {.tile = 100});
    }
  }
}

TEST_CASE("slice boundaries refuse what makes no sense") {
  const CalibratedCost cost = cost_of(1);
  const std::vector<StreamSample> samples{{3, 300, 1.0}, {5, 100, 0.5}};
  const auto make = [&](std::size_t packs, Tokens tile) {
    return SliceBoundaryModel(samples, packs, cost, Pass::forward, {.tile = tile});
  };
  CHECK_THROWS_WITH(make(0, 100), Catch::Contains("0 packs"));
  CHECK_THROWS_WITH(make(2, 0), Catch::Contains("tile is 0"));
  CHECK_THROWS_WITH(SliceBoundaryModel({}, 2, cost, Pass::forward), Catch::Contains("0 samples"));
  const std::vector<StreamSample> none{{0, 0, 1.0}};
  CHECK_THROWS_WITH(SliceBoundaryModel(none, 2, cost, Pass::forward), Catch::Contains("sample 0 has 0"));
  SliceBoundaryModel model = make(2, 100);
  const auto packs = [](const std::vector<Slice>& first, const std::vector<Slice>& second) {
    Packs made;
    for (const Slice& slice : first) made.add(slice);
    made.close();
    for (const Slice& slice : second) made.add(slice);
    made.close();
    return made;
  };
  CHECK_THROWS_WITH(model.set_initial(packs({{3, 0, 300}}, {})), Catch::Contains("no pack holds"));
  CHECK_THROWS_WITH(model.set_initial(packs({{3, 0, 150}}, {{3, 150, 300}, {5, 0, 100}})),
                    Catch::Contains("expected boundaries of parts"));
  CHECK_THROWS_WITH(model.set_initial(packs({{3, 0, 300}}, {{3, 200, 300}, {5, 0, 100}})),
                    Catch::Contains("packs 0 and 1 hold the same tokens"));
  CHECK_THROWS_WITH(model.set_initial(packs({{4, 0, 300}}, {})), Catch::Contains("holds sample 4"));
  CHECK_THROWS_WITH(make(1, 100).encode(packs({}, {})), Catch::Contains("2 packs"));
  // Against the order: the solve says so.
  model.set_initial(packs({{3, 100, 300}, {5, 0, 100}}, {{3, 0, 100}}));
  CHECK(find_violation(model.model(), model.model().initial_solution()));
}
