#include "slimpack/partition/length_classes.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <random>
#include <set>
#include <vector>

using namespace slimpack;

TEST_CASE("parts of lengths end at halves, quarters … of the longest, and hold all samples by length") {
  int several = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::lognormal_distribution<double> draw(5.0, 1.5);
    std::vector<Tokens> lengths(1 + random() % 30);
    for (Tokens& length : lengths) length = 1 + static_cast<Tokens>(draw(random));
    const std::size_t thresholds = seed % 10 == 0 ? 100 : 1 + random() % 6;
    const detail::LengthClasses classes(lengths, thresholds);
    const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
    CHECK(classes.longest() == longest);
    // Where parts end: the samples up to each threshold, if there are any.
    std::set<std::size_t> ends;
    Tokens most = longest;
    for (std::size_t i = 0; i < thresholds; ++i, most /= 2) {
      const auto held = static_cast<std::size_t>(
          std::count_if(lengths.begin(), lengths.end(), [&](Tokens length) { return length <= most; }));
      if (held > 0) ends.insert(held);
    }
    REQUIRE(classes.parts() == ends.size());
    std::size_t begin = 0, part = 0;
    std::vector<int> seen(lengths.size(), 0);
    for (const std::size_t end : ends) {
      CHECK(classes.begin(part) == begin);
      CHECK(classes.end(part) == end);
      const std::vector<SampleId> ids = classes.samples(begin, end);
      CHECK(std::is_sorted(ids.begin(), ids.end()));
      std::vector<Tokens> own = classes.lengths_of(ids);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        ++seen[ids[i]];
        CHECK(own[i] == lengths[ids[i]]);
      }
      std::sort(own.begin(), own.end());
      for (std::size_t place = begin; place < end; ++place)
        CHECK(classes.length(place) == own[place - begin]);
      if (begin > 0) CHECK(classes.length(begin - 1) < own.front());
      begin = end;
      ++part;
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
    several += ends.size() > 2 ? 1 : 0;
  }
  CHECK(several > 100);
}
