#include "slimpack/core/visible.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>

using namespace slimpack;

TEST_CASE("foreign texts are quoted as they are, control characters by their names") {
  CHECK(visible("") == "");
  CHECK(visible("plain 'text' \\ \"quoted\"") == "plain 'text' \\ \"quoted\"");
  CHECK(visible("a\nb\tc\rd\x1b[0m\x7f") == "a\\nb\\tc\\rd\\x1b[0m\\x7f");
  CHECK(visible(std::string("5\0x", 3)) == "5\\x00x");
  CHECK(visible("d\xc3\xa9lai \xe2\x82\xac \xf0\x9f\x98\x80") ==
        "d\xc3\xa9lai \xe2\x82\xac \xf0\x9f\x98\x80");
  // A control character of two bytes, forms that are too long, a surrogate, above U+10FFFF, cut off.
  CHECK(visible("\xc2\x9b") == "\\xc2\\x9b");
  CHECK(visible("\xc0\xaf") == "\\xc0\\xaf");
  CHECK(visible("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");
  CHECK(visible("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(visible("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
  CHECK(visible("a\xe2\x82") == "a\\xe2\\x82");
}

TEST_CASE("of longer texts the beginning is quoted") {
  CHECK(visible(std::string(80, 'a')) == std::string(80, 'a'));
  CHECK(visible(std::string(81, 'a')) == std::string(77, 'a') + "...");
  CHECK(visible(std::string(81, '\n'), 9) == "\\n\\n\\n...");
  CHECK(visible("\xe2\x82\xac\xe2\x82\xac", 5) == "...");
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 100, ' ');
    for (char& c : text) c = static_cast<char>(random() % 256);
    const std::size_t most = 3 + random() % 80;
    const std::string shown = visible(text, most);
    CAPTURE(round);
    CHECK(shown.size() <= most);
    CHECK(visible(shown, 1000) == shown);
  }
}
