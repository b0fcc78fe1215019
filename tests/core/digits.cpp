#include "slimpack/core/digits.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

using slimpack::detail::all_digits;
using slimpack::detail::append_digits;

TEST_CASE("every number reads back as the same one, and is appended as it is") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t bits = random();
    const auto value = std::bit_cast<double>(bits);
    INFO("bits " << bits);
    if (!std::isfinite(value)) continue;
    CHECK(std::bit_cast<std::uint64_t>(std::strtod(all_digits(value).c_str(), nullptr)) == bits);
    CHECK(std::strtoull(all_digits(bits).c_str(), nullptr, 10) == bits);
    std::string text = "x";
    append_digits(text, value);
    CHECK(text == "x" + all_digits(value));
  }
  CHECK(all_digits(0.1) == "0.1");
  CHECK(all_digits(-0.0) == "-0");
  CHECK(all_digits(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
}
