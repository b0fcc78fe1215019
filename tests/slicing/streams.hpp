#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/slicing/micropack.hpp"
#include "slimpack/slicing/sample_stream.hpp"

namespace test {

/// Llama 7B on four stages, its samples shared by so many context-parallel ranks.
inline slimpack::CalibratedCost cost_of(std::int32_t cp) {
  return slimpack::CalibratedCost({slimpack::transformer_preset("llama-7b"),
                                   slimpack::device_preset("h100"),
                                   {.dp = 1, .tp = 2, .cp = cp, .pp = 4}});
}

/// Samples of these lengths, priced, numbered from `first`.
inline std::vector<slimpack::StreamSample> stream(const std::vector<slimpack::Tokens>& lengths,
                                                  const slimpack::CalibratedCost& cost, slimpack::Pass pass,
                                                  slimpack::SampleId first = 0) {
  std::vector<slimpack::StreamSample> samples;
  for (slimpack::SampleId i = 0; i < lengths.size(); ++i)
    samples.push_back({first + i, lengths[i], cost.pipeline_seconds(0, lengths[i], pass)});
  return samples;
}

/// One call of `MicroPackCutter` for samples without a sequence of their own.
inline void cut_micropacks(std::span<const slimpack::StreamSample> samples, std::size_t packs,
                           const slimpack::SlicePrices& prices, const slimpack::MicroPackOptions& options,
                           slimpack::Packs& out) {
  slimpack::MicroPackCutter().cut({.samples = samples}, packs, prices, options, out);
}

}  // namespace test
