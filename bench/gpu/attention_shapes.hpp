#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/math/attention.hpp"

// The packs whose attention is timed, by our kernels and by libraries.
namespace slimpack::bench {

inline constexpr kernels::HeadShape timed_heads{.heads = 32, .kv_heads = 8, .head_dim = 128};

/// A pack, and the rows of keys and values that it sees.
struct AttentionShape {
  std::string name;
  std::vector<kernels::cuda::AttentionSlice> slices;
  std::int32_t keys = 0;

  [[nodiscard]] std::int32_t tokens() const { return slices.back().query_begin + slices.back().tokens; }
  /// Pairs of a query and a key that it sees.
  [[nodiscard]] double pairs() const {
    double sum = 0.0;
    for (const auto& s : slices) sum += static_cast<double>(s.tokens) * (s.prefix + (s.tokens + 1) / 2.0);
    return sum;
  }
};

/// A pack of whole samples.
[[nodiscard]] inline AttentionShape pack_of(std::string name, const std::vector<std::int32_t>& lengths) {
  AttentionShape shape{.name = std::move(name), .slices = {}};
  for (const std::int32_t length : lengths) {
    shape.slices.push_back({shape.keys, length, shape.keys, 0});
    shape.keys += length;
  }
  return shape;
}

/// Slices of 4096 tokens after prefixes, and packs of short samples.
[[nodiscard]] inline std::vector<AttentionShape> attention_shapes() {
  constexpr std::int32_t slice = 4096;
  std::vector<AttentionShape> shapes;
  for (const std::int32_t prefix : {0, 32768, 131072, 258048}) {
    shapes.push_back({std::to_string(slice) + " after " + std::to_string(prefix),
                      {{0, slice, 0, prefix}},
                      slice + prefix});
  }
  std::vector<std::int32_t> mixed(64);
  for (std::int32_t i = 0; i < 64; ++i) mixed[static_cast<std::size_t>(i)] = 32 + i * 37 % 480;
  shapes.push_back(pack_of("64 samples of 32 to 511", mixed));
  shapes.push_back(pack_of("256 samples of 128", std::vector<std::int32_t>(256, 128)));
  shapes.push_back(pack_of("32 samples of 1024", std::vector<std::int32_t>(32, 1024)));
  return shapes;
}

/// A shape as a line, for programs of other languages: its name, a tabulator, and tokens:prefix of each
/// slice, commas between.
[[nodiscard]] inline std::string to_line(const AttentionShape& shape) {
  std::string line = shape.name + "\t";
  for (const auto& s : shape.slices) {
    if (line.back() != '\t') line += ",";
    line += std::to_string(s.tokens) + ":" + std::to_string(s.prefix);
  }
  return line;
}

}  // namespace slimpack::bench
