#include "slimpack/partition/micro_batch_splits.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/model/presets.hpp"

using namespace slimpack;

namespace {

struct SplitCase {
  std::vector<Tokens> lengths;
  std::vector<Tokens> limits;
  std::size_t stages = 1, replicas = 1;
  Prices prices;

  /// Of a micro-batch on each stage.
  [[nodiscard]] double seconds(const std::vector<Tokens>& samples) const {
    double sum = prices.pack_seconds(0, Pass::forward) + prices.pack_seconds(0, Pass::backward);
    for (const Tokens length : samples) sum += document_seconds(prices, length) / static_cast<double>(stages);
    return sum;
  }
  /// DynaPipe's objective, with the replica that has the most work.
  [[nodiscard]] double objective(const std::vector<double>& micro_batches) const {
    const auto n = static_cast<double>(replicas);
    double most = 0.0, sum = 0.0;
    for (const double own : micro_batches) most = std::max(most, own), sum += own;
    return (static_cast<double>(stages) - 1.0 + (n - 1.0) / n) * most + sum / n;
  }
  /// The least objective of all splits of the sorted samples within a limit.
  [[nodiscard]] double least_objective(Tokens limit) const {
    std::vector<Tokens> sorted = lengths;
    std::sort(sorted.rbegin(), sorted.rend());
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t cuts = 0; cuts < std::size_t{1} << (sorted.size() - 1); ++cuts) {
      std::vector<double> all;
      std::vector<Tokens> own;
      Tokens tokens = 0;
      bool fits = true;
      for (std::size_t i = 0; i < sorted.size(); ++i) {
        own.push_back(sorted[i]);
        tokens += sorted[i];
        if (i + 1 < sorted.size() && (cuts >> i & 1) == 0) continue;
        fits = fits && (own.size() == 1 || tokens <= limit);
        all.push_back(seconds(own));
        own.clear();
        tokens = 0;
      }
      if (fits) least = std::min(least, objective(all));
    }
    return least;
  }
};

SplitCase random_split_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  const Job job{.model = transformer_preset("llama-7b"),
                .device = device_preset("h100"),
                .layout = {.dp = 1, .tp = 4, .cp = 1, .pp = 1 << pick(0, 3)}};
  SplitCase c{.lengths = {},
              .limits = {},
              .stages = static_cast<std::size_t>(job.layout.pp),
              .replicas = 1 + random() % 4,
              .prices = Prices(CalibratedCost(job), 1)};
  const int samples = pick(1, 9), longest = pick(0, 1) == 0 ? 500 : 20000;
  for (int i = 0; i < samples; ++i) c.lengths.push_back(pick(1, longest));
  for (Tokens limit = pick(1, longest); c.limits.size() < 3; limit *= 3) c.limits.push_back(limit);
  return c;
}

}  // namespace

TEST_CASE("splits into micro-batches have all samples by length, differ, and state what each takes") {
  std::size_t several = 0, packed = 0;
  for (unsigned seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    const SplitCase c = random_split_case(seed);
    std::vector<Tokens> sorted = c.lengths;
    std::sort(sorted.rbegin(), sorted.rend());
    std::set<std::vector<std::size_t>> sizes;
    const auto splits = micro_batch_splits(c.lengths, c.prices, c.limits, c.replicas);
    for (const MicroBatchSplit& split : splits) {
      REQUIRE(split.seconds.size() == split.packs.size());
      std::vector<Tokens> lengths;
      std::vector<SampleId> ids;
      std::vector<std::size_t> own_sizes;
      for (std::size_t k = 0; k < split.packs.size(); ++k) {
        std::vector<Tokens> own;
        for (const Slice& slice : split.packs[k]) {
          CHECK(slice.begin == 0);
          CHECK(slice.end == c.lengths[slice.sample]);
          own.push_back(slice.size());
          ids.push_back(slice.sample);
        }
        CHECK(split.seconds[k] == Approx(c.seconds(own)).epsilon(1e-9));
        CHECK((own.size() == 1 || count_tokens(split.packs[k]) <= c.limits.back()));
        packed += own.size() > 1 ? 1 : 0;
        own_sizes.push_back(own.size());
        lengths.insert(lengths.end(), own.begin(), own.end());
      }
      CHECK(lengths == sorted);
      std::sort(ids.begin(), ids.end());
      CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
      CHECK(sizes.insert(own_sizes).second);
    }
    several += splits.size() > 1 ? 1 : 0;
  }
  CHECK(several > 100);
  CHECK(packed > 300);
}

TEST_CASE("for each limit of tokens some split has about the least objective of all") {
  int matters = 0;
  for (unsigned seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    const SplitCase c = random_split_case(seed);
    const double last = c.least_objective(c.limits.back());
    for (const Tokens limit : c.limits) {
      const double least = c.least_objective(limit);
      double found = std::numeric_limits<double>::infinity();
      for (const MicroBatchSplit& split : micro_batch_splits(c.lengths, c.prices, {&limit, 1}, c.replicas))
        found = std::min(found, c.objective(split.seconds));
      CHECK(found >= least * (1.0 - 1e-9));
      CHECK(found <= least * (1.0 + 1e-9) / (1.0 - 3e-3));
      matters += least > last * 1.01 ? 1 : 0;
    }
  }
  CHECK(matters > 20);
}
