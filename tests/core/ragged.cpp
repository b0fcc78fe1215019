#include "slimpack/core/ragged.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <span>
#include <vector>

using namespace slimpack;

namespace {

using Rows = std::vector<std::vector<int>>;

/// Row by row and value by value.
Ragged<int> ragged_of(const Rows& rows) {
  Ragged<int> out;
  for (const std::vector<int>& row : rows) {
    for (const int value : row) out.add(value);
    out.close();
  }
  return out;
}

void check(const Ragged<int>& ragged, const Rows& rows) {
  REQUIRE(ragged.size() == rows.size());
  CHECK(ragged.empty() == rows.empty());
  std::vector<int> all;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    CHECK(std::vector<int>(ragged[r].begin(), ragged[r].end()) == rows[r]);
    all.insert(all.end(), rows[r].begin(), rows[r].end());
  }
  CHECK(std::vector<int>(ragged.values().begin(), ragged.values().end()) == all);
  CHECK(ragged == ragged_of(rows));
}

}  // namespace

TEST_CASE("rows hold the same values in whichever way they were added") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto row = [&] {
      std::vector<int> values(random() % 4);
      for (int& value : values) value = static_cast<int>(random() % 9);
      return values;
    };
    Ragged<int> ragged;
    Rows rows;
    for (int step = 0; step < 12; ++step) {
      const std::vector<int> values = row();
      const std::size_t times = random() % 4;
      switch (random() % 7) {
        case 0:
          ragged.reserve(rows.size() + times, values.size());
          for (const int value : values) ragged.add(value);
          ragged.close();
          rows.push_back(values);
          break;
        case 1: {
          const std::span<int> added = ragged.add_row(values.size(), 7);
          CHECK(std::vector<int>(added.begin(), added.end()) == std::vector<int>(values.size(), 7));
          std::copy(values.begin(), values.end(), added.begin());
          rows.push_back(values);
          break;
        }
        case 2: {
          std::vector<int> flat;
          for (std::size_t i = 0; i < times; ++i) {
            rows.emplace_back(values.size(), static_cast<int>(i));
            flat.insert(flat.end(), values.size(), static_cast<int>(i));
          }
          ragged.add_rows(times, flat);
          break;
        }
        case 3:
          ragged.repeat_row(times, values);
          rows.insert(rows.end(), times, values);
          break;
        case 4: {
          const Rows more{values, row(), row()};
          ragged.append(ragged_of(more));
          rows.insert(rows.end(), more.begin(), more.end());
          break;
        }
        case 5:
          for (const int value : values) ragged.add(value);  // a row that is given up
          rows.resize(random() % (rows.size() + 1));
          ragged.truncate(rows.size());
          break;
        default:
          for (std::size_t r = 0; r < rows.size(); ++r) {
            for (std::size_t i = 0; i < rows[r].size(); ++i) ragged[r][i] = ++rows[r][i];
          }
      }
      check(ragged, rows);
    }
    ragged.clear();
    check(ragged, {});
  }
}

TEST_CASE("rows without values are rows, and where rows end counts") {
  CHECK_FALSE(ragged_of({{}}) == ragged_of({}));
  CHECK_FALSE(ragged_of({{1, 2}, {3}}) == ragged_of({{1}, {2, 3}}));
  CHECK_FALSE(ragged_of({{1}, {}}) == ragged_of({{}, {1}}));
}

TEST_CASE("rows that were cleared leave their memory to the next ones") {
  Ragged<int> ragged = ragged_of({{1, 2, 3}, {}, {4, 5}});
  const int* const memory = ragged.values().data();
  ragged.clear();
  ragged.add_rows(2, std::vector<int>{7, 8, 9, 10});
  CHECK(ragged.values().data() == memory);
  check(ragged, {{7, 8}, {9, 10}});
}
