// Prices a slice with the headers alone.
#include <cstdio>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/model/presets.hpp"

int main() {
  const slimpack::Job job{.model = slimpack::transformer_preset("llama-7b"),
                          .device = slimpack::device_preset("h100"),
                          .layout = {.dp = 1, .tp = 8, .pp = 2}};
  const double seconds =
      slimpack::CalibratedCost(job).slice_seconds(0, 20000, 23000, slimpack::Pass::forward);
  std::printf("%.3g s\n", seconds);
  return seconds > 0.0 ? 0 : 1;
}
