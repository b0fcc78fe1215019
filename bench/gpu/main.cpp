// Checks the CUDA back end's kernels, and whole steps, against the CPU's in double, and times kernels and a
// stage. Usage: bench_gpu [--check | --check-kernels | --time] [--profile FILE] [SEED]
// Exit codes: 0, 1 if a result is wrong, 2 if there is no GPU or the arguments are wrong.
#include <charconv>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <string_view>

#include "bench/gpu/gpu.hpp"
#include "kernels/cuda/device.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::bench {

void Checks::add(const std::string& what, double error) {
  for (Line& line : lines_) {
    if (line.what != what) continue;
    ++line.count;
    if (!(error <= line.worst)) line.worst = error;
    return;
  }
  lines_.push_back({what, 1, error});
}

bool Checks::report() const {
  bool good = true;
  std::printf("| result | checks | worst relative error |  |\n| --- | --- | --- | --- |\n");
  for (const Line& line : lines_) {
    const bool within = line.worst <= bound;
    good = good && within;
    std::printf("| %s | %zu | %.1e | %s |\n", line.what.c_str(), line.count, line.worst,
                within ? "ok" : "WRONG");
  }
  return good;
}

namespace {

int run(int argc, char** argv) {
  bool checks = true, times = true, steps = true;
  unsigned seed = std::random_device{}();
  std::string profile_file;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--check") {
      times = false;
    } else if (argument == "--check-kernels") {
      times = steps = false;
    } else if (argument == "--time") {
      checks = false;
    } else if (argument == "--profile" && i + 1 < argc) {
      profile_file = argv[++i];
    } else {
      const auto [end, error] = std::from_chars(argument.data(), argument.data() + argument.size(), seed);
      require(error == std::errc{} && end == argument.data() + argument.size(), "the argument is ", argument,
              "; expected --check, --check-kernels, --time, --profile FILE or a seed");
    }
  }
  const auto device = kernels::cuda::use_device({.memory = std::size_t{24} << 30U, .what = "this program"});
  std::printf("%s, compute capability %d.%d, seed %u\n\n", device.name.c_str(), device.major, device.minor,
              seed);
  bool good = true;
  if (checks) {
    Checks all;
    check_operators(all, seed);
    check_attention(all, seed);
    if (steps) check_stage(all, seed);
    good = all.report();
  }
  if (good && times) time_stage(time_kernels(seed), profile_file);
  return good ? 0 : 1;
}

}  // namespace

}  // namespace slimpack::bench

int main(int argc, char** argv) {
  try {
    return slimpack::bench::run(argc, argv);
  } catch (const slimpack::InvalidInput& error) {
    std::fprintf(stderr, "bench_gpu: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gpu: %s\n", error.what());
    return 1;
  }
}
