#include "slimpack/partition/sample_classes.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <random>
#include <set>
#include <vector>

using namespace slimpack;

TEST_CASE("classes hold each sample once, from the longest on, and none lies between two of a class") {
  std::size_t together = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<Tokens> lengths(1 + random() % (seed % 2 == 0 ? 140 : 1000));
    for (Tokens& length : lengths) length = 1 + static_cast<Tokens>(random() % (seed % 3 == 0 ? 20 : 100000));
    INFO("seed " << seed << ", " << lengths.size() << " samples");
    const SampleClasses classes(lengths);
    std::set<SampleId> seen;
    Tokens shortest = 100001;
    std::size_t least = lengths.size(), most = 0;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      REQUIRE_FALSE(classes.of(c).empty());
      CHECK(classes.longest()[c] == lengths[classes.of(c).front()]);
      CHECK(classes.count()[c] == static_cast<double>(classes.of(c).size()));
      for (const SampleId i : classes.of(c)) {
        CHECK(lengths[i] <= shortest);
        shortest = lengths[i];
        seen.insert(i);
      }
      if (c < 64) CHECK(classes.of(c).size() == 1);
      if (c < 64) continue;
      least = std::min(least, classes.of(c).size());
      most = std::max(most, classes.of(c).size());
    }
    CHECK(seen.size() == lengths.size());
    CHECK(classes.size() == std::min<std::size_t>(lengths.size(), 128));
    if (most > 0) CHECK(most <= least + 1);
    together += most > 1 ? 1 : 0;
  }
  CHECK(together > 50);
}
