#include "slimpack/schedule/cluster_orders.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
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

/// Whole samples, each a pack of one of some pipelines, scheduled in their order.
struct PackedPipelines {
  std::vector<Tokens> lengths;
  PricedModels models;
  Scheduler scheduler;
  std::vector<Schedule> schedules;

  static Job job(unsigned seed) {
    return {.model = transformer_preset("llama-7b"),
            .device = device_preset("a800"),
            .layout = {.dp = 1, .tp = 4, .cp = 1, .pp = seed % 2 == 0 ? 2 : 4}};
  }
  static std::vector<Tokens> random_lengths(std::mt19937& random) {
    std::vector<Tokens> lengths(6 + random() % 8);
    for (Tokens& length : lengths) length = 1 + static_cast<Tokens>(random() % 6000);
    return lengths;
  }

  PackedPipelines(unsigned seed, std::mt19937& random, std::size_t pipelines)
      : lengths(random_lengths(random)),
        models(price_models(job(seed), CalibratedCost(job(seed)), TransformerMemory(job(seed)),
                            assumed_attention(job(seed)))),
        scheduler(lengths, models.prices, models.memory),
        schedules(pipelines) {
    std::vector<Packs> packs(pipelines);
    for (SampleId i = 0; i < lengths.size(); ++i) {
      Packs& own = packs[random() % pipelines];
      own.add({i, 0, lengths[i]});
      own.close();
    }
    for (std::size_t p = 0; p < pipelines; ++p) {
      schedules[p].pipelines = 1;
      schedules[p].forward = schedules[p].backward = in_rows(std::move(packs[p]));
      scheduler(schedules[p]);
    }
  }

  /// The least seconds of a pipeline's packs in their order and in all that are tried, each scheduled from the start.
  double least_seconds(const Schedule& given, std::size_t clusters) {
    const std::vector<double> durations = pack_durations(given);
    std::vector<std::vector<std::uint32_t>> orders = cluster_orders(durations, clusters);
    for (const auto& order : pack_orders(durations)) orders.push_back(order);
    double least = given.seconds;
    for (const std::vector<std::uint32_t>& order : orders) {
      Packs packs;
      for (const std::uint32_t k : order) packs.repeat_row(1, given.forward.packs[k]);
      for (const PassOrder passes : {PassOrder::packflow, PassOrder::eager}) {
        Schedule own;
        own.pipelines = 1;
        own.forward = own.backward = in_rows(packs);
        scheduler(own, {.order = passes});
        least = std::min(least, own.seconds);
      }
    }
    return least;
  }
};

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
      for (std::size_t i = 1; i < order.size(); ++i) {
        const bool next = cluster_of[order[i]] != cluster_of[order[i - 1]];
        runs += next ? 1 : 0;
        if (!next) CHECK(durations[order[i]] <= durations[order[i - 1]]);
      }
      CHECK(runs == made);
    }
    std::sort(orders.begin(), orders.end());
    CHECK(std::adjacent_find(orders.begin(), orders.end()) == orders.end());
  }
}

TEST_CASE("pipelines that are shortened by orders of clusters end when the best of their orders do") {
  int shorter = 0, later = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    PackedPipelines c(seed, random, 1 + random() % 3);
    const std::size_t clusters = 1 + random() % 3;
    double before = 0.0, exact = 0.0;
    std::size_t slowest = 0;
    for (std::size_t p = 0; p < c.schedules.size(); ++p) {
      REQUIRE(c.schedules[p].fits());
      if (c.schedules[p].seconds > before) slowest = p;
      before = std::max(before, c.schedules[p].seconds);
      exact = std::max(exact, c.least_seconds(c.schedules[p], clusters));
    }
    const double of_slowest = c.least_seconds(c.schedules[slowest], clusters);
    std::vector<Schedule> given = c.schedules, doomed = given;
    const double seconds = shorten_slowest_by_cluster_orders(
        given, clusters, std::numeric_limits<double>::infinity(), c.scheduler);
    CHECK(seconds == Approx(exact).epsilon(1e-9));
    double last = 0.0;
    for (std::size_t p = 0; p < given.size(); ++p) {
      CHECK(given[p].seconds <= c.schedules[p].seconds);
      last = std::max(last, given[p].seconds);
    }
    CHECK(seconds == last);
    shorter += seconds < before * (1.0 - 1e-9) ? 1 : 0;
    // Where the slowest alone takes too long, the others stay as they are.
    (void)shorten_slowest_by_cluster_orders(doomed, clusters, of_slowest * (1.0 - 1e-6), c.scheduler);
    for (std::size_t p = 0; p < doomed.size(); ++p) {
      const double expected = p == slowest ? of_slowest : c.schedules[p].seconds;
      CHECK(doomed[p].seconds == Approx(expected).epsilon(1e-9));
      later += p != slowest && given[p].seconds < doomed[p].seconds * (1.0 - 1e-9) ? 1 : 0;
    }
  }
  CHECK(shorter > 50);
  CHECK(later > 3);
}
