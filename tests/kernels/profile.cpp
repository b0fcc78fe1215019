#include "kernels/profile.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "kernels/keep_memory.hpp"
#include "kernels/profile_transfer.hpp"
#include "kernels/transport/in_process.hpp"
#include "slimpack/cost/measured.hpp"
#include "tests/kernels/clocked_stage.hpp"

using namespace slimpack;
using namespace slimpack::kernels;

namespace {

Transformer tiny() { return {"tiny", 4, 16, 4, 2, 8, 24, 50}; }

/// Number of tokens of a sample that a pass's packs hold, each token once.
void check_covers(const std::vector<Tokens>& lengths, const Packs& packs) {
  std::vector<std::vector<int>> times;
  for (const Tokens length : lengths) times.emplace_back(static_cast<std::size_t>(length), 0);
  for (const Slice& slice : packs.slices()) {
    REQUIRE(slice.sample < lengths.size());
    for (Tokens t = slice.begin; t < slice.end; ++t) ++times[slice.sample].at(static_cast<std::size_t>(t));
  }
  for (const auto& sample : times) {
    for (const int n : sample) CHECK(n == 1);
  }
}

}  // namespace

TEST_CASE("probes hold each token once, go through samples in order, and are the same for a seed") {
  const std::vector<std::int32_t> layers = probe_layers(tiny(), 0);
  for (const Tokens tokens : {64, 65, 200}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      INFO(tokens << " tokens, seed " << seed);
      const std::vector<Probe> probes = make_probes(tiny(), layers, tokens, seed);
      const std::vector<Probe> again = make_probes(tiny(), layers, tokens, seed);
      std::size_t held_out = 0;
      for (std::size_t i = 0; i < probes.size(); ++i) {
        const Plan& plan = probes[i].plan();
        held_out += probes[i].held_out();
        check_covers(plan.tokens, plan.forward.packs);
        check_covers(plan.tokens, plan.backward.packs);
        std::vector<Tokens> reached(plan.tokens.size(), 0), left = plan.tokens;
        for (const Slice& s : plan.forward.packs.slices()) {
          CHECK(s.begin == reached[s.sample]);
          reached[s.sample] = s.end;
        }
        for (const Slice& s : plan.backward.packs.slices()) {
          CHECK(s.end == left[s.sample]);
          left[s.sample] = s.begin;
        }
        CHECK(plan.forward.packs == again[i].plan().forward.packs);
        CHECK(plan.backward.recompute_layers == again[i].plan().backward.recompute_layers);
      }
      CHECK(held_out > 0);
      CHECK(held_out < probes.size());
    }
  }
}

TEST_CASE("medians of probes recover the rates that the times were made of") {
  const std::vector<std::int32_t> layers = probe_layers(tiny(), 0);
  const std::vector<Probe> probes = make_probes(tiny(), layers, 256, 3);
  const Profile truth = slimpack::testing::clocked_truth();
  BackEndTimes ideal;
  ProbeTimes(probes).medians(probes, ideal.fitted, ideal.held_out);
  ProbeTimes times(probes);
  std::size_t next[2] = {0, 0};
  for (const Probe& probe : probes) {
    for (std::size_t s = 0; s < probe.stages(); ++s) {
      for (std::size_t i = 0; i < probe.program(s).tasks().size(); ++i) {
        const auto& list = probe.held_out() ? ideal.held_out : ideal.fitted;
        const double seconds = predicted_seconds(truth, list.at(next[probe.held_out() ? 1 : 0]++));
        for (const double factor : {1.0, 40.0, 1.0, 0.9, 1.0})
          times.add(probe.number(), s, i, factor * seconds);
      }
    }
  }
  BackEndTimes measured;
  times.medians(probes, measured.fitted, measured.held_out);
  Profile found;
  fit_back_end(measured, found);
  CHECK(found.fit.worst < 1e-9);
  CHECK(found.held_out.worst < 1e-6);
  CHECK(found.held_out.tasks == static_cast<std::int64_t>(ideal.held_out.size()));
  CHECK(found.recompute.per_twice_pair == Approx(1e-9).epsilon(1e-4));
  CHECK(found.backward.layer.per_key == Approx(3e-8).epsilon(1e-4));
  CHECK(found.forward.last.per_token == Approx(1e-6).epsilon(1e-4));
}

TEST_CASE("a back end's own clock is read after its step, and its rates are found") {
  using Stage = slimpack::testing::ClockedStage<CpuStage<float>>;
  Stage::truth() = slimpack::testing::clocked_truth();
  const BackEndTimes times = measure_back_end<Stage>(tiny(), {.seconds = 0.3, .tokens = 64});
  Profile found;
  fit_back_end(times, found);
  CHECK(found.fit.worst < 1e-6);
  CHECK(found.held_out.worst < 1e-4);
  CHECK(found.forward.layer.per_twice_pair == Approx(1e-9).epsilon(1e-3));
  CHECK(found.backward.layer.per_token == Approx(2e-6).epsilon(1e-3));
  CHECK(found.recompute.per_slice == Approx(1e-6).epsilon(1e-3));
}

TEST_CASE("probes are as large as the memory of their stages allows") {
  using Stage = CpuStage<float>;
  ProfileOptions options{.seconds = 0.5, .most_tokens = 256};
  const std::vector<std::int32_t> layers = probe_layers(tiny(), 0);
  const auto bytes = [&](Tokens tokens) {
    return probe_bytes<Stage>(tiny(), layers, options.stage,
                              make_probes(tiny(), layers, tokens, options.seed));
  };
  CHECK(bytes(64) < bytes(128));
  CHECK(bytes(128) < bytes(256));
  options.stage.limit_bytes = 0.5 * (bytes(64) + bytes(128));
  CHECK(measure_back_end<Stage>(tiny(), options).tokens == 64);
  options.tokens = 128;
  CHECK_THROWS_WITH(
      measure_back_end<Stage>(tiny(), options),
      Catch::Contains("stages for packs of 128 tokens take ") &&
          Catch::Contains(concat("expected ", bytes(128) - options.stage.limit_bytes, " bytes more")));
  options.tokens = 0;
  options.stage.limit_bytes = 1000.0;
  CHECK_THROWS_WITH(measure_back_end<Stage>(tiny(), options), Catch::Contains("packs of 64 tokens"));
}

TEST_CASE("an update's seconds are those of all parameters") {
  using Stage = CpuStage<float>;
  const double seconds = measure_update<Stage>(tiny());
  CHECK(seconds > 0.0);
  ProfileOptions options;
  options.stage.limit_bytes = 1000.0;
  CHECK_THROWS_WITH(measure_update<Stage>(tiny(), options), Catch::Contains("but 1000 bytes are there"));
}

TEMPLATE_TEST_CASE("a tiny model's profile prices plans", "", float, double) {
  Profile profile;
  profile.model = tiny();
  profile.real_bytes = sizeof(TestType);
  profile.transfer = {.bandwidth = 1e9, .latency = 1e-6};
  const auto clock = std::is_same_v<TestType, float> ? ProfileClock::wall : ProfileClock::thread;
  const BackEndTimes times =
      measure_back_end<CpuStage<TestType>>(tiny(), {.seconds = 0.2, .tokens = 64, .clock = clock});
  CHECK(times.rounds >= 3);
  CHECK(times.tokens == 64);
  CHECK(times.fitted.size() > 100);
  CHECK(times.held_out.size() > 20);
  fit_back_end(times, profile);
  measure_operators<TestType>(tiny(), 64, clock, profile);
  CHECK_NOTHROW(validate(profile));
  CHECK(profile.fit.tasks == static_cast<std::int64_t>(times.fitted.size()));
  CHECK(profile.operators.size() == 5);
  for (const OperatorRate& rate : profile.operators) CHECK(rate.seconds_per_number > 0.0);
  CHECK(profile.optimiser_seconds_per_parameter > 0.0);
  const std::vector<std::int32_t> layers{2, 2};
  const MeasuredCost cost(profile, tiny(), layers);
  CHECK(cost.slice_seconds(0, 0, 100, Pass::backward) > 0.0);
}

TEST_CASE("measuring refuses impossible options") {
  using Stage = CpuStage<float>;
  CHECK_THROWS_WITH(measure_back_end<Stage>(tiny(), {.seconds = 0.0}), Catch::Contains("seconds is 0"));
  CHECK_THROWS_WITH(measure_back_end<Stage>(tiny(), {.tokens = 63}), Catch::Contains("at least 64"));
  CHECK_THROWS_WITH(measure_back_end<Stage>(tiny(), {.stage_layers = -1}), Catch::Contains("stage_layers"));
  Transformer bad = tiny();
  bad.kv_heads = 3;
  CHECK_THROWS_WITH(measure_back_end<Stage>(bad), Catch::Contains("kv_heads is 3"));
}

TEST_CASE("transfers between two ranks are measured and fitted", "[threads]") {
  const std::vector<std::size_t> sizes{64, 4096, 262144};
  std::vector<TransferTime> times;
  run_in_process(3, [&](InProcessTransport& t) {
    auto own = measure_transfers(t, sizes, 5);
    if (t.rank() == 0) {
      times = std::move(own);
    } else if (!own.empty()) {
      throw std::logic_error("another rank returns times");
    }
  });
  REQUIRE(times.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(times[i].bytes == static_cast<double>(sizes[i]));
    CHECK(times[i].seconds > 0.0);
  }
  const std::vector<TransferTime> exact{
      {100, 1e-6 + 100 / 5e8}, {1e4, 1e-6 + 1e4 / 5e8}, {1e7, 1e-6 + 1e7 / 5e8}};
  const Link link = fit_link(exact);
  CHECK(link.latency == Approx(1e-6).epsilon(1e-6));
  CHECK(link.bandwidth == Approx(5e8).epsilon(1e-6));
  CHECK_THROWS_WITH(fit_link(std::vector<TransferTime>{{10, 1.0}, {10, 2.0}}), Catch::Contains("one size"));
  CHECK_THROWS_WITH(fit_link(std::vector<TransferTime>{{10, 1.0}, {20, 0.0}}), Catch::Contains("transfer 1"));
  CHECK_THROWS_WITH(fit_link(std::vector<TransferTime>{{10, 2.0}, {1e9, 1e-9}}), Catch::Contains("larger"));
  run_in_process(1, [&](InProcessTransport& t) {
    try {
      measure_transfers(t, sizes, 5);
    } catch (const InvalidInput&) {
      return;
    }
    throw std::logic_error("one rank was accepted");
  });
}

namespace {

/// Rows that leave late, however few they are.
class LateRows : public HostRows {
 public:
  explicit LateRows(std::size_t bytes) : HostRows(bytes) {
    most_bytes() = std::max(most_bytes().load(), bytes);
  }

  void leave() {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    HostRows::leave();
  }

  [[nodiscard]] static std::atomic<std::size_t>& most_bytes() {
    static std::atomic<std::size_t> bytes{0};
    return bytes;
  }
};

}  // namespace

TEST_CASE("a link is measured with messages large enough to show its bandwidth", "[threads]") {
  const Link link = measure_link<LateRows>(1);
  CHECK(LateRows::most_bytes() > 4096);
  CHECK(link.latency >= 0.0);
  CHECK(std::isfinite(link.bandwidth));
  CHECK_THROWS_WITH(measure_link(0), Catch::Contains("row_bytes is 0; expected at least 1"));
}

TEST_CASE("memory that is kept still comes and goes") {
  keep_memory();
  for (int i = 0; i < 4; ++i) {
    std::vector<char> large(std::size_t{1} << 24, 'x');
    CHECK(large.back() == 'x');
  }
}
