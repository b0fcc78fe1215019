#include "slimpack/strategy/layouts.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <tuple>

#include "tests/planners/github.hpp"

using namespace slimpack;

namespace {

auto as_tuple(const Layout& l) { return std::tuple(l.tp, l.cp, l.pp, l.dp); }

/// The rules, tried on every combination of sizes.
std::vector<Layout> all_that_follow_the_rules(const Transformer& model, const Device& device,
                                              const LayoutSpace& space) {
  std::vector<Layout> all;
  const auto n = static_cast<std::int32_t>(space.devices);
  const auto given = [](std::int32_t wanted, std::int32_t size) { return wanted == 0 || wanted == size; };
  for (std::int32_t tp = 1; tp <= n; ++tp) {
    for (std::int32_t cp = 1; cp * tp <= n; ++cp) {
      for (std::int32_t pp = 1; pp * cp * tp <= n; ++pp) {
        const std::int32_t dp = n / (tp * cp * pp);
        const bool within =
            device.devices_per_node % tp == 0 || space.tp_across_nodes || space.given.tp == tp;
        if (dp * tp * cp * pp == n && pp <= model.layers && model.heads % tp == 0 && within &&
            given(space.given.dp, dp) && given(space.given.tp, tp) && given(space.given.cp, cp) &&
            given(space.given.pp, pp))
          all.push_back({dp, tp, cp, pp});
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("layouts are all that follow the rules, once each, in order") {
  std::mt19937 random(1);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  int empty = 0, given = 0;
  for (int round = 0; round < 300; ++round) {
    Job job = oracle::llama_13b(1, 1);
    job.model.layers = pick(1, 40);
    job.model.heads = pick(1, 12);
    job.model.kv_heads = 1;
    job.device.devices_per_node = pick(1, 9);
    LayoutSpace space{.devices = pick(1, 96), .tp_across_nodes = pick(0, 1) == 1};
    for (std::int32_t* size : {&space.given.dp, &space.given.tp, &space.given.cp, &space.given.pp})
      *size = pick(0, 3) == 0 ? pick(1, 4) : 0;
    INFO("round " << round << ": " << space.devices << " devices");
    const std::vector<Layout> expected = all_that_follow_the_rules(job.model, job.device, space);
    if (expected.empty()) {
      ++empty;
      CHECK_THROWS_AS(layouts(job.model, job.device, space), InvalidInput);
      continue;
    }
    const std::vector<Layout> found = layouts(job.model, job.device, space);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(as_tuple(found[i]) == as_tuple(expected[i]));
      job.layout = found[i];
      CHECK_NOTHROW(validate(job));
    }
    given += space.given.dp + space.given.tp + space.given.cp + space.given.pp > 0 ? 1 : 0;
  }
  CHECK(empty > 20);
  CHECK(given > 20);
}

TEST_CASE("stages may hold unequal numbers of layers") {
  const Job job = oracle::llama_13b(1, 1);  // 40 layers
  const auto found =
      layouts(job.model, job.device, {.devices = 16, .given = {.dp = 0, .tp = 0, .cp = 0, .pp = 16}});
  REQUIRE(found.size() == 1);
  CHECK(split_layers(job.model.layers, found[0].pp).front() == 3);
  CHECK(split_layers(job.model.layers, found[0].pp).back() == 2);
}

TEST_CASE("a space without layouts is refused, with what was given and what would be accepted") {
  const Job job = oracle::llama_13b(1, 1);
  const auto space = [&](std::int64_t devices, Layout given) {
    return layouts(job.model, job.device, {.devices = devices, .given = given});
  };
  CHECK_THROWS_WITH(space(0, {0, 0, 0, 0}), Catch::Contains("the number of devices is 0; expected 1 to"));
  CHECK_THROWS_WITH(space(8, {0, 0, -1, 0}),
                    Catch::Contains("cp is -1; expected a positive number, or 0 for any"));
  CHECK_THROWS_WITH(space(8, {3, 0, 0, 2}), Catch::Contains("8 devices have no layout with dp 3, pp 2"));
  CHECK_THROWS_WITH(space(47, {1, 0, 1, 0}), Catch::Contains("pp to be at most the 40 layers"));
  CHECK_THROWS_WITH(space(16, {0, 16, 0, 0}), Catch::Contains("tp to divide the 40 heads"));
}
