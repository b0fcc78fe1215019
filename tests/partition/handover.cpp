#include "slimpack/partition/handover.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <set>
#include <vector>

using namespace slimpack;

namespace {

/// Two pipelines with some of a batch's samples; few different numbers, so that many handovers are equal.
struct HandoverCase {
  std::vector<Tokens> lengths;
  std::vector<double> seconds_from, seconds_to;
  std::vector<SampleId> from, to;
  Tokens most_from = 0, most_to = 0;

  explicit HandoverCase(std::mt19937& random) {
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    const int samples = pick(1, 12), most = pick(2, 40);
    for (SampleId i = 0; i < static_cast<SampleId>(samples); ++i) {
      lengths.push_back(pick(1, 10));
      seconds_from.push_back(pick(0, most));
      seconds_to.push_back(pick(0, most));
      if (const int side = pick(0, 4); side > 0) (side > 2 ? to : from).push_back(i);
    }
    most_from = pick(5, 10);
    most_to = pick(1, 10);
  }

  /// By how much the pipelines' seconds change, on the mean.
  [[nodiscard]] double change(const Handover& h) const {
    double change = seconds_from[h.given] + seconds_to[h.given];
    if (h.back) change -= seconds_from[*h.back] + seconds_to[*h.back];
    return change / 2.0;
  }
  [[nodiscard]] bool allowed(const Handover& h) const {
    return lengths[h.given] <= most_to && (!h.back || lengths[*h.back] <= most_from) && change(h) > 0.0;
  }
  [[nodiscard]] std::vector<Handover> all() const {
    std::vector<Handover> all;
    for (const SampleId given : from) {
      all.push_back({given, {}});
      for (const SampleId back : to) all.push_back({given, back});
    }
    std::erase_if(all, [&](const Handover& h) { return !allowed(h); });
    return all;
  }
};

}  // namespace

TEST_CASE(
    "of all handovers that both pipelines hold, the one found changes them by the closest to what is "
    "wanted") {
  int none = 0, alone = 0, exchanged = 0;
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const HandoverCase c(random);
    const double wanted = 0.5 * static_cast<double>(random() % 60);
    const auto found = closest_handover(c.lengths, {c.from, c.seconds_from, c.most_from},
                                        {c.to, c.seconds_to, c.most_to}, wanted);
    double least = wanted;
    for (const Handover& each : c.all()) least = std::min(least, std::abs(c.change(each) - wanted));
    REQUIRE(found.has_value() == (least < wanted));
    none += found ? 0 : 1;
    if (!found) continue;
    CHECK(c.allowed(*found));
    CHECK(std::abs(c.change(*found) - wanted) == least);
    (found->back ? exchanged : alone) += 1;

    std::vector<SampleId> from = c.from, to = c.to;
    hand_over(*found, from, to);
    CHECK(std::is_sorted(from.begin(), from.end()));
    CHECK(std::is_sorted(to.begin(), to.end()));
    CHECK(from.size() + to.size() == c.from.size() + c.to.size());
    CHECK(std::binary_search(to.begin(), to.end(), found->given));
    if (found->back) CHECK(std::binary_search(from.begin(), from.end(), *found->back));
    std::set<SampleId> before(c.from.begin(), c.from.end()), after(from.begin(), from.end());
    before.insert(c.to.begin(), c.to.end());
    after.insert(to.begin(), to.end());
    CHECK(before == after);
    const auto sum = [](const std::vector<double>& seconds, const std::vector<SampleId>& samples) {
      return std::accumulate(samples.begin(), samples.end(), 0.0,
                             [&](double s, SampleId i) { return s + seconds[i]; });
    };
    const double fell = sum(c.seconds_from, c.from) - sum(c.seconds_from, from);
    const double rose = sum(c.seconds_to, to) - sum(c.seconds_to, c.to);
    CHECK(c.change(*found) == (fell + rose) / 2.0);
  }
  CHECK(none > 200);
  CHECK(alone > 200);
  CHECK(exchanged > 150);
}
