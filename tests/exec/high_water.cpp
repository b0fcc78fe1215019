#include "slimpack/exec/high_water.hpp"

#include <catch2/catch.hpp>

using namespace slimpack;

TEST_CASE("a high-water mark stays when memory is given back") {
  HighWater bytes(100.0);
  bytes.take(60.0);
  bytes.give_back(50.0);
  bytes.take(20.0);
  CHECK(bytes.in_use() == 30.0);
  CHECK(bytes.peak() == 60.0);
  CHECK_THROWS_WITH(bytes.take(71.0, " of a test"),
                    "a stage of a test needs 101 bytes, but 100 bytes are there; expected 1 bytes more");
  CHECK(bytes.in_use() == 30.0);
}

TEST_CASE("too little memory is said in MiB, never less than what is missing") {
  constexpr double mib = 1024.0 * 1024.0;
  CHECK_NOTHROW(require_memory(mib, mib, "it"));
  CHECK_THROWS_WITH(require_memory(41.43 * mib, 40.06 * mib, "stage ", 3),
                    "stage 3 needs 41.5 MiB, but 40.0 MiB are there; expected 1.4 MiB more");
  CHECK_THROWS_WITH(require_memory(10.0 * mib + 1.0, 10.0 * mib, "it"),
                    "it needs 10.1 MiB, but 10.0 MiB are there; expected 1 bytes more");
  CHECK_THROWS_WITH(require_memory(1e30, 100.5, "it"),
                    Catch::StartsWith("it needs 1e+30 bytes, but 100 bytes are"));
}
