#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "slimpack/core/packs.hpp"

namespace test {

using slimpack::Slice;
using slimpack::Tokens;

/// Lengths of one of six kinds, by seed: heavy tail, all equal, one document, single tokens, light tail, one
/// giant among short ones. At least one document, none above `most`.
inline std::vector<Tokens> random_lengths(unsigned seed, std::size_t count, Tokens most) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> heavy(6.0, 2.0);
  const auto uniform = [&](Tokens low, Tokens high) {
    return low + static_cast<Tokens>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  const Tokens same = uniform(1, most);
  std::vector<Tokens> lengths(std::max<std::size_t>(count, 1));
  if (seed % 6 == 2) lengths.resize(1);
  for (Tokens& n : lengths) {
    switch (seed % 6) {
      case 0:
        n = static_cast<Tokens>(std::llround(heavy(random)));
        break;
      case 1:
        n = same;
        break;
      case 2:
        n = uniform(1, most);
        break;
      case 3:
        n = 1;
        break;
      case 4:
        n = uniform(most / 2, most);
        break;
      default:
        n = uniform(1, 50);
        break;
    }
    n = std::clamp<Tokens>(n, 1, most);
  }
  if (seed % 6 == 5) lengths[lengths.size() / 2] = most;
  return lengths;
}

/// Documents of such lengths, some of them without their first tokens if `prefixes`.
inline std::vector<Slice> random_documents(unsigned seed, std::size_t count, Tokens most,
                                           bool prefixes = false) {
  std::mt19937_64 random(seed + 77);
  std::vector<Slice> documents;
  for (const Tokens n : random_lengths(seed, count, most)) {
    const Tokens begin = prefixes ? static_cast<Tokens>(random() % 1000) : 0;
    documents.push_back({static_cast<slimpack::SampleId>(documents.size()), begin, begin + n});
  }
  return documents;
}

inline std::string print(const std::vector<Slice>& documents) {
  std::string text;
  for (const Slice& d : documents) {
    text += "{" + std::to_string(d.begin) + ", " + std::to_string(d.end) + "} ";
  }
  return text;
}

}  // namespace test
