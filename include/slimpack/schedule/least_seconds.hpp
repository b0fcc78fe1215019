#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/schedule/schedule.hpp"

namespace slimpack {

/// A bound of the schedules of priced packs that costs little. Keeps its memory between calls.
class LeastSeconds {
 public:
  /// @param stages of each pipeline.
  explicit LeastSeconds(std::size_t stages) : stages_(stages) {}

  /// Seconds that every order of the rows takes at least: each stage of a pipeline runs all its packs, after the first
  /// forward pack has passed the stages before it, and before the last backward pack passes them.
  /// @param more seconds that each stage takes at least beyond its packs' prices, [pipeline * stages + stage]; empty: none.
  /// O(packs * members * stages).
  [[nodiscard]] double operator()(const Schedule& out, std::span<const double> more = {}) {
    work_.assign(out.pipelines * stages_, 0.0);
    std::copy(more.begin(), more.end(), work_.begin());
    first_.assign(out.pipelines, no_pack);
    last_.assign(out.pipelines, no_pack);
    const auto add = [&](const PackRows& rows, const PassTimes& times) {
      for (std::size_t k = 0; k < rows.packs.size(); ++k) {
        for (const std::uint32_t p : rows.members[k]) {
          for (std::size_t s = 0; s < stages_; ++s) work_[p * stages_ + s] += times.seconds[k * stages_ + s];
        }
      }
    };
    add(out.forward, out.forward_times);
    add(out.backward, out.backward_times);
    find_ends(out);
    double most = 0.0;
    for (std::size_t p = 0; p < out.pipelines; ++p) {
      double around = 0.0;
      for (std::size_t s = 0; s < stages_; ++s) {
        most = std::max(most, work_[p * stages_ + s] + around);
        if (s + 1 == stages_) break;
        around += passage(out.forward_times, first_[p], s) + passage(out.backward_times, last_[p], s);
      }
    }
    return most;
  }

 private:
  /// The first forward and the last backward pack of each pipeline.
  void find_ends(const Schedule& out) {
    for (std::size_t r = out.forward.rows.size(); r-- > 0;) {
      for (const PackId pack : out.forward.rows[r]) {
        for (const std::uint32_t p : out.forward.members[pack]) first_[p] = pack;
      }
    }
    for (std::size_t r = 0; r < out.backward.rows.size(); ++r) {
      for (const PackId pack : out.backward.rows[r]) {
        for (const std::uint32_t p : out.backward.members[pack]) last_[p] = pack;
      }
    }
  }

  /// Seconds of a pack on a stage, and between it and the next one.
  [[nodiscard]] double passage(const PassTimes& times, PackId pack, std::size_t s) const {
    return pack == no_pack ? 0.0
                           : times.seconds[pack * stages_ + s] + times.transfer[pack * (stages_ - 1) + s];
  }

  std::size_t stages_;
  std::vector<double> work_;          // [pipeline * stages + stage]
  std::vector<PackId> first_, last_;  // [pipeline] forward pack, backward pack
};

}  // namespace slimpack
