#include "slimpack/slicing/micropack.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/schedule/task.hpp"
#include "tests/slicing/streams.hpp"

using namespace slimpack;

namespace {

using test::cost_of, test::cut_micropacks, test::stream;

/// Every token once, in token order forward and in reverse backward, aligned, and none of the packs empty.
void check_cut(const Packs& packs, const std::vector<Tokens>& lengths, Pass pass, Tokens tile) {
  std::vector<Tokens> taken(lengths.size(), 0);
  for (std::size_t k = 0; k < packs.size(); ++k) {
    CHECK_FALSE(packs[k].empty());
    for (const Slice& slice : packs[k]) {
      REQUIRE(slice.begin < slice.end);
      const Tokens length = lengths[slice.sample];
      CHECK((pass == Pass::forward ? slice.begin == taken[slice.sample]
                                   : slice.end == length - taken[slice.sample]));
      taken[slice.sample] += slice.size();
      CHECK((slice.begin % tile == 0 && (slice.end % tile == 0 || slice.end == length)));
    }
  }
  CHECK(taken == lengths);
}

double max_over_mean(const Packs& packs, const CalibratedCost& cost, Pass pass) {
  double longest = 0.0, sum = 0.0;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    double seconds = 0.0;
    for (const Slice& slice : packs[k]) seconds += cost.pipeline_seconds(slice.begin, slice.end, pass);
    longest = std::max(longest, seconds);
    sum += seconds;
  }
  return longest * static_cast<double>(packs.size()) / sum;
}

/// A token takes a second, and every cut through a sample `waste` seconds.
struct DearCuts {
  double waste = 0.0;

  std::size_t stages() const { return 1; }
  double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass) const {
    return static_cast<double>(end - begin) + (begin > 0 ? waste : 0.0);
  }
  double pack_seconds(std::size_t, Pass) const { return 0.0; }
  double transfer_seconds(std::size_t, Tokens, Pass) const { return 0.0; }
};
static_assert(CostModel<DearCuts>);

/// Costs of slices by their size alone.
struct ShapedCost {
  enum Shape { steps, constant, nearly_flat, steep };
  Shape shape = steps;

  std::size_t stages() const { return 1; }
  double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass) const {
    const auto n = static_cast<double>(end - begin);
    switch (shape) {
      case steps:
        return std::ceil(n / 512.0);
      case constant:
        return 5.0 + 1e-3 * n;
      case nearly_flat:
        return 1.0 + 1e-15 * n;
      default:
        return std::pow(n, 1.7);
    }
  }
  double pack_seconds(std::size_t, Pass) const { return 0.0; }
  double transfer_seconds(std::size_t, Tokens, Pass) const { return 0.0; }
};
static_assert(CostModel<ShapedCost>);

/// Finds parts of some random samples, each guided by the one before, and looks for them at all boundaries.
template <CostModel M>
void check_parts(const M& cost, Pass pass, std::mt19937& random) {
  const auto pick = [&](Tokens lo, Tokens hi) {
    return std::uniform_int_distribution<Tokens>(lo, hi)(random);
  };
  const Tokens tile = pick(1, 300);
  const Prices prices(cost);
  const SlicePrices slices(prices, pass);
  SampleParts parts(slices, tile);
  for (int call = 0; call < 4; ++call) {
    const Tokens length = pick(1, 50000);
    BegunSample sample{.length = length};
    sample.taken = pass == Pass::forward
                       ? pick(0, (length - 1) / tile) * tile
                       : length - std::min(length, pick(1, (length + tile - 1) / tile) * tile);
    const auto seconds = [&](Tokens n) {
      const Slice slice = parts.slice(sample, n);
      return slices(slice.begin, slice.end);
    };
    sample.seconds = seconds(sample.rest());
    const double budget = sample.seconds * std::uniform_real_distribution<double>(0.0, 0.999)(random);
    std::vector<Tokens> boundaries{0};
    for (Tokens n = 1; n < sample.rest(); ++n) {
      const Tokens boundary = pass == Pass::forward ? sample.taken + n : sample.rest() - n;
      if (boundary % tile == 0) boundaries.push_back(n);
    }
    boundaries.push_back(sample.rest());
    std::size_t i = 0;
    while (seconds(boundaries[i + 1]) <= budget) ++i;
    const auto [low, high] = parts.around(sample, budget);
    // Within a rounding of the budget, either side of a boundary will do.
    if (std::abs(seconds(boundaries[i + 1]) - budget) > 1e-9 * budget &&
        budget - seconds(boundaries[i]) > 1e-9 * budget) {
      CHECK(low.tokens == boundaries[i]);
      CHECK(high.tokens == boundaries[i + 1]);
    }
    CHECK(low.seconds == Approx(low.tokens == 0 ? 0.0 : seconds(low.tokens)));
    CHECK(high.seconds == Approx(seconds(high.tokens)));
    for (const SamplePart& part : {low, high}) {
      if (part.tokens == 0) continue;
      const Slice all = parts.slice(sample, sample.rest()), own = parts.slice(sample, part.tokens);
      const Slice left = pass == Pass::forward ? Slice{0, own.end, all.end} : Slice{0, all.begin, own.begin};
      CHECK(parts.seconds_left(sample, part) ==
            Approx(slices(left.begin, left.end)).margin(1e-9 * sample.seconds));
    }
  }
}

/// Longest first: a heavy tail or equal lengths, and sometimes one that is longer than all others together.
std::vector<Tokens> random_lengths(std::mt19937& random) {
  std::lognormal_distribution<double> tail(6.0, 1.8);
  std::vector<Tokens> lengths(1 + random() % 60);
  const bool equal = random() % 4 == 0;
  for (Tokens& length : lengths) length = equal ? 777 : 1 + static_cast<Tokens>(tail(random));
  if (random() % 5 == 0) lengths.push_back(200000);
  std::sort(lengths.begin(), lengths.end(), std::greater<>{});
  return lengths;
}

/// Forward packs of random lengths, by the way they are cut.
class RandomCuts {
 public:
  explicit RandomCuts(unsigned seed)
      : random_(seed), lengths_(random_lengths(random_)), wanted_(1 + random_() % 50) {}

  [[nodiscard]] const std::vector<Tokens>& lengths() const { return lengths_; }

  [[nodiscard]] Packs cut(const MicroPackOptions& options) const {
    const CalibratedCost cost = cost_of(1);
    const auto samples = stream(lengths_, cost, Pass::forward);
    Packs packs;
    cut_micropacks(samples, wanted_, SlicePrices(Prices(cost), Pass::forward), options, packs);
    check_cut(packs, lengths_, Pass::forward, options.tile);
    CHECK(packs.size() <= wanted_);
    return packs;
  }

 private:
  std::mt19937 random_;
  std::vector<Tokens> lengths_;
  std::size_t wanted_;
};

}  // namespace

TEST_CASE("MicroPacks hold every token once, in order, at aligned boundaries") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    const std::vector<Tokens> lengths = random_lengths(random);
    const CalibratedCost cost = cost_of(pick(0, 2) == 0 ? 4 : 1);
    const Tokens tile = std::vector<Tokens>{1, 64, 128}[static_cast<std::size_t>(pick(0, 2))];
    const auto wanted = static_cast<std::size_t>(pick(1, 50));
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      Packs packs;
      const auto samples = stream(lengths, cost, pass);
      cut_micropacks(std::span<const StreamSample>(samples), wanted, SlicePrices(Prices(cost), pass),
                     {.tile = tile}, packs);
      CHECK(packs.size() <= wanted);
      check_cut(packs, lengths, pass, tile);
    }
  }
}

TEST_CASE("without chains, no pack ends one cut sample and begins another") {
  const auto cut_slices = [](std::span<const Slice> pack, const std::vector<Tokens>& lengths) {
    return std::count_if(pack.begin(), pack.end(),
                         [&](const Slice& slice) { return slice.size() < lengths[slice.sample]; });
  };
  std::ptrdiff_t most_chained = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    const RandomCuts random(seed);
    const Packs chained = random.cut({.tile = 64}), apart = random.cut({.tile = 64, .chained = false});
    for (std::size_t k = 0; k < apart.size(); ++k) CHECK(cut_slices(apart[k], random.lengths()) <= 1);
    for (std::size_t k = 0; k < chained.size(); ++k)
      most_chained = std::max(most_chained, cut_slices(chained[k], random.lengths()));
  }
  CHECK(most_chained == 2);
}

TEST_CASE("without fillers, packs take samples in their sequence") {
  std::size_t fillers = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    const RandomCuts random(seed);
    const auto falls = [&](bool fill) {
      const Packs packs = random.cut({.tile = 64, .fill = fill});
      std::size_t count = 0;
      SampleId latest = 0;
      for (std::size_t k = 0; k < packs.size(); ++k) {
        for (const Slice& slice : packs[k]) {
          count += slice.sample < latest ? 1 : 0;
          latest = slice.sample;
        }
      }
      return count;
    };
    CHECK(falls(false) == 0);
    fillers += falls(true);
  }
  CHECK(fillers > 100);
}

TEST_CASE("MicroPacks are equal within 2 % where a pack holds many tiles") {
  int cases = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::lognormal_distribution<double> tail(7.0, 1.5);
    std::vector<Tokens> lengths;
    for (int i = 0; i < 200; ++i)
      lengths.push_back(1 + std::min<Tokens>(100000, static_cast<Tokens>(tail(random))));
    std::sort(lengths.begin(), lengths.end(), std::greater<>{});
    const CalibratedCost cost = cost_of(1);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const auto samples = stream(lengths, cost, pass);
      double total = 0.0;
      for (const StreamSample& sample : samples) total += sample.seconds;
      const double tile = cost.pipeline_seconds(lengths[0] - 128, lengths[0], pass);
      const auto wanted = static_cast<std::size_t>(total / (60.0 * tile));
      if (wanted < 2) continue;
      ++cases;
      Packs packs;
      cut_micropacks(std::span<const StreamSample>(samples), wanted, SlicePrices(Prices(cost), pass), {},
                     packs);
      CHECK(packs.size() == wanted);
      CHECK(max_over_mean(packs, cost, pass) <= 1.02);
    }
  }
  CHECK(cases > 100);
}

TEST_CASE("the last pack is no larger than the others where slices cost more than their samples") {
  for (const std::int32_t cp : {3, 5, 11}) {
    for (const Tokens longest : {60000, 131072, 400000}) {
      const CalibratedCost cost = cost_of(cp);
      const std::vector<Tokens> lengths{longest, longest / 2, longest / 3, longest / 5};
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        INFO("cp " << cp << ", longest " << longest << ", pass " << pass_name(pass));
        const Prices prices(cost);
        const SlicePrices slices(prices, pass);
        REQUIRE_FALSE(slices.additive());
        const auto samples = stream(lengths, cost, pass);
        Packs packs;
        const double total = MicroPackCutter().cut({.samples = samples}, 24, slices, {}, packs);
        check_cut(packs, lengths, pass, 128);
        REQUIRE(packs.size() <= 24);
        const auto count = static_cast<double>(packs.size());
        double sum = 0.0, last = 0.0, tile = 0.0;
        for (std::size_t k = 0; k < packs.size(); ++k) {
          last = 0.0;
          for (const Slice& slice : packs[k]) {
            last += slices(slice.begin, slice.end);
            tile = std::max(tile, slices(slice.end - std::min<Tokens>(128, slice.size()), slice.end));
          }
          sum += last;
        }
        CHECK(total == Approx(sum));
        // What packs aim at drifts by MicroPackOptions::accuracy; the last one makes up for the cuts of the others.
        CHECK(last <= 1.15 * sum / count + tile);
        CHECK(max_over_mean(packs, cost, pass) <= 1.15 + count * tile / sum);
      }
    }
  }
}

TEST_CASE("a sample is not cut to fill a pack if that wastes more than the pack would lack") {
  const std::vector<Tokens> lengths{100, 100};
  for (const double waste : {1.0, 60.0}) {
    INFO("waste " << waste);
    const DearCuts cost{waste};
    std::vector<StreamSample> samples;
    for (SampleId i = 0; i < lengths.size(); ++i)
      samples.push_back({i, lengths[i], static_cast<double>(lengths[i])});
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      Packs packs;
      const double total = MicroPackCutter().cut({.samples = samples}, 3, SlicePrices(Prices(cost), pass),
                                                 {.tile = 10}, packs);
      check_cut(packs, lengths, pass, 10);
      REQUIRE(packs.size() == 3);
      // With dear cuts: the first sample in two parts, and the second one as a whole.
      CHECK(packs[1].size() == (waste < 10.0 ? 2 : 1));
      const Tokens last = packs[2].front().size();
      CHECK((waste < 10.0 ? last >= 60 && last <= 70 : last == 100));
      CHECK(total == Approx(200.0 + (waste < 10.0 ? 2.0 : 1.0) * waste));
    }
  }
}

TEST_CASE("parts around a budget are those that a search over all boundaries finds") {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    check_parts(cost_of(seed % 2 == 0 ? 1 : 3), seed % 3 == 0 ? Pass::forward : Pass::backward, random);
  }
}

TEST_CASE("parts are found for costs of any shape that don't fall") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    check_parts(ShapedCost{static_cast<ShapedCost::Shape>(seed % 4)},
                seed % 3 == 0 ? Pass::forward : Pass::backward, random);
  }
}

TEST_CASE("one long sample is cut as well as exact cuts at tiles allow") {
  const CalibratedCost cost = cost_of(1);
  for (const Tokens tiles : {7, 12, 20}) {
    const Tokens tile = 128;
    const std::vector<Tokens> lengths{tiles * tile};
    for (std::size_t wanted = 2; wanted <= 5; ++wanted) {
      const auto samples = stream(lengths, cost, Pass::forward);
      Packs packs;
      cut_micropacks(std::span<const StreamSample>(samples), wanted, SlicePrices(Prices(cost), Pass::forward),
                     {.tile = tile}, packs);
      // Least longest pack over all cuts, by dynamic programming over boundaries.
      const auto n = static_cast<std::size_t>(tiles);
      std::vector<double> best(n + 1, std::numeric_limits<double>::infinity());
      best[0] = 0.0;
      for (std::size_t k = 0; k < wanted; ++k) {
        std::vector<double> next(n + 1, std::numeric_limits<double>::infinity());
        for (std::size_t b = 1; b <= n; ++b) {
          for (std::size_t a = 0; a < b; ++a) {
            const double piece = cost.pipeline_seconds(static_cast<Tokens>(a) * tile,
                                                       static_cast<Tokens>(b) * tile, Pass::forward);
            next[b] = std::min(next[b], std::max(best[a], piece));
          }
        }
        best = next;
      }
      double longest = 0.0;
      for (const Slice& slice : packs.slices())
        longest = std::max(longest, cost.pipeline_seconds(slice.begin, slice.end, Pass::forward));
      const double last_tile = cost.pipeline_seconds((tiles - 1) * tile, tiles * tile, Pass::forward);
      CHECK(longest >= best[n] * (1 - 1e-12));
      CHECK(longest <= best[n] + last_tile);
    }
  }
}

TEST_CASE("single tokens as boundaries balance almost perfectly") {
  const CalibratedCost cost = cost_of(1);
  const std::vector<Tokens> lengths{262144};
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const auto samples = stream(lengths, cost, pass);
    Packs packs;
    cut_micropacks(std::span<const StreamSample>(samples), 16, SlicePrices(Prices(cost), pass),
                   {.tile = 1, .accuracy = 1e-3}, packs);
    CHECK(max_over_mean(packs, cost, pass) < 1.001);
  }
}

TEST_CASE("backward fillers come after their forward pass") {
  const CalibratedCost cost = cost_of(1);
  const std::vector<Tokens> lengths{50000, 30000, 900, 600, 500, 400, 300, 200, 128, 64, 3};
  const std::vector<std::uint32_t> order{0, 8, 9, 1, 2, 3, 4, 5, 6, 7, 10};
  const std::vector<std::uint32_t> ready{3, 5, 5, 6, 6, 6, 7, 7, 3, 4, 7};
  const auto samples = stream(lengths, cost, Pass::backward);
  Packs packs;
  MicroPackCutter().cut({.samples = samples, .order = order, .ready = ready}, 8,
                        SlicePrices(Prices(cost), Pass::backward), {}, packs);
  check_cut(packs, lengths, Pass::backward, 128);
  // The long sample at the head is available after forward pack 3; pack k may use what is ready by 3 + k.
  for (std::size_t k = 0; k < packs.size(); ++k) {
    std::uint32_t head = 0;
    for (const Slice& slice : packs[k]) {
      if (slice.sample <= 1) head = std::max(head, ready[slice.sample]);
    }
    for (const Slice& slice : packs[k]) CHECK(ready[slice.sample] <= std::max<std::size_t>(head, 3 + k));
  }
}

TEST_CASE("cutting refuses what it can't do") {
  const CalibratedCost cost = cost_of(1);
  const std::vector<StreamSample> samples{{0, 10, 1.0}};
  Packs packs;
  const std::span<const StreamSample> stream(samples);
  CHECK_THROWS_WITH(cut_micropacks(stream, 1, SlicePrices(Prices(cost), Pass::forward), {.tile = 0}, packs),
                    Catch::Contains("tile is 0"));
  CHECK_THROWS_WITH(cut_micropacks(stream, 0, SlicePrices(Prices(cost), Pass::forward), {}, packs),
                    Catch::Contains("0 packs"));
}
