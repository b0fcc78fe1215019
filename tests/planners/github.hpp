#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/model/presets.hpp"

// Real lengths, and a job like the paper's.
namespace oracle {

using namespace slimpack;

/// The first lengths of the examples' file, cut to the context; from its start again at its end.
inline std::vector<Tokens> github(std::size_t count, Tokens context) {
  std::ifstream file(SLIMPACK_SOURCE_DIR "/examples/data/github.train.txt");
  std::vector<Tokens> all;
  for (Tokens length = 0; file >> length;) all.push_back(length);
  REQUIRE(!all.empty());
  std::vector<Tokens> lengths;
  for (std::size_t i = 0; i < count; ++i) lengths.push_back(std::min(context, all[i % all.size()]));
  return lengths;
}

inline Job llama_13b(std::int32_t dp, std::int32_t pp, std::int32_t tp = 1) {
  return {.model = transformer_preset("llama-13b"),
          .device = device_preset("h100"),
          .layout = {.dp = dp, .tp = tp, .pp = pp}};
}

}  // namespace oracle
