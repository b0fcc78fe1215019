#include "slimpack/partition/rank_schedulers.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace slimpack;

namespace {

/// Seconds that rise with a group's size, unlike squared tokens.
double rank_seconds(Tokens length, std::size_t size) {
  const auto tokens = static_cast<double>(length), n = static_cast<double>(size);
  return (tokens + 1e-3 * tokens * tokens) / n + 20.0 * std::log2(n);
}

/// Samples and sizes of groups by a seed.
struct RankCase {
  explicit RankCase(unsigned seed) {
    std::mt19937 random(seed);
    ranks = 1 + random() % 16;
    lengths.resize(1 + random() % 30);
    for (Tokens& length : lengths)
      length = 1 + static_cast<Tokens>(std::lognormal_distribution(5.0, 1.2)(random));
    sizes = rank_group_sizes(ranks, [](std::size_t) { return true; });
    if (random() % 2 == 0)
      sizes.erase(sizes.begin(), sizes.begin() + std::ptrdiff_t(random() % sizes.size()));
    extra = 1.0 + std::exponential_distribution(0.5)(random);
  }
  std::size_t ranks = 1;
  std::vector<Tokens> lengths;
  std::vector<std::size_t> sizes;
  double extra = 1.0;  ///< of the least limit
};

}  // namespace

TEST_CASE("each scheduler makes its own rows, by squared tokens and by seconds, in any order of calls") {
  int unlike = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const RankCase c(seed);
    RankSchedulers make(c.lengths, c.ranks, c.sizes, rank_seconds);
    const RankDomain squares(c.lengths, c.ranks, c.sizes, squared_tokens);
    const RankDomain seconds(c.lengths, c.ranks, c.sizes, rank_seconds);
    for (const double factor : {1.0, c.extra}) {
      const auto limit = static_cast<Tokens>(factor * static_cast<double>(seconds.least_limit()));
      std::vector<std::vector<RankRow>> found;
      for (const bool by_seconds : {false, true}) {
        const RankDomain& domain = by_seconds ? seconds : squares;
        CHECK(make(RankScheduler::packed, limit, by_seconds) == packed_rank_rows(domain, limit));
        CHECK(make(RankScheduler::nested, limit, by_seconds) == nested_rank_groups(domain, limit));
        CHECK(make(RankScheduler::balanced, limit, by_seconds) == balanced_rank_rows(domain, limit, false));
        CHECK(make(RankScheduler::balanced_packed, limit, by_seconds) ==
              balanced_rank_rows(domain, limit, true));
        found.push_back(make(RankScheduler::packed, limit, by_seconds));
      }
      unlike += found[0] != found[1] ? 1 : 0;
    }
    for (SampleId id = 0; id < c.lengths.size(); ++id) {
      for (std::size_t place = 0; place < c.sizes.size(); ++place)
        CHECK(make.domain().work(id, place) == rank_seconds(c.lengths[id], c.sizes[place]));
    }
  }
  CHECK(unlike > 40);
}

TEST_CASE("schedulers have different names") {
  std::set<std::string> names;
  for (const RankScheduler each : {RankScheduler::packed, RankScheduler::balanced,
                                   RankScheduler::balanced_packed, RankScheduler::nested})
    names.insert(rank_scheduler_name(each));
  CHECK(names.size() == 4);
}

TEST_CASE("the least limit is the smallest that all samples keep, and a group's work is that of its ranks") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const RankCase c(seed);
    const RankDomain domain(c.lengths, c.ranks, c.sizes, rank_seconds);
    const auto holds_all = [&](Tokens limit) {
      return std::all_of(c.lengths.begin(), c.lengths.end(), [&](Tokens length) {
        return length <= limit * static_cast<Tokens>(c.sizes.back());
      });
    };
    const Tokens least = domain.least_limit();
    CHECK(holds_all(least));
    CHECK_FALSE(holds_all(least - 1));
    const auto limit = static_cast<Tokens>(c.extra * static_cast<double>(least));
    for (SampleId id = 0; id < c.lengths.size(); ++id) {
      const auto size = *std::find_if(c.sizes.begin(), c.sizes.end(), [&](std::size_t n) {
        return c.lengths[id] <= limit * static_cast<Tokens>(n);
      });
      CHECK(domain.group_work(id, limit) == rank_seconds(c.lengths[id], size) * static_cast<double>(size));
    }
  }
}
