// PackFlow's orders with and without room, against the best of all orders.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "slimpack/schedule/makespan.hpp"
#include "slimpack/schedule/packflow.hpp"

using namespace slimpack;

namespace {

/// Samples cut into packs of their own, differently in the two passes, on stages of equal speed and memory.
struct Pipeline {
  PipelineTimes times;
  std::vector<std::uint32_t> required;
  TokenFlow flow;
  std::size_t stages = 1;

  /// @param packs [sample] forward and backward packs. @param tokens of each sample.
  Pipeline(std::size_t stage_count, const std::vector<std::pair<int, int>>& packs, double tokens)
      : stages(stage_count) {
    flow.clear();
    for (const auto& [forward, backward] : packs) {
      const double before = flow.forward.back();
      for (int k = 1; k <= forward; ++k) flow.forward.push_back(before + tokens * k / forward);
      for (int k = 1; k <= backward; ++k) {
        required.push_back(static_cast<std::uint32_t>(flow.forward.size() - 1));
        flow.backward.push_back(before + tokens * k / backward);
        flow.started.push_back(before + tokens);
      }
      times.forward.seconds.insert(times.forward.seconds.end(), static_cast<std::size_t>(forward) * stages,
                                   1.0);
      times.backward.seconds.insert(times.backward.seconds.end(), static_cast<std::size_t>(backward) * stages,
                                    2.0);
    }
    times.forward.transfer.assign(flow.forward.size() - 1, 0.0);
    times.backward.transfer.assign(required.size(), 0.0);
    packflow_leads(required, times.forward.transfer.size(), stages, times.leads);
  }

  [[nodiscard]] StageMemory memory(double tokens) const {
    return {.available = tokens, .activation = 1.0, .kv_gradient = 0.0};
  }
  [[nodiscard]] double seconds(const LeadTable& leads) const {
    return GroupMakespan()({{}, {}, {{times.forward, times.backward, leads}}}, stages);
  }
  /// Most tokens that a stage holds with PackFlow's full lead.
  [[nodiscard]] double full_tokens() const { return peak_live(flow, times.leads, 0); }
  /// Fewest that it has to hold.
  [[nodiscard]] double least_tokens() const {
    double least = 0.0;
    for (std::size_t k = 0; k < required.size(); ++k) least = std::max(least, flow.live(required[k], k));
    return least;
  }
  /// Seconds of PackFlow's order within so many tokens.
  [[nodiscard]] double limited_seconds(double tokens) const {
    LeadTable leads = times.leads;
    std::vector<std::int32_t> fitting;
    fitting_leads(flow, memory(tokens), fitting);
    for (std::size_t s = 0; s < stages; ++s)
      REQUIRE(limit_leads(fitting, static_cast<std::uint32_t>(flow.forward.size() - 1), required, s, leads));
    return seconds(leads);
  }
  /// The least seconds of all orders that hold at most so many tokens.
  [[nodiscard]] double best_seconds(double tokens) const {
    const std::size_t backward = required.size(), forward = flow.forward.size() - 1;
    LeadTable leads = times.leads;
    double best = std::numeric_limits<double>::infinity();
    const std::function<void(std::size_t, std::size_t)> choose = [&](std::size_t s, std::size_t k) {
      if (s == stages) {
        best = std::min(best, seconds(leads));
        return;
      }
      if (k == backward) return choose(s + 1, 0);
      const std::size_t most = s > 0 ? leads(k, s - 1) : forward;
      for (std::size_t n = std::max<std::size_t>(required[k], k > 0 ? leads(k - 1, s) : 0); n <= most; ++n) {
        if (flow.live(n, k) > tokens) break;
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
  return {static_cast<std::size_t>(pick(2, 3)), packs, 60.0};
}

}  // namespace

TEST_CASE("PackFlow's full lead takes no longer than any order") {
  std::mt19937 random(21);
  for (int instance = 0; instance < 100; ++instance) {
    INFO("instance " << instance);
    const Pipeline p = small_pipeline(random);
    CHECK(p.seconds(p.times.leads) == Approx(p.best_seconds(p.flow.forward.back())));
  }
}

TEST_CASE("samples with more forward than backward packs, or fewer, cost no bubble each") {
  constexpr std::size_t stages = 8;
  for (const auto& [forward, backward] : {std::pair{13, 12}, {14, 10}, {12, 13}, {3, 2}, {2, 3}}) {
    INFO(forward << " forward packs and " << backward << " backward packs of each sample");
    const Pipeline p(stages, std::vector(30, std::pair{forward, backward}), 60.0);
    const double work = 30.0 * (forward * 1.0 + backward * 2.0), fill = (stages - 1) * (1.0 + 2.0);
    CHECK(p.seconds(p.times.leads) <= Approx(work + fill).epsilon(0.01));
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
  // Twelve samples of 16 packs on 8 stages. In the second half of a sample's backward packs the next one's forward
  // packs are in memory, too.
  const Pipeline p(8, std::vector<std::pair<int, int>>(12, {16, 16}), 160.0);
  const double full = p.seconds(p.times.leads);
  for (const double share : {0.99, 0.95, 0.9, 0.85}) {
    INFO(share << " of the memory that the full lead needs");
    CHECK(p.limited_seconds(share * p.full_tokens()) <= 1.25 * full);
  }
}
