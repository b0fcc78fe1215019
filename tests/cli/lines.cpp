#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "examples/slimpack/compact_numbers.hpp"
#include "examples/slimpack/line_reader.hpp"

using slimpack::command::CompactNumbers, slimpack::command::LineNumbers, slimpack::command::LineReader;

namespace {

using Lines = std::vector<std::pair<std::size_t, std::string>>;

Lines lines_of(const std::string& text) {
  std::istringstream in(text);
  Lines lines;
  for (LineReader reader(in); reader.next();) lines.emplace_back(reader.number(), reader.text());
  return lines;
}

/// The same by the standard library.
Lines plain_lines(const std::string& text) {
  std::istringstream in(text);
  Lines lines;
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
    lines.emplace_back(lines.size() + 1,
                       first == std::string::npos ? "" : line.substr(first, last - first + 1));
  }
  return lines;
}

}  // namespace

TEST_CASE("lines are read without the blanks at their ends") {
  CHECK(lines_of("").empty());
  CHECK(lines_of("\n") == Lines{{1, ""}});
  CHECK(lines_of(" 5 \r\n\n\t7 8\t") == Lines{{1, "5"}, {2, ""}, {3, "7 8"}});
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string text(random() % 200, ' ');
    for (char& c : text) c = std::string(" \t\r\n\n12x")[random() % 8];
    CAPTURE(round, text);
    REQUIRE(lines_of(text) == plain_lines(text));
  }
}

TEST_CASE("of long lines the beginning is read") {
  constexpr std::size_t most = LineReader::most;
  const std::string digits(most, '1'), blanks(300'000, ' ');
  CHECK(lines_of(digits) == Lines{{1, digits}});
  for (const std::string& more : {std::string("1"), std::string("1000"), blanks + "1"}) {
    const auto lines = lines_of("5\n" + digits + more + "\n6");
    REQUIRE(lines.size() == 3);
    CHECK(lines[1].second.size() > most);
    CHECK(lines[1].second.substr(0, most) == digits);
    CHECK(lines[2] == std::pair(std::size_t{3}, std::string("6")));
  }
  CHECK(lines_of(blanks + "5" + blanks + "\n" + blanks + "6") == Lines{{1, "5"}, {2, "6"}});
  CHECK(lines_of("5" + blanks + "6").front().second.size() > most);
}

TEST_CASE("compact numbers are those that were added, and take no more bytes than digits") {
  std::mt19937_64 random(5);
  CompactNumbers compact;
  std::vector<std::uint64_t> numbers{0, 127, 128, std::numeric_limits<std::uint64_t>::max()};
  while (numbers.size() < 1000) numbers.push_back(random() >> random() % 64);
  std::size_t digits = 0;
  for (const std::uint64_t number : numbers) {
    compact.add(number);
    digits += std::to_string(number).size();
  }
  CHECK(compact.end() <= digits);
  std::size_t at = 0;
  for (const std::uint64_t number : numbers) REQUIRE(compact.take(at) == number);
  CHECK(at == compact.end());
}

TEST_CASE("line numbers are those that were added") {
  std::mt19937 random(6);
  LineNumbers numbers;
  std::vector<std::size_t> expected;
  for (std::size_t line = 0; expected.size() < 1000; expected.push_back(line))
    numbers.add(line += 1 + (random() % 10 == 0 ? random() : random() % 3));
  for (int round = 0; round < 3000; ++round) {
    const std::size_t i = random() % expected.size();
    REQUIRE(numbers[i] == expected[i]);
  }
}
