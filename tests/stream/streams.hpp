#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/stream/outlier_delay.hpp"
#include "tests/stream/corpus.hpp"

namespace test {

using slimpack::OutlierDelayOptions;
using slimpack::OutlierRelease;

using Stream = slimpack::OutlierDelayStream<double (*)(Tokens)>;

/// One of many kinds of streams.
inline OutlierDelayOptions some_options(unsigned seed) {
  return {.micro_batches = 2 + seed % 3,
          .max_tokens = 80000,
          .thresholds = seed % 3 == 0 ? std::vector<Tokens>{20000} : std::vector<Tokens>{12000, 30000},
          .max_delay = static_cast<std::int64_t>(seed % 9),
          .release = seed % 2 == 0 ? OutlierRelease::full_queue : OutlierRelease::balanced,
          .refine = seed % 4 < 2};
}

/// The batches of its data; each fits into an iteration.
inline std::vector<std::vector<Document>> some_batches(unsigned seed) {
  const auto micro_batches = static_cast<Tokens>(2 + seed % 3);
  return random_batches(seed, 25, (micro_batches + 1) * 40000, 60000);
}

/// A stream in the middle of its data, with documents waiting.
inline Stream running_stream(unsigned seed, std::size_t batches = 12) {
  Stream stream(some_options(seed), work_of);
  const auto all = some_batches(seed);
  for (std::size_t b = 0; b < batches; ++b) static_cast<void>(stream.push(all[b]));
  return stream;
}

}  // namespace test
