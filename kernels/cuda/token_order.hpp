#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

/// The tokens of a pack by their ids, so that one block adds up all gradients of an embedding's row: no two
/// blocks write to the same row, and the order of the sum is that of the tokens.
struct TokenOrder {
  std::vector<std::int32_t> ids;     ///< those that occur, ascending
  std::vector<std::int32_t> begins;  ///< one more than `ids`: where their tokens begin in `tokens`
  std::vector<std::int32_t> tokens;  ///< of each id, ascending
};

/// @param ids [tokens], each below vocab
/// @throws InvalidInput naming the first id out of range, or if there are more than 2^31 - 1 tokens.
/// O(tokens log tokens).
[[nodiscard]] inline TokenOrder token_order(std::span<const std::int32_t> ids, std::int32_t vocab) {
  require(ids.size() <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), "there are ",
          ids.size(), " tokens; expected at most 2147483647 in a pack");
  for (std::size_t t = 0; t < ids.size(); ++t) {
    require(ids[t] >= 0 && ids[t] < vocab, "token ", t, " has id ", ids[t],
            "; expected a number below the vocabulary of ", vocab);
  }
  TokenOrder order;
  order.tokens.resize(ids.size());
  std::iota(order.tokens.begin(), order.tokens.end(), 0);
  const auto id = [&](std::int32_t token) { return ids[static_cast<std::size_t>(token)]; };
  std::stable_sort(order.tokens.begin(), order.tokens.end(),
                   [&](std::int32_t a, std::int32_t b) { return id(a) < id(b); });
  for (std::size_t i = 0; i < order.tokens.size(); ++i) {
    if (i > 0 && id(order.tokens[i]) == order.ids.back()) continue;
    order.ids.push_back(id(order.tokens[i]));
    order.begins.push_back(static_cast<std::int32_t>(i));
  }
  order.begins.push_back(static_cast<std::int32_t>(ids.size()));
  return order;
}

}  // namespace slimpack::kernels::cuda
