#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/strategy/proposal.hpp"

namespace slimpack::detail {

/// Schemes that no other one makes superfluous: with no more devices a pipeline it holds samples as long, and needs no more
/// device-seconds for any interval. Ascending. O(schemes² * intervals).
[[nodiscard]] inline std::vector<std::size_t> efficient_schemes(std::span<const ProposalScheme> schemes) {
  const auto beats = [&](std::size_t j, std::size_t k) {
    const ProposalScheme &own = schemes[j], &other = schemes[k];
    if (own.ranks > other.ranks || own.max_tokens < other.max_tokens) return false;
    const double more = static_cast<double>(own.ranks) / static_cast<double>(other.ranks);
    bool less = own.ranks < other.ranks || own.max_tokens > other.max_tokens || j < k;
    for (std::size_t l = 0; l < own.seconds.size(); ++l) {
      if (own.seconds[l] * more > other.seconds[l]) return false;
      less = less || own.seconds[l] * more < other.seconds[l];
    }
    return less;
  };
  std::vector<std::size_t> kept;
  for (std::size_t k = 0; k < schemes.size(); ++k) {
    bool beaten = schemes[k].max_tokens == 0;
    for (std::size_t j = 0; !beaten && j < schemes.size(); ++j) beaten = j != k && beats(j, k);
    if (!beaten) kept.push_back(k);
  }
  return kept;
}

}  // namespace slimpack::detail
