#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "slimpack/plan/plan.hpp"

namespace slimpack::testing {

/// A part of a sample, and the pack that runs it.
struct Piece {
  Tokens begin = 0, end = 0;
  PackId pack = 0;
};

/// [sample] what a pass cuts it into, in token order.
using Pieces = std::vector<std::vector<Piece>>;

inline Pieces pieces_of(const PassPlan& pass, std::size_t samples) {
  Pieces pieces(samples);
  for (std::size_t k = 0; k < pass.packs.size(); ++k) {
    for (const Slice& slice : pass.packs[k])
      pieces[slice.sample].push_back({slice.begin, slice.end, static_cast<PackId>(k)});
  }
  for (auto& own : pieces)
    std::sort(own.begin(), own.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  return pieces;
}

}  // namespace slimpack::testing
