#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "slimpack/partition/dispatch.hpp"

namespace test {

using namespace slimpack;

/// Samples of one pipeline for Eq. 1 of Hydraulis.
struct PipelineSamples {
  std::vector<double> seconds;
  std::vector<Tokens> tokens;
  PipelineKind kind;
  double pack_seconds = 0.0;
  Tokens useful_tokens = 1;  ///< UtilLen(P), at most MaxLen(P)
};

/// Light tails or heavy ones, ample memory or little. @param most samples.
inline PipelineSamples random_pipeline_samples(unsigned seed, int most) {
  std::mt19937 random(seed);
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  PipelineSamples c;
  for (int i = pick(1, most); i > 0; --i) {
    c.tokens.push_back(seed % 3 == 0 ? pick(50, 100) : pick(1, pick(1, 200)));
    const auto n = static_cast<double>(c.tokens.back());
    c.seconds.push_back(n + n * n / 100.0);
  }
  c.kind.stages = static_cast<std::size_t>(pick(1, 5));
  c.kind.max_tokens = *std::max_element(c.tokens.begin(), c.tokens.end()) + pick(0, seed % 2 == 0 ? 20 : 300);
  c.pack_seconds = pick(0, 1) == 0 ? 0.0 : pick(1, 30);
  c.useful_tokens = pick(1, static_cast<int>(c.kind.max_tokens));
  return c;
}

}  // namespace test
