#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/math/attention.hpp"
#include "kernels/math/matrix.hpp"

// Packs in the midst of what a stage's memory may hold: left-overs that are no numbers.
namespace slimpack::bench {

inline constexpr kernels::cuda::Bf16 no_number{0x7fff};

/// Slices moved apart: rows that no slice owns stand before, between and after them, of queries and of keys.
struct SpreadPack {
  std::vector<kernels::cuda::AttentionSlice> slices;
  std::size_t tokens = 0, cache = 0;
};

/// @param slices as `attention_work` takes them, without rows between samples. @param most rows of a gap
[[nodiscard]] inline SpreadPack spread(std::mt19937& random,
                                       std::span<const kernels::cuda::AttentionSlice> slices,
                                       std::int32_t most = 150) {
  std::uniform_int_distribution<std::int32_t> gap(1, most);
  SpreadPack out{.slices = {slices.begin(), slices.end()}};
  std::map<std::int32_t, std::int32_t> seen;  // of each sample, by the row where its keys begin
  for (const auto& s : slices) seen[s.key_begin] = std::max(seen[s.key_begin], s.seen());
  std::map<std::int32_t, std::int32_t> begins;
  std::int32_t key = gap(random), query = gap(random);
  for (const auto& [begin, keys] : seen) {
    begins[begin] = key;
    key += keys + gap(random);
  }
  for (auto& s : out.slices) {
    s.key_begin = begins.at(s.key_begin);
    s.query_begin = query;
    query += s.tokens + gap(random);
  }
  out.tokens = static_cast<std::size_t>(query), out.cache = static_cast<std::size_t>(key);
  return out;
}

/// Which rows of queries, or of keys, belong to a slice.
[[nodiscard]] inline std::vector<bool> owned_queries(const SpreadPack& pack) {
  std::vector<bool> owned(pack.tokens);
  for (const auto& s : pack.slices) std::fill_n(owned.begin() + s.query_begin, s.tokens, true);
  return owned;
}
[[nodiscard]] inline std::vector<bool> owned_keys(const SpreadPack& pack) {
  std::vector<bool> owned(pack.cache);
  for (const auto& s : pack.slices) std::fill_n(owned.begin() + s.key_begin, s.seen(), true);
  return owned;
}

/// Rows of a wider matrix, as a layer's are among those of others: all but the owned ones, and what stands next to
/// them, is no number.
[[nodiscard]] inline std::vector<kernels::cuda::Bf16> poisoned_rows(std::mt19937& random,
                                                                    const std::vector<bool>& owned,
                                                                    std::size_t cols, std::size_t stride) {
  std::normal_distribution<float> normal;
  std::vector<kernels::cuda::Bf16> out(owned.size() * stride, no_number);
  for (std::size_t r = 0; r < owned.size(); ++r) {
    for (std::size_t i = 0; owned[r] && i < cols; ++i)
      out[r * stride + i] = kernels::cuda::to_bf16(normal(random));
  }
  return out;
}

/// Whether all that is not owned still has the bits that it began with. @param begun of all these numbers
template <class T>
[[nodiscard]] bool others_untouched(const std::vector<T>& numbers, const std::vector<bool>& owned,
                                    std::size_t stride, std::span<const std::byte> begun) {
  for (std::size_t r = 0; r < owned.size(); ++r) {
    if (owned[r]) continue;
    for (std::size_t i = 0; i < stride; ++i) {
      const auto bytes = std::as_bytes(std::span(&numbers[r * stride + i], 1));
      if (!std::equal(bytes.begin(), bytes.end(), begun.begin())) return false;
    }
  }
  return true;
}

/// The owned rows, one after another.
template <class T>
[[nodiscard]] std::vector<T> owned_rows(const std::vector<T>& numbers, const std::vector<bool>& owned,
                                        std::size_t cols, std::size_t stride) {
  std::vector<T> out;
  out.reserve(owned.size() * cols);
  for (std::size_t r = 0; r < owned.size(); ++r) {
    if (!owned[r]) continue;
    const auto row = numbers.begin() + static_cast<std::ptrdiff_t>(r * stride);
    out.insert(out.end(), row, row + static_cast<std::ptrdiff_t>(cols));
  }
  return out;
}

}  // namespace slimpack::bench
