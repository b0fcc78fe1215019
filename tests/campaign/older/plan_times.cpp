// Prints how long plan_slimpack takes, whatever version of the library this is compiled with: mean over batches of the least of five
// runs. times.sh compiles it with two. Usage: plan_times NAME SAMPLES < LENGTHS

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace {

using slimpack::Tokens;

/// Llama 13B on 128 H100, of which 16 pipelines have 8 stages each.
slimpack::Job timed_job() {
  return {.model = slimpack::transformer_preset("llama-13b"),
          .device = slimpack::device_preset("h100"),
          .layout = {.dp = 16, .pp = 8}};
}

double least_milliseconds(std::span<const Tokens> batch, const slimpack::SlimPackOptions& options) {
  const slimpack::Job job = timed_job();
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 5; ++run) {
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(slimpack::plan_slimpack(batch, job, options));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  return least;
}

void print_times(const std::string& name, const std::vector<Tokens>& lengths, std::size_t samples,
                 const slimpack::SlimPackOptions& options) {
  std::printf("%-16s", name.c_str());
  for (const Tokens context : {65536, 131072, 262144}) {
    std::vector<Tokens> cut = lengths;
    for (Tokens& length : cut) length = std::min(length, context);
    double sum = 0.0;
    int batches = 0;
    for (std::size_t at = 0; at + samples <= cut.size() && batches < 4; at += samples, ++batches)
      sum += least_milliseconds(std::span(cut).subspan(at, samples), options);
    std::printf(" %10.2f", sum / batches);
  }
  std::printf("\n");
}

/// Where this version has a quick search.
template <class Options>
void print_quick(const std::vector<Tokens>& lengths, std::size_t samples, Options options) {
  if constexpr (requires { options.search.thorough; }) {
    options.search.thorough = false;
    print_times("quick", lengths, samples, options);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: plan_times NAME SAMPLES < LENGTHS\n";
    return 2;
  }
  const std::vector<Tokens> lengths(std::istream_iterator<Tokens>(std::cin), {});
  const std::size_t samples = std::stoul(argv[2]);
  print_times(argv[1], lengths, samples, {});
  print_quick(lengths, samples, slimpack::SlimPackOptions{});
}
