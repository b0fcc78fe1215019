#include "slimpack/exec/settings.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

using namespace slimpack;

namespace {

/// What ranks with these settings are told; empty if they agree.
std::string answer(const std::vector<Settings>& by_rank) {
  try {
    require_same_settings(by_rank);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return {};
}

const Settings usual{setting("learning rate", 1e-3), {"data", "github"}, setting("sharding", true)};

Settings with(std::size_t i, const std::string& value) {
  Settings settings = usual;
  settings[i].value = value;
  return settings;
}

}  // namespace

TEST_CASE("ranks with the same settings agree") {
  CHECK(answer({usual}).empty());
  CHECK(answer({usual, usual, usual}).empty());
  CHECK(answer({{}, {}}).empty());
}

TEST_CASE("a setting that differs is named, with the rank and both values") {
  CHECK(answer({usual, with(0, "0.002"), usual}) ==
        "ranks do not agree on the learning rate: rank 1 has 0.002; expected 0.001 as on the other 2 of 3 "
        "ranks");
  CHECK(answer({usual, with(1, "books")}) ==
        "ranks do not agree on the data: rank 1 has books; expected github as on the other 1 of 2 ranks");
}

TEST_CASE("all settings that differ are named") {
  CHECK(
      answer({with(0, "0.5"), with(2, "no"), usual}) ==
      "ranks do not agree on the learning rate: rank 0 has 0.5; expected 0.001 as on the other 2 of 3 ranks; "
      "ranks do not agree on the sharding: rank 1 has no; expected yes as on the other 2 of 3 ranks");
}

TEST_CASE("a setting that a rank has not is named, wherever it stands") {
  const Settings less{usual[0], usual[2]};
  const std::string expected =
      "ranks do not agree on the data: rank 0 has nothing; expected github as on the other 1 of 2 ranks";
  CHECK(answer({less, usual}) == expected);
  const Settings turned{usual[2], usual[1], usual[0]};
  CHECK(answer({usual, turned}).empty());
}

TEST_CASE("settings travel as text and come back as they were") {
  for (const Settings& settings :
       {Settings{}, usual, Settings{{"empty", ""}, {"last", "x"}}, Settings{{"a", "b\nc"}, {"empty", ""}}}) {
    CHECK(settings_from(settings_text(settings)) == settings);
  }
}

TEST_CASE("settings that differ in anything have other hashes") {
  CHECK(settings_hash(usual) == settings_hash(Settings(usual)));
  for (std::size_t i = 0; i < usual.size(); ++i) CHECK(settings_hash(usual) != settings_hash(with(i, "x")));
  CHECK(settings_hash(Settings{{"a", "bc"}}) != settings_hash(Settings{{"ab", "c"}}));
}

TEST_CASE("numbers that differ in their last bit are different settings") {
  for (const double x : {1e-3, 0.1, 1.0, 1e300, 5e-324}) {
    const double next = std::nextafter(x, std::numeric_limits<double>::infinity());
    CHECK(setting("x", x).value != setting("x", next).value);
    CHECK(std::strtod(setting("x", next).value.c_str(), nullptr) == next);
  }
  CHECK(setting("x", std::numeric_limits<std::uint64_t>::max()).value == "18446744073709551615");
  CHECK(setting("x", 1e-3).value == "0.001");
}

TEST_CASE("ranks agree on settings through an exchange of texts") {
  std::vector<std::string> texts{settings_text(usual), settings_text(with(1, "books"))};
  CHECK_THROWS_WITH(agree_on_settings(usual,
                                      [&](const std::string& own) {
                                        CHECK(own == texts[0]);
                                        return texts;
                                      }),
                    Catch::StartsWith("ranks do not agree on the data: rank 1 has books"));
  CHECK_THROWS_WITH(agree_on_settings(usual,
                                      [](const std::string&) -> std::vector<std::string> {
                                        throw std::runtime_error("a peer is gone");
                                      }),
                    "a peer is gone");
}
