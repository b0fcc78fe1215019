#include "slimpack/planners/layout_search.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <thread>

using namespace slimpack;

namespace {

/// A layout's outcome, drawn at random; layouts are numbered by dp.
struct Drawn {
  double bound = 0.0, seconds = 0.0;
  bool refused = false, no_weights = false;
};

/// Says of layouts what was drawn, some of them late.
struct DrawnPlanner {
  std::span<const Drawn> drawn;
  bool late = false;

  const Drawn& of(const Layout& layout) const { return drawn[static_cast<std::size_t>(layout.dp - 1)]; }
  double bound(const Layout& layout) const {
    require(!of(layout).no_weights, "no room for the weights of layout ", layout.dp);
    return of(layout).bound;
  }
  Drawn plan(const Layout& layout) const {
    if (late) std::this_thread::sleep_for(std::chrono::microseconds(layout.dp * 37 % 5 * 200));
    require(!of(layout).refused, "sample 0 does not fit on layout ", layout.dp);
    return of(layout);
  }
  static LayoutFigures figures(const Drawn& drawn) { return {.seconds = 2.0 * drawn.seconds, .tokens = 2.0}; }
};

std::vector<Layout> numbered(std::size_t count) {
  std::vector<Layout> layouts;
  for (std::size_t i = 0; i < count; ++i) layouts.push_back({.dp = static_cast<std::int32_t>(i + 1)});
  return layouts;
}

/// Few different values, so that many are equal.
std::vector<Drawn> draw(std::mt19937& random) {
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  std::vector<Drawn> drawn(static_cast<std::size_t>(pick(1, 20)));
  for (Drawn& own : drawn) {
    own.bound = pick(0, 6);
    own.seconds = own.bound + pick(0, 5) + 0.5 * pick(0, 1);
    own.refused = pick(0, 4) == 0;
    own.no_weights = pick(0, 7) == 0;
  }
  return drawn;
}

std::string text(const std::vector<LayoutRow>& rows) {
  std::string out;
  for (const LayoutRow& row : rows)
    out += concat(to_text(row.layout), ' ', static_cast<int>(row.fate), ' ', row.bound, ' ',
                  row.figures.seconds, ' ', row.reason, '\n');
  return out;
}

}  // namespace

TEST_CASE("a search finds what planning all layouts finds, and plans only what can be best", "[threads]") {
  std::size_t pruned = 0, refused = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const std::vector<Drawn> drawn = draw(random);
    INFO("seed " << seed);
    double least = std::numeric_limits<double>::infinity();
    for (const Drawn& own : drawn) {
      if (!own.refused && !own.no_weights) least = std::min(least, own.seconds);
    }
    const std::vector<Layout> layouts = numbered(drawn.size());
    if (least == std::numeric_limits<double>::infinity()) {
      CHECK_THROWS_AS(search_layouts(layouts, DrawnPlanner{drawn}), InvalidInput);
      continue;
    }
    const auto choice = search_layouts(layouts, DrawnPlanner{drawn});
    CHECK(choice.planned.seconds == least);
    REQUIRE(choice.rows.size() == drawn.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const LayoutRow& row = choice.rows[i];
      CHECK(row.layout.dp == layouts[i].dp);
      if (row.fate == LayoutFate::planned) CHECK(row.figures.seconds_per_token() == drawn[i].seconds);
      if (row.fate == LayoutFate::pruned) CHECK(row.bound >= least);
      if (row.fate == LayoutFate::refused) CHECK((drawn[i].refused || drawn[i].no_weights));
      if (row.fate == LayoutFate::refused) CHECK_FALSE(row.reason.empty());
      // What has to be planned to know the best.
      if (row.bound < least && !drawn[i].no_weights) CHECK(row.fate != LayoutFate::pruned);
      pruned += row.fate == LayoutFate::pruned ? 1 : 0;
      refused += row.fate == LayoutFate::refused ? 1 : 0;
    }
    for (const std::size_t threads : {2u, 3u, 8u}) {
      const auto other = search_layouts(layouts, DrawnPlanner{drawn, true}, threads);
      CHECK(other.layout.dp == choice.layout.dp);
      CHECK(text(other.rows) == text(choice.rows));
    }
  }
  CHECK(pruned > 300);
  CHECK(refused > 300);
}

TEST_CASE("where all layouts are refused, the one that came closest says why") {
  const std::vector<Layout> layouts{{.dp = 1, .tp = 8}, {.dp = 2, .tp = 2}, {.dp = 3, .tp = 4}};
  std::vector<Drawn> drawn(3, {.refused = true});
  drawn[0].no_weights = true;
  CHECK_THROWS_WITH(
      search_layouts(layouts, DrawnPlanner{drawn}),
      "sample 0 does not fit on layout 3 (dp 3, tp 4, cp 1, pp 1; none of 3 layouts can be planned)");
  for (Drawn& own : drawn) own.no_weights = true;
  CHECK_THROWS_WITH(search_layouts(layouts, DrawnPlanner{drawn}),
                    Catch::StartsWith("no room for the weights of layout 1 (dp 1, tp 8"));
  CHECK_THROWS_WITH(search_layouts(std::span(layouts).first(1), DrawnPlanner{drawn}),
                    Catch::Contains("no other layout is possible"));
  CHECK_THROWS_WITH(search_layouts(std::span<const Layout>(), DrawnPlanner{drawn}),
                    Catch::Contains("no layouts"));
}

TEST_CASE("what is no refusal ends a search") {
  struct Broken : DrawnPlanner {
    Drawn plan(const Layout&) const { throw std::runtime_error("broken"); }
  };
  const std::vector<Drawn> drawn(4);
  for (const std::size_t threads : {1u, 4u})
    CHECK_THROWS_WITH(search_layouts(numbered(4), Broken{{drawn}}, threads), "broken");
}
