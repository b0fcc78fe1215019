#include "slimpack/schedule/pack_orders.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/priced_models.hpp"
#include "slimpack/model/presets.hpp"

using namespace slimpack;

namespace {

std::vector<double> random_durations(std::mt19937& random, std::size_t most) {
  std::lognormal_distribution<double> draw(0.0, 0.8);
  std::vector<double> durations(random() % (most + 1));
  for (double& d : durations) d = random() % 4 == 0 ? 1.0 : draw(random);
  return durations;
}

/// Squared distances from the means of parts of a row.
double spread(const std::vector<double>& row, const std::vector<std::size_t>& ends) {
  double sum = 0.0;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    double mean = 0.0;
    for (std::size_t i = begin; i < end; ++i) mean += row[i] / static_cast<double>(end - begin);
    for (; begin < end; ++begin) sum += (row[begin] - mean) * (row[begin] - mean);
  }
  return sum;
}

/// The least spread of all ways to cut a row into so many parts.
double least_spread(const std::vector<double>& row, std::size_t parts) {
  if (parts == 0) return 0.0;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t cuts = 0; cuts < std::size_t{1} << (row.size() - 1); ++cuts) {
    std::vector<std::size_t> ends;
    for (std::size_t end = 1; end <= row.size(); ++end) {
      if (end == row.size() || (cuts >> (end - 1) & 1) == 1) ends.push_back(end);
    }
    if (ends.size() == parts) best = std::min(best, spread(row, ends));
  }
  return best;
}

}  // namespace

TEST_CASE("clusters of packs have the least spread of all") {
  int several = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<double> durations = random_durations(random, 9);
    const std::size_t clusters = 1 + random() % 4;
    const PackClusters found = cluster_packs(durations, clusters);
    std::vector<double> row;
    for (const std::uint32_t k : found.falling) row.push_back(durations[k]);
    CHECK(std::is_sorted(row.rbegin(), row.rend()));
    REQUIRE(found.ends.size() == std::min(clusters, durations.size()));
    if (found.ends.empty()) continue;
    CHECK(found.ends.back() == durations.size());
    CHECK(spread(row, found.ends) == Approx(least_spread(row, found.ends.size())).margin(1e-9));
    several += found.ends.size() > 1 ? 1 : 0;
  }
  CHECK(several > 100);
}

TEST_CASE("orders of clusters are all different, and each has all packs, those of a cluster together") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<double> durations = random_durations(random, 12);
    const std::size_t clusters = 1 + random() % 4;
    auto orders = cluster_orders(durations, clusters);
    const std::size_t made = std::min(clusters, durations.size());
    CHECK(static_cast<double>(orders.size()) == std::tgamma(static_cast<double>(made) + 1.0));
    CHECK(orders.front() == falling_packs(durations));
    const PackClusters found = cluster_packs(durations, clusters);
    std::vector<std::size_t> cluster_of(durations.size());
    for (std::size_t c = 0, i = 0; c < found.ends.size(); ++c) {
      for (; i < found.ends[c]; ++i) cluster_of[found.falling[i]] = c;
    }
    for (const std::vector<std::uint32_t>& order : orders) {
      std::vector<std::uint32_t> all = order;
      std::sort(all.begin(), all.end());
      std::vector<std::uint32_t> expected(durations.size());
      std::iota(expected.begin(), expected.end(), std::uint32_t{0});
      CHECK(all == expected);
      std::size_t runs = order.empty() ? 0 : 1;
      for (std::size_t i = 1; i < order.size(); ++i)
        runs += cluster_of[order[i]] != cluster_of[order[i - 1]] ? 1 : 0;
      CHECK(runs == made);
    }
    std::sort(orders.begin(), orders.end());
    CHECK(std::adjacent_find(orders.begin(), orders.end()) == orders.end());
  }
}

TEST_CASE("packs in another order have the prices that they would be given in that order") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const Job job{.model = transformer_preset("llama-7b"),
                  .device = device_preset("a800"),
                  .layout = {.dp = 1, .tp = 2, .cp = seed % 2 == 0 ? 2 : 1, .pp = 4}};
    std::vector<Tokens> lengths;
    for (std::size_t i = 0; i < 12; ++i)
      lengths.push_back(1 + static_cast<Tokens>(random() % (seed % 3 == 0 ? 40000 : 6000)));
    PricedModels models =
        price_models(job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job));
    Scheduler scheduler(lengths, models.prices, models.memory);
    Packs packs;
    for (SampleId i = 0; i < lengths.size(); ++i) {
      packs.add({i, 0, lengths[i]});
      if (random() % 2 == 0 || i + 1 == lengths.size()) packs.close();
    }
    Schedule given;
    given.pipelines = 1;
    given.forward = given.backward = in_rows(std::move(packs));
    scheduler(given, {.fit = FitPolicy::recompute, .each_pack = true});
    if (!given.fits()) continue;
    if (given.recompute.any()) scheduler.price_as_shared(given);
    std::vector<std::uint32_t> order(given.forward.packs.size());
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    const Schedule other = reordered(given, order);
    Schedule priced = other;
    scheduler.price_as_shared(priced);
    CHECK(other.forward_times.seconds == priced.forward_times.seconds);
    CHECK(other.forward_times.transfer == priced.forward_times.transfer);
    CHECK(other.backward_times.seconds == priced.backward_times.seconds);
    CHECK(other.backward_times.transfer == priced.backward_times.transfer);
  }
}
