#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "slimpack/partition/balanced_rank_rows.hpp"
#include "slimpack/partition/nested_rank_groups.hpp"
#include "slimpack/partition/packed_rank_rows.hpp"
#include "slimpack/partition/uniform_rank_rows.hpp"

using namespace slimpack;

namespace {

std::vector<std::size_t> sizes_up_to(std::size_t ranks) {
  return rank_group_sizes(ranks, [](std::size_t) { return true; });
}

RankDomain squared_domain(const std::vector<Tokens>& lengths, std::size_t ranks) {
  return {lengths, ranks, sizes_up_to(ranks), squared_tokens};
}

std::vector<RankRow> make_rows(const std::string& scheduler, const RankDomain& domain, Tokens limit) {
  if (scheduler == "packed") return packed_rank_rows(domain, limit);
  if (scheduler == "nested") return nested_rank_groups(domain, limit);
  return balanced_rank_rows(domain, limit, scheduler == "balanced_packed");
}

/// Lengths of one of four kinds: heavy tail, all equal, two lengths, one sample longer than all others together.
std::vector<Tokens> random_lengths(std::mt19937& random, std::size_t count) {
  const auto kind = random() % 4;
  std::vector<Tokens> lengths(count, static_cast<Tokens>(1 + random() % 5000));
  for (Tokens& length : lengths) {
    if (kind == 0)
      length =
          1 + std::min<Tokens>(60000, static_cast<Tokens>(std::lognormal_distribution(7.0, 1.5)(random)));
    if (kind == 1) length = random() % 2 == 0 ? 300 : 5000;
    if (kind == 2) length = static_cast<Tokens>(1 + random() % 900);
  }
  if (kind == 2) lengths[random() % count] = static_cast<Tokens>(1000 * count);
  return lengths;
}

/// A setting by its seed.
struct Setting {
  explicit Setting(unsigned seed) : random(seed) {
    ranks = 1 + random() % 24;
    if (random() % 2 == 0) ranks = std::size_t{1} << random() % 6;
    lengths = random_lengths(random, 1 + random() % 80);
    const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
    const auto all = static_cast<Tokens>(ranks);
    const double factor = std::exp2(std::uniform_real_distribution(0.0, 7.0)(random));
    limit = static_cast<Tokens>(static_cast<double>((longest + all - 1) / all) * factor);
  }
  std::mt19937 random;
  std::size_t ranks = 1;
  std::vector<Tokens> lengths;
  Tokens limit = 0;
};

std::vector<SampleId> sorted_samples(const std::vector<RankRow>& rows) {
  std::vector<SampleId> all;
  for (const RankRow& row : rows) {
    for (const RankGroup& group : row) all.insert(all.end(), group.samples.begin(), group.samples.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::string to_text(const RankRow& row) {
  std::ostringstream out;
  for (const RankGroup& group : row) {
    out << (&group == row.data() ? "" : " ") << group.size;
    for (const SampleId& id : group.samples) out << (&id == group.samples.data() ? ':' : ',') << id;
  }
  return out.str();
}

}  // namespace

TEST_CASE("rows are those that Megatron Core's schedulers make of the same lengths") {
  std::ifstream file(SLIMPACK_SOURCE_DIR "/tests/partition/megatron_rows.txt");
  REQUIRE(file);
  std::vector<std::string> expected;
  std::vector<RankRow> rows;
  std::string first;
  int cases = 0;
  const auto compare = [&] {
    INFO(first);
    REQUIRE(rows.size() == expected.size());
    for (std::size_t r = 0; r < rows.size(); ++r) CHECK(to_text(rows[r]) == expected[r]);
    expected.clear();
  };
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("case ", 0) != 0) {
      expected.push_back(line);
      continue;
    }
    compare();
    first = line;
    ++cases;
    std::istringstream words(line);
    std::string word, scheduler;
    std::size_t ranks = 0;
    Tokens limit = 0;
    words >> word >> scheduler >> ranks >> limit;
    std::vector<Tokens> lengths;
    for (Tokens length = 0; words >> length;) lengths.push_back(length);
    rows = make_rows(scheduler, squared_domain(lengths, ranks), limit);
  }
  compare();
  CHECK(cases == 120);
}

TEST_CASE("rows hold every sample once, on groups of allowed sizes, and give all ranks work") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Setting setting(seed);
    const std::vector<std::size_t> sizes = sizes_up_to(setting.ranks);
    const RankDomain domain = squared_domain(setting.lengths, setting.ranks);
    std::vector<SampleId> all(setting.lengths.size());
    std::iota(all.begin(), all.end(), SampleId{0});
    for (const std::string scheduler : {"packed", "balanced", "balanced_packed"}) {
      INFO("seed " << seed << ", " << scheduler << ", " << setting.ranks << " ranks, limit "
                   << setting.limit);
      const std::vector<RankRow> rows = make_rows(scheduler, domain, setting.limit);
      REQUIRE(sorted_samples(rows) == all);
      for (const RankRow& row : rows) {
        std::size_t next = 0;
        for (const RankGroup& group : row) {
          REQUIRE(group.first == next);
          REQUIRE(std::find(sizes.begin(), sizes.end(), group.size) != sizes.end());
          REQUIRE_FALSE(group.samples.empty());
          next += group.size;
        }
        REQUIRE(next == setting.ranks);
      }
    }
  }
}

TEST_CASE("no rank holds more tokens of a pack than the limit") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Setting setting(seed);
    const RankDomain domain = squared_domain(setting.lengths, setting.ranks);
    for (const std::string scheduler : {"packed", "balanced", "balanced_packed", "nested"}) {
      INFO("seed " << seed << ", " << scheduler);
      for (const RankRow& row : make_rows(scheduler, domain, setting.limit)) {
        for (const RankGroup& group : row) {
          Tokens pack = 0;
          for (const SampleId id : group.samples) {
            const Tokens own = setting.lengths[id];
            pack = scheduler == "balanced" ? std::max(pack, own) : pack + own;
          }
          REQUIRE(pack <= setting.limit * static_cast<Tokens>(group.size));
        }
      }
    }
  }
}

TEST_CASE("uniform rows are best-fit packs on groups of one size, those with most attention first") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    Setting setting(seed);
    const std::size_t groups = 1 + setting.random() % 6, size = 1 + setting.random() % 4;
    const Tokens longest = *std::max_element(setting.lengths.begin(), setting.lengths.end());
    const Tokens most = longest + static_cast<Tokens>(setting.random() % 3) * longest / 2;
    INFO("seed " << seed << ", " << groups << " groups of " << size << ", packs of " << most);
    const std::vector<RankRow> rows = uniform_rank_rows(setting.lengths, most, groups * size, size);
    std::vector<SampleId> all(setting.lengths.size());
    std::iota(all.begin(), all.end(), SampleId{0});
    REQUIRE(sorted_samples(rows) == all);
    const std::size_t packs = best_fit_decreasing(setting.lengths, most).load.size();
    REQUIRE(rows.size() == (packs + groups - 1) / groups);
    double before = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      REQUIRE(rows[r].size() == (r + 1 < rows.size() ? groups : packs - r * groups));
      for (std::size_t g = 0; g < rows[r].size(); ++g) {
        CHECK(rows[r][g].first == g * size);
        CHECK(rows[r][g].size == size);
        Tokens tokens = 0;
        double squares = 0.0;
        for (const SampleId id : rows[r][g].samples) {
          tokens += setting.lengths[id];
          squares += static_cast<double>(setting.lengths[id]) * static_cast<double>(setting.lengths[id]);
        }
        CHECK(tokens <= most);
        CHECK(squares <= before);
        before = squares;
      }
    }
  }
}

TEST_CASE("nested groups hold every sample once, and their ranks wait only at the end") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Setting setting(seed);
    INFO("seed " << seed << ", " << setting.ranks << " ranks, limit " << setting.limit);
    const RankDomain domain = squared_domain(setting.lengths, setting.ranks);
    const std::vector<RankRow> rows = nested_rank_groups(domain, setting.limit);
    std::vector<SampleId> all(setting.lengths.size());
    std::iota(all.begin(), all.end(), SampleId{0});
    REQUIRE(sorted_samples(rows) == all);
    std::vector<double> work(setting.ranks, 0.0);
    for (const RankRow& row : rows) {
      REQUIRE(row.size() == 1);
      const RankGroup& group = row.front();
      REQUIRE(group.first % group.size == 0);
      const double before = work[group.first];
      for (std::size_t r = group.first; r < group.first + group.size; ++r) {
        if (std::has_single_bit(setting.ranks)) CHECK(work[r] == Approx(before));
        for (const SampleId id : group.samples) work[r] += squared_tokens(setting.lengths[id], group.size);
      }
    }
  }
}

TEST_CASE("equal samples on as many ranks are one row, in which each rank runs one") {
  const std::vector<Tokens> lengths(16, 700);
  const RankDomain domain = squared_domain(lengths, 16);
  for (const std::string scheduler : {"packed", "balanced", "balanced_packed"}) {
    const std::vector<RankRow> rows = make_rows(scheduler, domain, 700);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].size() == 16);
  }
}

TEST_CASE("ranks that can't share samples stay without work where there are fewer samples") {
  const std::vector<Tokens> lengths{50, 40, 30};
  const RankDomain domain(lengths, 8, {1}, squared_tokens);
  for (const std::string scheduler : {"packed", "balanced", "balanced_packed"}) {
    const std::vector<RankRow> rows = make_rows(scheduler, domain, 50);
    REQUIRE(rows.size() == 1);
    CHECK(to_text(rows[0]) == "1:0 1:1 1:2");
  }
}

TEST_CASE("a limit that is too small for a sample on all ranks is refused") {
  const std::vector<Tokens> lengths{10, 100};
  const RankDomain domain = squared_domain(lengths, 4);
  for (const std::string scheduler : {"packed", "balanced", "balanced_packed", "nested"}) {
    CHECK_THROWS_WITH(
        make_rows(scheduler, domain, 24),
        Catch::Contains("sample 1 has 100 tokens; expected at most the limit of 24 on each of 4 ranks"));
    CHECK_NOTHROW(make_rows(scheduler, domain, 25));
  }
}
