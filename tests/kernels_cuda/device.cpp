#include "kernels/cuda/device.hpp"

#include <catch2/catch.hpp>

#include "slimpack/core/error.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using namespace slimpack::kernels::cuda;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

}  // namespace

TEST_CASE("what hinders a GPU is said with what to do about it") {
  const DeviceProbe good{.driver = 13000, .runtime = 13000, .count = 2, .failure = ""};
  CHECK_NOTHROW(require_reachable(good, 1));
  CHECK_NOTHROW(require_reachable({.driver = 13020, .runtime = 13010, .count = 1, .failure = ""}, 0));
  CHECK_NOTHROW(require_reachable({.driver = 13000, .runtime = 13010, .count = 1, .failure = ""}, 0));
  CHECK_THROWS_WITH(require_reachable({.driver = 0, .runtime = 13000, .count = 0, .failure = ""}, 0),
                    "no NVIDIA driver answers on this machine; expected one that serves CUDA 13.0: install "
                    "it, or run without --device cuda");
  CHECK_THROWS_WITH(require_reachable({.driver = 12080, .runtime = 13000, .count = 1, .failure = ""}, 0),
                    "the NVIDIA driver serves CUDA up to 12.8, but this program was built with CUDA 13.0; "
                    "expected a driver for CUDA 13 or newer");
  CHECK_THROWS_WITH(
      require_reachable({.driver = 13000, .runtime = 13000, .count = 0, .failure = "system not yet ready"},
                        0),
      Catch::Contains("can't list GPUs: system not yet ready"));
  CHECK_THROWS_WITH(require_reachable({.driver = 13000, .runtime = 13000, .count = 0, .failure = ""}, 0),
                    Catch::StartsWith("the NVIDIA driver sees no GPU"));
  CHECK_THROWS_WITH(require_reachable(good, 2),
                    "GPU 2 is asked for, but there are 2; expected a number from 0 to 1");
  CHECK_THROWS_AS(require_reachable(good, -1), InvalidInput);
}

TEST_CASE("a GPU that is too old or too full is named with what is missing") {
  cuda::Device device;
  device.name = "Some GPU";
  device.major = 8;
  device.memory = 100 * mib;
  device.free_memory = 40 * mib;
  CHECK_NOTHROW(require_capable(device, {.memory = 40 * mib}));
  CHECK_THROWS_WITH(
      require_capable(device, {.memory = 40 * mib + 1, .what = "stage 3"}),
      "stage 3 on GPU 0 (Some GPU, 100.0 MiB) needs 40.1 MiB, but 40.0 MiB are there; expected 1 bytes more");
  CHECK_THROWS_WITH(refuse_memory(device, {.memory = 42 * mib, .what = "stage 3"}),
                    Catch::EndsWith("needs 42.0 MiB, but 40.0 MiB are there; expected 2.0 MiB more"));
  CHECK_THROWS_WITH(refuse_memory(device, {.memory = 30 * mib, .what = "stage 3"}),
                    "stage 3 needs 30.0 MiB, which GPU 0 (Some GPU) refuses, with 40.0 MiB free; expected as "
                    "much in one piece");
  device.major = 7;
  device.minor = 5;
  CHECK_THROWS_WITH(require_capable(device, {}),
                    "GPU 0 (Some GPU) has compute capability 7.5; expected at least 8.0");
}

TEST_CASE("a machine's GPU is checked in order, and what it lacks is named") {
  struct Machine {
    int driver = 13000, major = 9;
    bool coded = true;
    int asked = 0;  ///< for devices
    DeviceProbe probe() const { return {.driver = driver, .runtime = 13000, .count = 2, .failure = ""}; }
    cuda::Device device(int index) {
      ++asked;
      cuda::Device device{.index = index, .name = "Some GPU", .major = major};
      device.memory = device.free_memory = 100 * mib;
      return device;
    }
    bool has_code(const cuda::Device&) const { return coded; }
  };
  CHECK(choose_device(Machine{}, {.index = 1}).index == 1);
  CHECK_THROWS_WITH(choose_device(Machine{.major = 7}, {}), Catch::Contains("has compute capability 7.0"));
  CHECK_THROWS_WITH(
      choose_device(Machine{.coded = false}, {.index = 1}),
      "slimpack has no code for GPU 1 (Some GPU, compute capability 9.0); expected it among the "
      "build's SLIMPACK_CUDA_ARCHITECTURES");
  Machine old{.driver = 0};
  CHECK_THROWS_WITH(choose_device(old, {}), Catch::StartsWith("no NVIDIA driver answers"));
  CHECK(old.asked == 0);
}

#ifdef SLIMPACK_TEST_CUDA
TEST_CASE("asking for a GPU gives one that can be used, or says why not") {
  const DeviceProbe probe = probe_devices();
  CHECK(probe.runtime >= 12080);
  bool reachable = true;
  try {
    require_reachable(probe, 0);
  } catch (const InvalidInput&) {
    reachable = false;
  }
  if (reachable) {
    const cuda::Device device = use_device();
    CHECK(device.multiprocessors > 0);
    CHECK(device.free_memory <= device.memory);
    CHECK_THROWS_AS(use_device({.memory = device.memory * 2}), InvalidInput);
  } else {
    CHECK_THROWS_AS(use_device(), InvalidInput);
  }
  CHECK_THROWS_AS(use_device({.index = 1 << 20}), InvalidInput);
}
#endif
