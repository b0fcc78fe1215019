#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cuda/runtime.hpp"

using namespace slimpack;
using namespace slimpack::kernels::cuda;

TEST_CASE("an arena deals out pieces apart from each other, and says when it is short of memory") {
  std::vector<std::byte> memory(3 * arena_alignment + 10);
  Arena arena(memory, "stage 3");
  const auto a = arena.take<float>(1);
  const std::size_t mark = arena.used();
  const auto b = arena.take<std::uint16_t>(arena_alignment / 2);
  CHECK(reinterpret_cast<std::byte*>(a.data()) == memory.data());
  CHECK(reinterpret_cast<std::byte*>(b.data()) == memory.data() + arena_alignment);
  CHECK(b.size() == arena_alignment / 2);
  CHECK(arena.used() == 2 * arena_alignment);
  CHECK_THROWS_WITH(
      arena.take<std::byte>(arena_alignment + 1),
      "stage 3 asks its arena for 257 numbers of 1 bytes, but of 778 bytes 266 are left; expected "
      "an arena of the plan's peak");
  CHECK_THROWS_AS(arena.take<double>(std::numeric_limits<std::size_t>::max() / 4), InvalidInput);
  CHECK(arena.take<float>(0).empty());
  CHECK(arena.used() == 2 * arena_alignment);
  arena.rewind(mark);
  CHECK(arena.take<float>(1).data() == reinterpret_cast<float*>(memory.data() + arena_alignment));
  CHECK(arena.peak() == 2 * arena_alignment);
  CHECK_THROWS_AS(arena.rewind(3 * arena_alignment), InvalidInput);
  CHECK_THROWS_AS(Arena().take<float>(1), InvalidInput);
}
