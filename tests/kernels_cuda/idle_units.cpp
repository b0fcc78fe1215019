#include "kernels/cuda/idle_units.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "tests/kernels/random.hpp"

using namespace slimpack;
using namespace slimpack::kernels::cuda;
using slimpack::testing::pick;

TEST_CASE("a space of units deals out the lowest gap that is large enough") {
  UnitSpace space;
  CHECK(space.take_run(3) == 0);
  CHECK(space.take_run(2) == 3);
  CHECK(space.take_run(0) == 0);
  space.give_back(1, 2);
  CHECK(space.take_run(3) == 5);
  CHECK(space.take_run(2) == 1);
  CHECK(space.run_end() == 8);
  space.give_back(2, 3);
  CHECK_THROWS_AS(space.give_back(4, 2), InvalidInput);
  CHECK_THROWS_AS(space.give_back(8, 1), InvalidInput);
  CHECK(space.take_run(3) == 2);
}

TEST_CASE("a space of units agrees with a plain list of them") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    UnitSpace space;
    std::vector<bool> taken(1000);
    std::vector<UnitRun> runs;
    const auto is_free = [&](std::size_t begin, std::size_t count) {
      return std::none_of(taken.begin() + static_cast<std::ptrdiff_t>(begin),
                          taken.begin() + static_cast<std::ptrdiff_t>(begin + count),
                          [](bool b) { return b; });
    };
    const auto set = [&](const UnitRun& run, bool value) {
      std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(run.begin), run.count, value);
    };
    for (int action = 0; action < 80; ++action) {
      if (action % 2 == 0) {
        const std::size_t count = pick(random, 1, 8);
        std::size_t lowest = 0;
        while (!is_free(lowest, count)) ++lowest;
        const UnitRun run{space.take_run(count), count};
        REQUIRE(run.begin == lowest);
        set(run, true);
        runs.push_back(run);
      } else {
        std::swap(runs[pick(random, 0, runs.size() - 1)], runs.back());
        const UnitRun part{runs.back().begin + runs.back().count / 2,
                           runs.back().count - runs.back().count / 2};
        space.give_back(part.begin, part.count);
        set(part, false);
        runs.back().count /= 2;
        if (runs.back().count == 0) runs.pop_back();
      }
    }
  }
}

namespace {

/// Units of a thing that are there at some times: from `from` on, until before `until`.
struct Part {
  std::size_t offset, count, from, until;
};

/// What a step stores. All of a run's parts are within its time.
struct Run {
  std::size_t units = 0, from = 0;
  std::vector<Part> parts;
};
struct Thing {
  std::size_t units = 0, from = 0, until = 0;
};
struct Stored {
  std::size_t times = 0;
  std::vector<Run> runs;
  std::vector<Thing> pieces, pages;  ///< in one piece from an even unit on; anywhere
};

Stored random_stored(std::mt19937& random, std::size_t times, std::size_t most, std::size_t units) {
  Stored out{.times = times, .runs = {}, .pieces = {}, .pages = {}};
  const auto thing = [&](std::size_t count) {
    const std::size_t from = pick(random, 0, times - 1);
    return Thing{count, from, pick(random, from + 1, times)};
  };
  for (std::size_t n = pick(random, 0, most); n > 0; --n) {
    const Thing whole = thing(pick(random, 1, units));
    Run run{whole.units, whole.from, {}};
    // As slices of a sample do: parts come one after another, and go in the other order.
    std::size_t from = whole.from, until = whole.until;
    for (std::size_t at = 0; at < whole.units;) {
      const std::size_t count = pick(random, 1, whole.units - at);
      run.parts.push_back({at, count, from, until});
      at += count;
      if (from + 1 < until) from += pick(random, 0, 1);
      if (from + 1 < until) until -= pick(random, 0, 1);
    }
    out.runs.push_back(run);
  }
  for (std::size_t n = pick(random, 0, most); n > 0; --n) out.pieces.push_back(thing(2 * pick(random, 1, 2)));
  for (std::size_t n = pick(random, 0, 2 * most); n > 0; --n)
    out.pages.push_back(thing(pick(random, 1, units)));
  return out;
}

/// Which units are taken at which times.
class Grid {
 public:
  explicit Grid(std::size_t units) : taken_(units) {}

  [[nodiscard]] bool is_free(std::size_t begin, std::size_t count, std::size_t from,
                             std::size_t until) const {
    for (std::size_t i = begin; i < begin + count; ++i) {
      if (i >= taken_.size() || (taken_[i] & mask(from, until)) != 0) return false;
    }
    return true;
  }
  void flip(std::size_t begin, std::size_t count, std::size_t from, std::size_t until) {
    for (std::size_t i = begin; i < begin + count; ++i) taken_[i] ^= mask(from, until);
  }

 private:
  static std::uint64_t mask(std::size_t from, std::size_t until) {
    return (std::uint64_t{1} << until) - (std::uint64_t{1} << from);
  }
  std::vector<std::uint64_t> taken_;
};

/// Most units that are there at a time.
std::size_t live_peak(const Stored& s) {
  std::vector<std::size_t> used(s.times);
  const auto add = [&](std::size_t count, std::size_t from, std::size_t until) {
    for (std::size_t t = from; t < until; ++t) used[t] += count;
  };
  for (const Run& run : s.runs) {
    for (const Part& p : run.parts) add(p.count, p.from, p.until);
  }
  for (const auto* things : {&s.pieces, &s.pages}) {
    for (const Thing& t : *things) add(t.units, t.from, t.until);
  }
  return *std::max_element(used.begin(), used.end());
}

/// Tries all places: whether some units are enough.
class Search {
 public:
  Search(const Stored& s, std::size_t units) : s_(s), units_(units), grid_(units) {
    for (const Thing& page : s.pages) {
      for (std::size_t i = 0; i < page.units; ++i) single_.push_back({i == 0, page});
    }
  }
  [[nodiscard]] bool fits() { return place_run(0); }

 private:
  struct Single {
    bool is_first;
    Thing page;
  };

  bool place_run(std::size_t i) {
    if (i == s_.runs.size()) return place_piece(0);
    const Run& run = s_.runs[i];
    for (std::size_t at = 0; at + run.units <= units_; ++at) {
      const bool fits = std::all_of(run.parts.begin(), run.parts.end(), [&](const Part& p) {
        return grid_.is_free(at + p.offset, p.count, p.from, p.until);
      });
      if (!fits) continue;
      const auto flip = [&] {
        for (const Part& p : run.parts) grid_.flip(at + p.offset, p.count, p.from, p.until);
      };
      flip();
      if (place_run(i + 1)) return true;
      flip();
    }
    return false;
  }
  bool place_piece(std::size_t i) {
    if (i == s_.pieces.size()) return place_page(0, 0);
    return try_at(s_.pieces[i], s_.pieces[i].units, 0, 2, [&](std::size_t) { return place_piece(i + 1); });
  }
  /// Units of one page are alike: they are put in their order.
  bool place_page(std::size_t i, std::size_t behind) {
    if (i == single_.size()) return true;
    return try_at(single_[i].page, 1, single_[i].is_first ? 0 : behind, 1,
                  [&](std::size_t at) { return place_page(i + 1, at + 1); });
  }
  template <class F>
  bool try_at(const Thing& t, std::size_t count, std::size_t first, std::size_t step, F&& next) {
    for (std::size_t at = first; at + count <= units_; at += step) {
      if (!grid_.is_free(at, count, t.from, t.until)) continue;
      grid_.flip(at, count, t.from, t.until);
      if (next(at)) return true;
      grid_.flip(at, count, t.from, t.until);
    }
    return false;
  }

  const Stored& s_;
  std::size_t units_;
  Grid grid_;
  std::vector<Single> single_;
};

/// Places all as an arena's plan does, and checks that no unit is dealt out twice at a time.
/// @param several whether pieces are several smaller ones @returns units in all
std::size_t place(const Stored& s, bool several = false) {
  UnitSpace space;
  UnitUses uses;
  std::vector<std::size_t> begins(s.runs.size());
  for (std::size_t t = 0; t <= s.times; ++t) {
    const auto for_each_part = [&](auto&& f) {
      for (std::size_t i = 0; i < s.runs.size(); ++i) {
        for (const Part& p : s.runs[i].parts) f(begins[i] + p.offset, p);
      }
    };
    for_each_part([&](std::size_t at, const Part& p) {
      if (p.until != t) return;
      uses.leave(at, at + p.count, t);
      space.give_back(at, p.count);
    });
    for (std::size_t i = 0; i < s.runs.size(); ++i) {
      if (s.runs[i].from == t) begins[i] = space.take_run(s.runs[i].units);
    }
    for_each_part([&](std::size_t at, const Part& p) {
      if (p.from == t) uses.use(at, at + p.count, t);
    });
  }
  IdleSpace idle(space.run_end(), uses.idle(space.run_end()), s.times);
  Grid grid(1000);
  const auto take = [&](std::size_t begin, std::size_t count, std::size_t from, std::size_t until) {
    REQUIRE(grid.is_free(begin, count, from, until));
    grid.flip(begin, count, from, until);
  };
  for (std::size_t i = 0; i < s.runs.size(); ++i) {
    for (const Part& p : s.runs[i].parts) take(begins[i] + p.offset, p.count, p.from, p.until);
  }
  std::size_t end = space.run_end();
  for (std::size_t t = 0; t < s.times; ++t) {
    idle.go_to(t);
    for (const Thing& piece : s.pieces) {
      if (piece.from != t) continue;
      // Several of two units each: the next one where those before end, if it is idle there.
      const std::size_t units = several ? 2 : piece.units;
      std::optional<std::size_t> wanted;
      for (std::size_t left = piece.units; left > 0;) {
        const UnitRun run = idle.take_pieces(units, left / units, piece.until, wanted);
        REQUIRE(run.begin % 2 == 0);
        REQUIRE((run.count > 0 && run.count % units == 0 && run.count <= left));
        take(run.begin, run.count, t, piece.until);
        wanted = run.begin + run.count;
        end = std::max(end, *wanted);
        left -= run.count;
      }
    }
    for (const Thing& page : s.pages) {
      if (page.from != t) continue;
      std::vector<UnitRun> runs;
      idle.take_pages(page.units, page.until, runs);
      std::size_t count = 0;
      for (const UnitRun& run : runs) {
        take(run.begin, run.count, t, page.until);
        end = std::max(end, run.begin + run.count);
        count += run.count;
      }
      REQUIRE(count == page.units);
    }
  }
  REQUIRE(idle.units() == end);
  return end;
}

}  // namespace

TEST_CASE("what is dealt out of idle units is nobody else's, and takes little more than is there at a time") {
  double sum = 0.0;
  constexpr unsigned cases = 300;
  for (unsigned seed = 1; seed <= cases; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Stored s = random_stored(random, 40, 12, 12);
    s.pages.push_back({1, 0, 40});
    const std::size_t units = place(s, seed % 2 == 0), live = live_peak(s);
    CHECK(units >= live);
    CHECK(units <= live + live / 2 + 12);
    sum += static_cast<double>(units) / static_cast<double>(live);
  }
  CHECK(sum / cases < 1.05);
}

TEST_CASE("small steps take hardly more units than the best places would") {
  std::size_t best_sum = 0, sum = 0, exact = 0;
  constexpr unsigned cases = 400;
  for (unsigned seed = 1; seed <= cases; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Stored s = random_stored(random, 6, 2, 4);
    s.pages.push_back({1, 0, 1});
    const std::size_t live = live_peak(s);
    std::size_t best = live;
    while (!Search(s, best).fits()) ++best;
    const std::size_t units = place(s);
    CHECK(units >= best);
    best_sum += best;
    sum += units;
    exact += units == best ? 1 : 0;
  }
  CHECK(exact >= cases * 4 / 5);
  CHECK(static_cast<double>(sum) < 1.05 * static_cast<double>(best_sum));
}
