#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/ragged.hpp"
#include "slimpack/schedule/leads.hpp"
#include "slimpack/schedule/memory_fit.hpp"
#include "slimpack/schedule/pack_overlaps.hpp"

namespace slimpack {

/// Tokens of one backward row that a stage holds.
struct HeldTokens {
  std::uint32_t backward_row;
  double tokens;
};

/// What a stage of a pipeline holds at each of its backward rows (the chunks windows of InfiniPipe, section 3.1.3), and how
/// many tokens times layers have to be recomputed there so that the rest fits.
struct CheckpointWindows {
  /// [backward row] Of rows that have not ended, ascending; empty where nothing has to be recomputed, or where the window before
  /// sees to it.
  Ragged<HeldTokens> held;
  /// [backward row] sum over `held` of tokens times recomputed layers, at least; infinite where recomputing saves nothing;
  /// 0 where `held` is empty for one of its reasons
  std::vector<double> needed;
};

/// Finds the windows of a stage. Recomputing a layer is taken to save what it saves at least, if layers differ, and a
/// backward pack to need the workspace of one that recomputes or offloads. Thus what meets the windows fits, but what
/// fits may miss them slightly.
/// @param overlaps of pipeline `p`, as `pack_overlaps` gives them. @param fit has loaded the same packs. @param[out]
/// out the windows. O(overlaps + rows * longest window).
inline void checkpoint_windows(std::span<const PackOverlap> overlaps, const LeadTable& leads, std::size_t p,
                               std::size_t s, const Memory& memory, const MemoryFit& fit,
                               PackWorkspace workspace, CheckpointWindows& out) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const std::size_t rows = leads.backward_rows();
  const double saved = memory.least_recompute_saving(s), most = memory.recompute_limit(s);
  const ExcessBytes excess = fit.excess(p, s, workspace);
  out.held.clear();
  out.needed.clear();
  std::vector<double> tokens(rows, 0.0);
  std::size_t next = 0, last = 0;
  double asked = 0.0;  // of the rows that are held, by the windows before
  for (std::size_t k = 0; k < rows; ++k) {
    for (; next < overlaps.size() && overlaps[next].forward_row < leads(k, s); ++next) {
      tokens[overlaps[next].backward_row] += overlaps[next].tokens;
      last = std::max(last, static_cast<std::size_t>(overlaps[next].backward_row) + 1);
    }
    const double bytes = excess(leads, k);
    double needed = bytes <= 0.0 ? 0.0 : saved > 0.0 ? bytes / saved : infinite;
    // Without a forward task in between, the last window's less what its first row recomputes at most are this one's.
    const bool follows = k > 0 && leads(k, s) == leads(k - 1, s);
    asked = follows ? asked - tokens[k - 1] * most : 0.0;
    if (needed <= asked) needed = 0.0;
    asked = std::max(asked, needed);
    for (std::size_t b = k; needed > 0.0 && b < last; ++b) {
      if (tokens[b] > 0.0) out.held.add({static_cast<std::uint32_t>(b), tokens[b]});
    }
    out.held.close();
    out.needed.push_back(needed);
  }
}

/// Tokens times layers that each stage recomputes at least with these leads, by windows that share no backward row;
/// infinite where recomputing saves nothing. @param[out] needed [pipeline * stages + stage]. @param fit has loaded the
/// packs. O(pipelines * (overlaps + stages * rows)).
inline void least_recomputed(const LeadTable& leads, const Memory& memory, MemoryFit& fit,
                             std::vector<double>& needed) {
  needed.clear();
  std::vector<std::size_t> last;  // [forward rows] backward row that holds a part of them
  for (std::size_t p = 0; p < fit.overlaps().size(); ++p) {
    last.assign(1, 0);
    for (const PackOverlap& part : fit.overlaps()[p]) {
      last.resize(std::max<std::size_t>(last.size(), part.forward_row + 2), last.back());
      last.back() = std::max<std::size_t>(last.back(), part.backward_row);
    }
    for (std::size_t s = 0; s < leads.stages(); ++s) {
      const double saved = memory.least_recompute_saving(s);
      const ExcessBytes excess = fit.excess(p, s, PackWorkspace::recomputing);
      double most = 0.0, sum = 0.0;
      for (std::size_t k = 0, next = 0; k < leads.backward_rows(); ++k) {
        const double own = excess(leads, k);
        if (own <= 0.0) continue;
        most = std::max(most, own);
        if (k < next) continue;
        sum += own;
        next = last[std::min<std::size_t>(leads(k, s), last.size() - 1)] + 1;
      }
      const double bytes = std::max(most, sum);
      needed.push_back(bytes == 0.0  ? 0.0
                       : saved > 0.0 ? bytes / saved
                                     : std::numeric_limits<double>::infinity());
    }
  }
}

/// The windows of all stages of all pipelines, [pipeline * stages + stage].
/// @param[out] out holds them, and keeps its memory between calls. @param fit has loaded the packs.
/// O(pipelines * stages * (overlaps + rows * longest window)).
inline std::span<const CheckpointWindows> checkpoint_windows(
    const LeadTable& leads, const Memory& memory, MemoryFit& fit, std::vector<CheckpointWindows>& out,
    PackWorkspace workspace = PackWorkspace::recomputing) {
  const auto& overlaps = fit.overlaps();
  const std::size_t count = overlaps.size() * leads.stages();
  out.resize(std::max(out.size(), count));
  for (std::size_t p = 0; p < overlaps.size(); ++p) {
    for (std::size_t s = 0; s < leads.stages(); ++s)
      checkpoint_windows(overlaps[p], leads, p, s, memory, fit, workspace, out[p * leads.stages() + s]);
  }
  return std::span(out).first(count);
}

}  // namespace slimpack
