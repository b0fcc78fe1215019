#include "slimpack/schedule/leads.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "slimpack/schedule/makespan.hpp"

using namespace slimpack;

namespace {

/// Samples cut into packs of their own, differently in the two passes, on stages of equal speed.
struct Pipeline {
  PackRows forward, backward;
  PassTimes forward_times, backward_times;
  std::vector<Tokens> lengths;
  std::vector<std::uint32_t> required;
  std::vector<double> in{0.0}, out{0.0};  // tokens that forward and backward packs bring and take, as sums
  std::size_t stages = 1;

  /// @param packs [sample] forward and backward packs.
  Pipeline(std::size_t stage_count, const std::vector<std::pair<int, int>>& packs) : stages(stage_count) {
    constexpr Tokens tokens = 60;
    Packs cut[2];
    for (SampleId id = 0; id < packs.size(); ++id) {
      lengths.push_back(tokens);
      for (Tokens k = 0; k < packs[id].first; ++k) {
        cut[0].add({id, tokens * k / packs[id].first, tokens * (k + 1) / packs[id].first});
        cut[0].close();
      }
      for (Tokens k = packs[id].second; k-- > 0;) {
        cut[1].add({id, tokens * k / packs[id].second, tokens * (k + 1) / packs[id].second});
        cut[1].close();
      }
    }
    for (std::size_t k = 0; k < cut[0].size(); ++k)
      in.push_back(in.back() + static_cast<double>(count_tokens(cut[0][k])));
    for (std::size_t k = 0; k < cut[1].size(); ++k)
      out.push_back(out.back() + static_cast<double>(count_tokens(cut[1][k])));
    forward = in_rows(std::move(cut[0]));
    backward = in_rows(std::move(cut[1]));
    std::vector<std::uint32_t> ended;
    required_rows(lengths, forward, backward, ended, required);
    forward_times = {std::vector<double>(rows() * stages, 1.0), std::vector<double>(rows() * stages, 0.0)};
    backward_times = {std::vector<double>(required.size() * stages, 2.0),
                      std::vector<double>(required.size() * stages, 0.0)};
  }

  [[nodiscard]] std::size_t rows() const { return forward.rows.size(); }
  [[nodiscard]] LeadTable full() const {
    LeadTable leads;
    packflow_leads(required, rows(), stages, leads);
    return leads;
  }
  [[nodiscard]] double seconds(const LeadTable& leads) const {
    return Makespan()(forward, forward_times, backward, backward_times, leads, 1);
  }
  [[nodiscard]] double live(std::size_t n, std::size_t k) const { return in[n] - out[k]; }
  /// Most tokens that the first stage holds with the full lead.
  [[nodiscard]] double full_tokens() const {
    double most = 0.0;
    for (std::size_t k = 0; k < required.size(); ++k) most = std::max(most, live(full()(k, 0), k));
    return most;
  }
  /// Fewest that a stage has to hold.
  [[nodiscard]] double least_tokens() const {
    double least = 0.0;
    for (std::size_t k = 0; k < required.size(); ++k) least = std::max(least, live(required[k], k));
    return least;
  }
  /// Seconds of PackFlow's order within so many tokens.
  [[nodiscard]] double limited_seconds(double tokens) const {
    std::vector<std::int32_t> fitting;
    for (std::size_t k = 0; k < required.size(); ++k) {
      auto most = static_cast<std::int32_t>(rows());
      while (most >= 0 && live(static_cast<std::size_t>(most), k) > tokens) --most;
      fitting.push_back(most);
    }
    LeadTable leads = full();
    for (std::size_t s = 0; s < stages; ++s)
      REQUIRE(limit_leads(fitting, static_cast<std::uint32_t>(rows()), required, s, leads));
    return seconds(leads);
  }
  /// The least seconds of all orders that hold at most so many tokens.
  [[nodiscard]] double best_seconds(double tokens) const {
    LeadTable leads = full();
    double best = std::numeric_limits<double>::infinity();
    const std::function<void(std::size_t, std::size_t)> choose = [&](std::size_t s, std::size_t k) {
      if (s == stages) {
        best = std::min(best, seconds(leads));
        return;
      }
      if (k == required.size()) return choose(s + 1, 0);
      const std::size_t most = s > 0 ? leads(k, s - 1) : rows();
      for (std::size_t n = std::max<std::size_t>(required[k], k > 0 ? leads(k - 1, s) : 0); n <= most; ++n) {
        if (live(n, k) > tokens) break;
        leads(k, s) = static_cast<std::uint32_t>(n);
        choose(s, k + 1);
      }
    };
    choose(0, 0);
    return best;
  }
};

Pipeline small_pipeline(std::mt19937& random) {
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  std::vector<std::pair<int, int>> packs;
  int forward = 0, backward = 0;
  while (forward < 4 && backward < 4) {
    packs.emplace_back(pick(1, std::min(3, 5 - forward)), pick(1, std::min(3, 5 - backward)));
    forward += packs.back().first;
    backward += packs.back().second;
  }
  return {static_cast<std::size_t>(pick(2, 3)), packs};
}

}  // namespace

TEST_CASE("a backward row waits for the forward rows of all its samples and of those before it") {
  const std::vector<Tokens> lengths{8, 8, 4};
  const auto rows = [](const std::vector<std::vector<Slice>>& all) {
    Packs packs;
    for (const auto& pack : all) {
      for (const Slice& slice : pack) packs.add(slice);
      packs.close();
    }
    return in_rows(std::move(packs));
  };
  const PackRows forward = rows({{{2, 0, 4}, {0, 0, 4}}, {{1, 0, 8}}, {{0, 4, 8}}, {}});
  const PackRows backward = rows({{{2, 0, 4}}, {{0, 4, 8}, {1, 4, 8}}, {}, {{1, 0, 4}}, {{0, 0, 4}}});
  std::vector<std::uint32_t> ended, required;
  required_rows(lengths, forward, backward, ended, required);
  CHECK(required == std::vector<std::uint32_t>{1, 3, 3, 3, 4});
}

TEST_CASE("PackFlow's leads suffice for each backward row and never fall, and stages before run ahead") {
  std::mt19937 random(11);
  for (int instance = 0; instance < 500; ++instance) {
    INFO("instance " << instance);
    const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
    const auto stages = static_cast<std::size_t>(pick(1, 5));
    const int rows = pick(1, 9);
    std::vector<std::uint32_t> required(static_cast<std::size_t>(pick(1, 9)));
    for (auto& r : required) r = static_cast<std::uint32_t>(pick(0, rows));
    std::sort(required.begin(), required.end());
    required.back() = static_cast<std::uint32_t>(rows);
    LeadTable injected, steady, eager;
    packflow_leads(required, static_cast<std::size_t>(rows), stages, injected);
    packflow_leads(required, static_cast<std::size_t>(rows), stages, eager, 0, 2);
    steady_leads(required, static_cast<std::size_t>(rows), stages, steady);
    for (const LeadTable* leads : {&injected, &steady, &eager}) {
      const std::size_t step = leads == &eager ? 2 : 1;
      REQUIRE(leads->backward_rows() == required.size());
      for (std::size_t s = 0; s < stages; ++s) {
        for (std::size_t k = 0; k < required.size(); ++k) {
          CHECK((*leads)(k, s) >= required[k]);
          CHECK((*leads)(k, s) <= required.back());
          CHECK((k == 0 || (*leads)(k, s) >= (*leads)(k - 1, s)));
          CHECK((s == 0 || (*leads)(k, s) <= (*leads)(k, s - 1)));
          CHECK((k < step || s == 0 || (*leads)(k, s) == (*leads)(k - step, s - 1)));
          CHECK(eager(k, s) >= injected(k, s));
          CHECK(steady(k, s) >= injected(k, s));
        }
      }
    }
    for (std::size_t k = 1; k < required.size(); ++k) {
      CHECK(steady(k, stages - 1) == std::min(required.back(), steady(k - 1, stages - 1) + 1));
    }
  }
}

TEST_CASE("PackFlow's full lead takes no longer than any order") {
  std::mt19937 random(21);
  for (int instance = 0; instance < 100; ++instance) {
    INFO("instance " << instance);
    const Pipeline p = small_pipeline(random);
    CHECK(p.seconds(p.full()) == Approx(p.best_seconds(p.in.back())));
  }
}

TEST_CASE("stages that are twice as far ahead wait less for unequal packs") {
  std::lognormal_distribution<double> draw(0.0, 0.8);
  double plain = 0.0, eager = 0.0;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    Pipeline p(8, std::vector(32, std::pair{1, 1}));
    for (std::size_t k = 0; k < 32; ++k) {
      const double seconds = draw(random);
      std::fill_n(p.forward_times.seconds.begin() + static_cast<std::ptrdiff_t>(8 * k), 8, seconds);
      std::fill_n(p.backward_times.seconds.begin() + static_cast<std::ptrdiff_t>(8 * k), 8, 2.0 * seconds);
    }
    LeadTable leads;
    packflow_leads(p.required, p.rows(), 8, leads, 0, 2);
    plain += p.seconds(p.full());
    eager += p.seconds(leads);
  }
  INFO("1F1B takes " << plain << " s, the eager order " << eager << " s");
  CHECK(eager < 0.9 * plain);
}

TEST_CASE("samples with more forward than backward packs, or fewer, cost no bubble each") {
  constexpr std::size_t stages = 8;
  for (const auto& [forward, backward] : {std::pair{13, 12}, {14, 10}, {12, 13}, {3, 2}, {2, 3}}) {
    INFO(forward << " forward packs and " << backward << " backward packs of each sample");
    const Pipeline p(stages, std::vector(30, std::pair{forward, backward}));
    const double work = 30.0 * (forward * 1.0 + backward * 2.0), fill = (stages - 1) * (1.0 + 2.0);
    CHECK(p.seconds(p.full()) <= Approx(work + fill).epsilon(0.01));
  }
}

TEST_CASE("within limited memory PackFlow's order is near the best of all") {
  std::mt19937 random(22);
  double sum = 0.0, most = 0.0;
  int limited = 0;
  for (int instance = 0; instance < 200; ++instance) {
    const Pipeline p = small_pipeline(random);
    const double tokens = std::uniform_real_distribution<double>(p.least_tokens(), p.full_tokens())(random);
    INFO("instance " << instance << " with room for " << tokens << " tokens");
    const double ratio = p.limited_seconds(tokens) / p.best_seconds(tokens);
    CHECK(ratio >= 1.0 - 1e-9);
    sum += ratio;
    most = std::max(most, ratio);
    limited += p.full_tokens() > tokens ? 1 : 0;
  }
  CHECK(sum / 200 <= 1.02);
  CHECK(most <= 1.2);
  CHECK(limited > 100);
}

TEST_CASE("a lead that is short of memory costs a bubble where samples turn, not one at every pack") {
  // Twelve samples of 15 packs on 8 stages. In the second half of a sample's backward packs the next one's forward
  // packs are in memory as well.
  const Pipeline p(8, std::vector<std::pair<int, int>>(12, {15, 15}));
  const double full = p.seconds(p.full());
  for (const double share : {0.99, 0.95, 0.9, 0.85}) {
    INFO(share << " of the memory that the full lead needs");
    CHECK(p.limited_seconds(share * p.full_tokens()) <= 1.25 * full);
  }
}
