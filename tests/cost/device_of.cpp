#include "slimpack/cost/device_of.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/model/presets.hpp"
#include "tests/cost/random_profile.hpp"

#ifdef SLIMPACK_TEST_EIGEN
#include "slimpack/cost/profile_fit.hpp"
#endif

using namespace slimpack;

namespace {

constexpr std::int32_t stage_layers = 5;

/// Any GPU on which memory-bound operators do not hide dense products.
Device random_device(std::mt19937& random) {
  const auto number = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  return {.name = "known",
          .peak_flops = number(1e14, 2e15),
          .gemm_efficiency = number(0.3, 0.9),
          .gemm_backward_efficiency = number(0.3, 0.9),
          .attention_forward = number(0.2, 0.9),
          .attention_backward = number(0.2, 0.9),
          .memory_bytes = number(2e10, 2e11),
          .memory_bandwidth = number(1e12, 5e12),
          .pack_overhead = number(0.0, 1e-3),
          .intra_node = device_preset("h100").intra_node,
          .inter_node = {number(1e10, 1e11), number(0.0, 1e-4)},
          .host = device_preset("h100").host};
}

/// llama-13b: 8 stages of 5 layers.
CalibratedCost cost_on(const Device& device) {
  return CalibratedCost({transformer_preset("llama-13b"), device, {.pp = 40 / stage_layers}});
}

/// Of a GPU, without rates.
Profile known_machine(const Device& d) {
  Profile p;
  p.model = transformer_preset("llama-13b");
  p.real_bytes = 2;
  p.machine = d.name;
  p.transfer = d.inter_node;
  p.device = {
      .memory_bytes = d.memory_bytes, .peak_flops = d.peak_flops, .memory_bandwidth = d.memory_bandwidth};
  return p;
}

/// What a profile of stages that take just as long as the calibrated model says would be.
Profile profile_of(const Device& d) {
  Profile p = known_machine(d);
  const CalibratedCost cost = cost_on(d);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    PassRates& rates = pass == Pass::forward ? p.forward : p.backward;
    const SliceCoefficients c = (1.0 / stage_layers) * cost.coefficients(0, pass);
    rates.layer = {.per_key = c.per_key, .per_token = c.per_token, .per_twice_pair = c.per_twice_pair};
    rates.stage.per_pack = cost.pack_seconds(0, pass);
  }
  p.recompute = p.forward.layer;
  return p;
}

void check_device(const Device& found, const Device& known, double epsilon) {
  CHECK(found.name == known.name);
  CHECK(found.peak_flops == known.peak_flops);
  CHECK(found.gemm_efficiency == Approx(known.gemm_efficiency).epsilon(epsilon));
  CHECK(found.gemm_backward_efficiency == Approx(known.gemm_backward_efficiency).epsilon(epsilon));
  CHECK(found.attention_forward == Approx(known.attention_forward).epsilon(epsilon));
  CHECK(found.attention_backward == Approx(known.attention_backward).epsilon(epsilon));
  CHECK(found.memory_bytes == known.memory_bytes);
  CHECK(found.memory_bandwidth == known.memory_bandwidth);
  CHECK(found.pack_overhead == Approx(known.pack_overhead).epsilon(epsilon).margin(1e-9));
  CHECK(found.inter_node == known.inter_node);
}

/// Of a CPU: a token of a layer has 768 FLOPs of dense products, and reads and writes 128 numbers.
Profile small_cpu() {
  Profile p;
  p.model = {"small", 2, 8, 2, 1, 4, 8, 100};
  p.machine = "box";
  p.forward.layer = {.per_token = 1e-6, .per_twice_pair = 1e-8};
  p.backward.layer = {.per_token = 2e-6, .per_twice_pair = 2.5e-8};
  p.recompute = p.forward.layer;
  p.transfer = {.bandwidth = 1e9, .latency = 2e-6};
  return p;
}

}  // namespace

TEST_CASE("the device of a profile is the device on which it was measured") {
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    INFO("case " << i);
    const Device known = random_device(random);
    const Device found = device_of(profile_of(known), device_preset("a100"));
    check_device(found, known, 1e-9);
    CHECK(found.intra_node == device_preset("a100").intra_node);
    CHECK(found.host == device_preset("a100").host);
    const CalibratedCost was = cost_on(known), is = cost_on(found);
    for (const Pass pass : {Pass::forward, Pass::backward})
      CHECK(is.slice_seconds(7, 3000, 9000, pass) ==
            Approx(was.slice_seconds(7, 3000, 9000, pass)).epsilon(1e-9));
  }
}

#ifdef SLIMPACK_TEST_EIGEN
TEST_CASE("the device of a profile that is fitted to tasks is the device that ran them, to 1 %") {
  std::mt19937 random(12);
  for (int i = 0; i < 20; ++i) {
    INFO("case " << i);
    const Device known = random_device(random);
    std::vector<MeasuredTask> tasks;
    for (const std::int32_t layers : {1, 2, 4}) {
      Job job{transformer_preset("llama-13b"), known, {.pp = 3}};
      job.model.layers = 3 * layers;
      for (const std::int32_t recompute_layers : {0, layers}) {
        const CalibratedCost cost(job);
        for (int pack = 0; pack < 60; ++pack) {
          MeasuredTask task{.pass = pack % 2 == 0 ? Pass::forward : Pass::backward, .layers = layers};
          const auto stage = static_cast<std::size_t>(pack % 6 / 2);
          if (task.pass == Pass::backward) task.recompute_layers = recompute_layers;
          task.first = stage == 0;
          task.last = stage == 2;
          task.seconds = cost.pack_seconds(stage, task.pass);
          for (int slice = 0; slice <= pack % 5; ++slice) {
            const Tokens begin = std::uniform_int_distribution<Tokens>(0, 1)(random) * 4096;
            const Tokens end = begin + std::uniform_int_distribution<Tokens>(64, 8192)(random);
            task.slices.push_back({static_cast<SampleId>(slice), begin, end});
            task.seconds += cost.slice_seconds(stage, begin, end, task.pass) +
                            task.recompute_layers * cost.recompute_seconds(stage, begin, end);
          }
          tasks.push_back(task);
        }
      }
    }
    Profile p = known_machine(known);
    fit_tasks(tasks, p);
    CHECK(p.fit.worst < 1e-3);
    check_device(device_of(p, device_preset("h200")), known, 0.01);
  }
}
#endif

TEST_CASE("a profile of a CPU has the base's peak, and the bandwidth of its operators") {
  Device base = device_preset("cpu");
  base.memory_bandwidth = 4e9;
  base.peak_flops = 4e9;
  Profile p = small_cpu();
  // 10*8 + 2*4*3 + 3*8 = 128 numbers of 4 bytes a token, forward; at 4e9 bytes/s these take 0.128 us.
  Device d = device_of(p, base);
  CHECK(d.name == "box");
  CHECK(d.memory_bandwidth == 4e9);
  CHECK(d.gemm_efficiency == Approx(768 / 0.872e-6 / 4e9).epsilon(1e-12));
  CHECK(d.gemm_backward_efficiency == Approx(2 * 768 / 1.744e-6 / 4e9).epsilon(1e-12));
  CHECK(d.attention_forward == Approx(2 * 2 * 4 / 1e-8 / 4e9).epsilon(1e-12));
  CHECK(d.attention_backward == Approx(2.5 * 2 * 2 * 4 / 2.5e-8 / 4e9).epsilon(1e-12));
  CHECK(d.memory_bytes == base.memory_bytes);
  CHECK(d.pack_overhead == 0.0);
  // A layer's two norms read and write 32 numbers, SwiGLU 24: 56 * 4 bytes in 16 * 1 ns + 16 * 0.75 ns.
  p.operators = {{"rms_norm", 1e-9}, {"swiglu", 0.75e-9}, {"cross_entropy", 1.0}};
  d = device_of(p, base);
  CHECK(d.memory_bandwidth == Approx(8e9).epsilon(1e-12));
  CHECK(d.gemm_efficiency == Approx(768 / 0.936e-6 / 4e9).epsilon(1e-12));
  // Numbers of 8 bytes: half as many FLOP/s are the same share of the peak.
  p.real_bytes = 8;
  d = device_of(p, base);
  CHECK(d.memory_bandwidth == Approx(16e9).epsilon(1e-12));
  CHECK(d.gemm_efficiency == Approx(2 * 768 / 0.936e-6 / 4e9).epsilon(1e-12));
  CHECK(d.attention_forward == Approx(2 * 2 * 2 * 4 / 1e-8 / 4e9).epsilon(1e-12));
}

TEST_CASE("prices that a device has no constant for are shared by layers, slices and keys") {
  Profile p = small_cpu();
  Device base = device_preset("cpu");
  base.memory_bandwidth = 1e20;
  base.peak_flops = 1e10;
  p.forward.stage = {.per_pack = 1e-5, .per_token = 2e-6};
  p.forward.layer.per_pack = 2e-6;
  p.backward.layer.per_slice = 3e-6;
  p.backward.layer.per_key = 1e-6;
  const Device d = device_of(p, base, {.stage_layers = 4, .slice = 100});
  CHECK(d.gemm_efficiency == Approx(768 / 1.5e-6 / 1e10).epsilon(1e-9));
  CHECK(d.gemm_backward_efficiency == Approx(2 * 768 / 2e-6 / 1e10).epsilon(1e-9));
  // Forward 10 + 4 * 2 us, backward 4 * 3 us.
  CHECK(d.pack_overhead == Approx(15e-6).epsilon(1e-12));
  // 100 keys, and 100 * 101 times 25 ns; at such a bandwidth, a prefix takes no time.
  CHECK(d.attention_backward == Approx(2.5 * 16 * 10100 / (100e-6 + 10100 * 2.5e-8) / 1e10).epsilon(1e-12));
  CHECK(d.attention_forward == Approx(16 / 1e-8 / 1e10).epsilon(1e-12));
}

TEST_CASE("whatever was measured gives a valid device") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const bool gpu = seed % 2 == 0;
    const Profile p = gpu ? testing::gpu_machine(seed) : testing::machine(seed, seed % 3 == 0);
    Device base = device_preset(gpu ? "h100" : "cpu");
    if (seed % 5 == 0) base.memory_bandwidth = base.peak_flops = 1.0;
    const Device d = device_of(p, base);
    CHECK_NOTHROW(validate(d));
    if (seed % 5 == 0 && !gpu) {
      // Nothing is known of a machine that is faster than it can be; its fastest operator sets the peak.
      CHECK(std::max({d.gemm_efficiency, d.gemm_backward_efficiency, d.attention_forward,
                      d.attention_backward}) == 1.0);
      CHECK(d.memory_bandwidth > 1e6);
    }
    // A vendor's peak: smaller fractions of more.
    const Device vendor = device_of(p, base, {.peak_flops = 4e15});
    CHECK(vendor.peak_flops == 4e15);
    CHECK(vendor.gemm_efficiency * vendor.peak_flops ==
          Approx(d.gemm_efficiency * d.peak_flops).epsilon(1e-12));
    CHECK(vendor.memory_bandwidth == d.memory_bandwidth);
  }
}

TEST_CASE("a device without a price for pairs has the base's attention; impossible options are refused") {
  Profile p = small_cpu();
  p.forward.layer.per_twice_pair = 0.0;
  const Device base = device_preset("cpu");
  const Device d = device_of(p, base);
  CHECK(d.attention_forward == base.attention_forward);
  CHECK(d.attention_backward != base.attention_backward);
  CHECK_THROWS_WITH(device_of(p, base, {.stage_layers = 0.0}), Catch::Contains("stage_layers is 0"));
  CHECK_THROWS_WITH(device_of(p, base, {.slice = 0}), Catch::Contains("slice is 0; expected 1 to 2^40"));
  CHECK_THROWS_WITH(device_of(p, base, {.peak_flops = -1.0}), Catch::Contains("peak_flops is -1"));
  p.forward.layer.per_token = 0.0;
  CHECK_THROWS_WITH(device_of(p, base), Catch::Contains("forward.layer.per_token is 0"));
  CHECK_THROWS_WITH(device_of(small_cpu(), Device{}), Catch::Contains("peak_flops is 0"));
}
