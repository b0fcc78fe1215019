#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "slimpack/stream/document.hpp"

namespace test {

using slimpack::Document;
using slimpack::Tokens;

/// A 7B model's time of a document, in units of one token's dense products.
inline double work_of(Tokens length) {
  const auto s = static_cast<double>(length);
  return s + s * s / 49408.0;
}

/// Batches of documents with long tails, each of at most `batch_tokens`.
inline std::vector<std::vector<Document>> random_batches(unsigned seed, std::size_t count,
                                                         Tokens batch_tokens, Tokens longest) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> body(7.5, 1.2);
  std::vector<std::vector<Document>> batches(count);
  std::uint64_t id = 1000 * seed;
  for (auto& batch : batches) {
    Tokens room = batch_tokens;
    for (;;) {
      const double draw = random() % 50 == 0
                              ? static_cast<double>(longest) * (0.3 + 0.7 * body(random) / 8000)
                              : body(random);
      const Tokens length = std::clamp<Tokens>(static_cast<Tokens>(draw), 1, longest);
      if (length > room) break;
      room -= length;
      batch.push_back({id++, length});
    }
    if (batch.empty()) batch.push_back({id++, 1});
  }
  return batches;
}

}  // namespace test
