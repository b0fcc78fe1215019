#include "slimpack/core/parallel.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "slimpack/core/error.hpp"

using namespace slimpack;

TEST_CASE("every index is worked on once, on any number of threads", "[threads]") {
  for (const std::size_t threads : {1u, 2u, 3u, 8u}) {
    for (const std::size_t count : {0u, 1u, 2u, 7u, 100u}) {
      std::vector<int> done(count, 0);
      for_each_index(count, threads, [&](std::size_t i) { done[i] += static_cast<int>(i) + 1; });
      for (std::size_t i = 0; i < count; ++i) CHECK(done[i] == static_cast<int>(i) + 1);
    }
  }
}

TEST_CASE("of several failures the lowest index's is reported", "[threads]") {
  for (int round = 0; round < 20; ++round) {
    const auto work = [](std::size_t i) { require(i < 5 || i % 2 == 0, "index ", i); };
    CHECK_THROWS_WITH(for_each_index(50, 4, work), "index 5");
  }
}
