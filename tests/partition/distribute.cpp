#include "slimpack/partition/distribute.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <vector>

#include "slimpack/cost/concepts.hpp"

using namespace slimpack;

namespace {

/// A pass over a token takes `near` seconds on each member of a group, beyond `far_from` tokens `far`
/// seconds; a slice takes `slice` seconds more.
struct Rates {
  double near = 1.0, far = 1.0, slice = 0.0;
};

struct SteppedCost {
  std::vector<Rates> by_group;  ///< of groups of 1, 2, … pipelines
  Tokens far_from = 0;
  std::size_t group = 1;

  std::size_t stages() const { return 1; }
  double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass) const {
    const auto [near, far, slice] = by_group[group - 1];
    const Tokens edge = std::clamp(far_from, begin, end);
    return slice + static_cast<double>(edge - begin) * near + static_cast<double>(end - edge) * far;
  }
  double pack_seconds(std::size_t, Pass) const { return 1e-3; }
  double transfer_seconds(std::size_t, Tokens, Pass) const { return 0.0; }
  bool supports_context_parallel(std::int32_t members) const {
    return static_cast<std::size_t>(members) <= by_group.size();
  }
  SteppedCost with_context_parallel(std::int32_t members) const {
    return {by_group, far_from, static_cast<std::size_t>(members)};
  }
};
static_assert(MergeableCostModel<SteppedCost>);

std::vector<SampleGroup> distribute(const std::vector<Tokens>& lengths, const SteppedCost& cost,
                                    std::size_t pipelines, GroupSizes sizes, double most_tokens) {
  GroupPrices prices{Prices(cost)};
  Distributor distributor(lengths, prices, pipelines, {.group_sizes = sizes, .memory_tokens = 100.0});
  const std::vector<SampleGroup> groups = distributor({.most_tokens = most_tokens});
  std::size_t covered = 0;
  std::vector<SampleId> placed;
  for (const SampleGroup& group : groups) {
    CHECK(group.first == covered);
    covered += group.size();
    placed.insert(placed.end(), group.merged.begin(), group.merged.end());
    for (const auto& samples : group.local) placed.insert(placed.end(), samples.begin(), samples.end());
  }
  CHECK(covered == pipelines);
  std::sort(placed.begin(), placed.end());
  std::vector<SampleId> all(lengths.size());
  std::iota(all.begin(), all.end(), SampleId{0});
  CHECK(placed == all);
  return groups;
}

}  // namespace

TEST_CASE("a sample longer than members should hold gets the largest group that is allowed") {
  SteppedCost cost;
  for (const double members : {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0})
    cost.by_group.push_back({1.0 / members, 1.0 / members});
  for (const std::size_t pipelines : {1u, 2u, 3u, 5u, 6u, 7u}) {
    INFO(pipelines << " pipelines");
    const auto any = distribute({90, 7, 6, 5, 4, 3, 2}, cost, pipelines, GroupSizes::any, 1.0);
    CHECK(any.front().size() == pipelines);
    const auto powers = distribute({90, 7, 6, 5, 4, 3, 2}, cost, pipelines, GroupSizes::powers_of_two, 1.0);
    CHECK(powers.front().size() == (pipelines < 2 ? 1 : pipelines < 4 ? 2 : 4));
  }
}

TEST_CASE("a sample that would rather have a larger group shares the one that is there") {
  // With time to spare, 200 tokens take less in total on two pipelines, and 150 tokens on three: five in all.
  const SteppedCost cost{.by_group = {{1.0, 1.0}, {0.6, 0.5}, {0.35, 0.6}}, .far_from = 150};
  const auto groups =
      distribute({200, 150}, cost, 3, GroupSizes::any, std::numeric_limits<double>::infinity());
  CHECK(groups.front().size() == 2);
  CHECK(groups.front().merged == std::vector<SampleId>{0, 1});
}

TEST_CASE("merged samples are priced in slices of the packs that are expected") {
  // Uncut, the long sample takes less in total on two pipelines than on three; but there every slice costs.
  const SteppedCost cost{.by_group = {{1.0, 1.0}, {0.5, 0.5, 0.5}, {0.4, 0.4}}};
  const std::vector<Tokens> lengths{150, 60, 60, 60};
  GroupPrices prices{Prices(cost)};
  Distributor distributor(lengths, prices, 4, {.memory_tokens = 100.0});
  for (const auto& [packs, members] : std::vector<std::pair<std::size_t, std::size_t>>{{2, 2}, {40, 3}}) {
    INFO("packs " << packs);
    distributor.expect_packs(packs);
    CHECK(distributor({}).front().size() == members);
  }
}

TEST_CASE("a sample far above the mean work is priced in as many slices as its pipelines have packs") {
  const double slice = 3.0;
  const SteppedCost cost{{{}, {.near = 0.5, .far = 0.5, .slice = slice}}};
  std::vector<Tokens> lengths(16, 100);
  lengths.front() = 6400;
  GroupPrices prices{Prices(cost)};
  Distributor distributor(lengths, prices, 16, {.memory_tokens = 4000.0});
  for (const std::size_t packs : {1u, 4u, 12u}) {
    INFO(packs << " packs");
    distributor.expect_packs(packs);
    const std::vector<SampleGroup> groups = distributor({});
    REQUIRE(groups.front().merged == std::vector<SampleId>{0});
    const double slices = DistributorOptions{}.slices_per_pack * static_cast<double>(packs);
    CHECK(distributor.loads(groups).front() <= 6400.0 + 2.0 * slice * (slices + 1.0));
  }
}

TEST_CASE("without merging to save time, only what memory can't hold is merged") {
  SteppedCost cost;
  for (const double members : {1.0, 2.0, 3.0, 4.0}) cost.by_group.push_back({1.0 / members, 1.0 / members});
  GroupPrices prices{Prices(cost)};
  const std::vector<Tokens> lengths{250, 90, 5, 5};
  Distributor distributor(lengths, prices, 4, {.memory_tokens = 100.0});
  const auto groups = distributor({.merge = false});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].size() == 3);
  CHECK(groups[0].merged == std::vector<SampleId>{0});
  CHECK(groups[1].merged.empty());
  distributor.require_memory();
  const std::vector<Tokens> longer{500, 90};
  Distributor hopeless(longer, prices, 4, {.memory_tokens = 100.0});
  CHECK_THROWS_WITH(hopeless.require_memory(),
                    Catch::Contains("sample 0 has 500 tokens") && Catch::Contains("on 4 merged pipelines"));
  CHECK(hopeless({}).empty());
}

TEST_CASE("loads are those of the samples, and overhead is made up for") {
  const SteppedCost cost{.by_group = {{1.0, 1.0}}};
  GroupPrices prices{Prices(cost)};
  const std::vector<Tokens> lengths(40, 10);
  Distributor distributor(lengths, prices, 4, {});
  CHECK(distributor.mean_seconds() == Approx(200.0));
  for (const double seconds : distributor.loads(distributor({}))) CHECK(seconds == Approx(200.0));
  const auto shifted = distributor.loads(distributor({.overhead = {80.0, 0.0, 0.0, 0.0}}));
  CHECK(shifted == std::vector<double>{140.0, 220.0, 220.0, 220.0});
}
