#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "slimpack/core/ids.hpp"

namespace bench {

/// `count` lengths from a file, truncated to `most`; after its end, more are drawn from it at random
/// (seeded). The environment variable names the file, or else it is `fallback`; without either, lengths come
/// from a seeded log-normal distribution (mu 8, sigma 1.5).
inline std::vector<slimpack::Tokens> lengths(std::size_t count, slimpack::Tokens most, const char* variable,
                                             const std::string& fallback = "") {
  const char* named = std::getenv(variable);
  std::ifstream file(named != nullptr ? named : fallback.c_str());
  std::vector<slimpack::Tokens> read;
  for (slimpack::Tokens n = 0; read.size() < count && file >> n;) read.push_back(std::min(n, most));
  std::mt19937_64 random(1);
  if (read.empty()) {
    std::lognormal_distribution<double> distribution(8.0, 1.5);
    while (read.size() < count) {
      read.push_back(std::clamp(static_cast<slimpack::Tokens>(std::llround(distribution(random))),
                                slimpack::Tokens{32}, most));
    }
  }
  std::uniform_int_distribution<std::size_t> known(0, read.size() - 1);
  while (read.size() < count) read.push_back(read[known(random)]);
  return read;
}

}  // namespace bench
