#include "slimpack/partition/pack_pipeline.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/partition/pipeline_samples.hpp"

using namespace slimpack;

namespace {

/// Eq. 1's least objective, by all assignments of samples to packs.
double least_seconds(const test::PipelineSamples& c) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<double> load;
  std::vector<Tokens> held;
  const auto place = [&](const auto& self, std::size_t i) -> void {
    if (i == c.tokens.size()) {
      const double slowest = *std::max_element(load.begin(), load.end()) + c.pack_seconds;
      best = std::min(best, static_cast<double>(c.kind.stages - 1 + load.size()) * slowest);
      return;
    }
    for (std::size_t b = 0; b <= load.size(); ++b) {
      if (b == load.size()) {
        load.push_back(0.0);
        held.push_back(0);
      }
      if (held[b] + c.tokens[i] <= c.kind.max_tokens) {
        load[b] += c.seconds[i];
        held[b] += c.tokens[i];
        self(self, i + 1);
        load[b] -= c.seconds[i];
        held[b] -= c.tokens[i];
      }
      if (held[b] == 0) {
        load.pop_back();
        held.pop_back();
        break;
      }
    }
  };
  place(place, 0);
  return best;
}

/// Eq. 1's objective of a packing, checked against its rules.
double seconds_of(const test::PipelineSamples& c, const PipelinePacking& packing) {
  REQUIRE(packing.pack.size() == c.tokens.size());
  std::vector<double> load(packing.packs, 0.0);
  std::vector<Tokens> held(packing.packs, 0);
  for (std::size_t i = 0; i < c.tokens.size(); ++i) {
    REQUIRE(packing.pack[i] < packing.packs);
    load[packing.pack[i]] += c.seconds[i];
    held[packing.pack[i]] += c.tokens[i];
  }
  CHECK(*std::max_element(held.begin(), held.end()) <= c.kind.max_tokens);
  return static_cast<double>(c.kind.stages - 1 + packing.packs) *
         (*std::max_element(load.begin(), load.end()) + c.pack_seconds);
}

}  // namespace

TEST_CASE("packings of a pipeline are the best of all, and no better than their bound") {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    const test::PipelineSamples c = test::random_pipeline_samples(seed, 8);
    const PipelinePacking packing = pack_pipeline(c.seconds, c.tokens, c.kind, c.pack_seconds, {.gap = 0.0});
    CHECK(seconds_of(c, packing) == Approx(packing.seconds));
    const double least = least_seconds(c);
    CHECK(packing.seconds == Approx(least));
    CHECK(packing.bound <= least * (1.0 + 1e-9));
  }
}

TEST_CASE("packings of many samples are within a tenth of their bound where memory is ample") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    test::PipelineSamples c = test::random_pipeline_samples(seed, 300);
    c.kind.max_tokens += 2000;
    const PipelinePacking packing = pack_pipeline(c.seconds, c.tokens, c.kind, c.pack_seconds);
    CHECK(seconds_of(c, packing) == Approx(packing.seconds));
    CHECK(packing.gap() <= 0.1);
  }
}

TEST_CASE("short packs are not made where longer ones are useful") {
  const std::vector<double> seconds(20, 1.0);
  const std::vector<Tokens> tokens(20, 10);
  const PipelineKind kind{.max_tokens = 200, .stages = 8};
  CHECK(pack_pipeline(seconds, tokens, kind).packs == 20);
  CHECK(pack_pipeline(seconds, tokens, kind, 0.0, {.useful_tokens = 40}).packs <= 5);
}

TEST_CASE("a pipeline's samples are refused where none of its packs holds them") {
  const std::vector<double> seconds{1.0, 2.0};
  const std::vector<Tokens> tokens{10, 20};
  CHECK(pack_pipeline({}, {}, {.max_tokens = 5}).packs == 0);
  CHECK_THROWS_WITH(pack_pipeline(seconds, tokens, {.max_tokens = 15}),
                    Catch::Contains("sample 1 has 20 tokens; expected at most the 15"));
  CHECK_THROWS_WITH(pack_pipeline(seconds, {}, {.max_tokens = 15}),
                    Catch::Contains("2 seconds of 0 samples"));
}
