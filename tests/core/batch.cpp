#include "slimpack/core/batch.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "slimpack/core/packs.hpp"
#include "slimpack/schedule/task.hpp"

using namespace slimpack;

TEST_CASE("samples above the context are refused, cut or split") {
  const std::vector<Tokens> lengths{5, 25, 10};
  CHECK_THROWS_WITH(apply_context(lengths, 10, LongSamples::error),
                    Catch::Contains("sample 1 has 25") && Catch::Contains("context of 10"));
  CHECK(apply_context(lengths, 10, LongSamples::truncate) == std::vector<Tokens>{5, 10, 10});
  CHECK(apply_context(lengths, 10, LongSamples::split) == std::vector<Tokens>{5, 10, 10, 5, 10});
  CHECK_THROWS_WITH(apply_context(lengths, 0, LongSamples::split), Catch::Contains("context is 0"));
  CHECK_THROWS_WITH(apply_context(std::vector<Tokens>{}, 10, LongSamples::split),
                    Catch::Contains("no samples"));
  CHECK_THROWS_WITH(apply_context(std::vector<Tokens>{4, -1}, 10, LongSamples::split),
                    Catch::Contains("sample 1 has -1"));
}

TEST_CASE("more samples than ids can count are refused before they are made") {
  const std::vector<Tokens> lengths{7, Tokens{1} << 40}, longest{std::numeric_limits<Tokens>::max()};
  CHECK_THROWS_WITH(apply_context(lengths, 16, LongSamples::split),
                    Catch::Contains("68719476737 samples up to number 1; expected at most 4294967295"));
  CHECK_THROWS_WITH(apply_context(longest, 1, LongSamples::split), Catch::Contains("9223372036854775807"));
  CHECK(count_pieces(lengths, Tokens{1} << 39) == 3);
  CHECK(count_pieces(longest, longest.front()) == 1);
}

TEST_CASE("packs are lists of slices") {
  Packs packs;
  packs.add({0, 0, 4});
  packs.add({1, 2, 9});
  packs.close();
  packs.close();
  packs.add({2, 0, 1});
  packs.close();
  REQUIRE(packs.size() == 3);
  CHECK(packs[0].size() == 2);
  CHECK(packs[1].empty());
  CHECK(count_tokens(packs[0]) == 11);
  packs.truncate(1);
  CHECK(packs.size() == 1);
  CHECK(packs.slices().size() == 2);
  packs.clear();
  CHECK(packs.empty());
}

TEST_CASE("tasks read and write as text") {
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::weight}) {
    for (const PackId pack : {0u, 12u, 4294967295u}) {
      CHECK(parse_task(to_string(Task{pass, pack})) == Task{pass, pack});
    }
  }
  for (const char* bad : {"", "F", "X1", "F-1", "F1x", "F 1", "F4294967296"}) {
    CHECK_THROWS_WITH(parse_task(bad), Catch::Contains("expected F, B or W"));
  }
}
