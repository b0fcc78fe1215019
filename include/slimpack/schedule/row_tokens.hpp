#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "slimpack/schedule/pack_shares.hpp"
#include "slimpack/schedule/schedule.hpp"

namespace slimpack {

/// What the rows of a pass bring to one pipeline.
struct PassRowTokens {
  /// A pack that no other exceeds that as many pipelines share in the same way.
  struct Largest {
    std::size_t sharers;
    KeyExchange exchange;
    Tokens own;  ///< on the pipeline
    Tokens all;
  };

  std::vector<PackId> pack;           ///< [row] that the pipeline runs
  std::vector<Tokens> own;            ///< [row] tokens on the pipeline, rounded up
  std::vector<KeyExchange> exchange;  ///< [row] of keys between the pack's members
  std::vector<double> sums;           ///< [row + 1] tokens on the pipeline of the rows before
  std::vector<double> started;  ///< [row + 1] the same of samples that end in these rows, all their tokens
  std::vector<Largest> largest;
};

/// What the rows of both passes bring to each of some pipelines. Keeps its memory between calls.
class RowTokens {
 public:
  /// @param lengths of all samples. @param ranks context-parallel ranks of each pipeline.
  explicit RowTokens(std::span<const Tokens> lengths, std::size_t ranks = 1)
      : lengths_(lengths), ranks_(ranks) {}

  /// O(slices * members).
  void load(const Schedule& packs) {
    forward_.resize(packs.pipelines);
    backward_.resize(packs.pipelines);
    add_pass({packs.forward, packs.forward_times.sharing, ranks_}, forward_, forward_all_);
    add_pass({packs.backward, packs.backward_times.sharing, ranks_}, backward_, backward_all_);
  }

  [[nodiscard]] std::size_t pipelines() const { return forward_.size(); }
  [[nodiscard]] std::size_t ranks() const { return ranks_; }
  [[nodiscard]] const PassRowTokens& of(std::size_t p, Pass pass) const {
    return (pass == Pass::forward ? forward_ : backward_)[p];
  }
  /// Tokens of a pack, of all pipelines together.
  [[nodiscard]] Tokens all(Pass pass, PackId pack) const {
    return (pass == Pass::forward ? forward_all_ : backward_all_)[pack];
  }

 private:
  void add_pass(const PackShares& shares, std::vector<PassRowTokens>& out, std::vector<Tokens>& all) {
    const PackRows& rows = shares.rows;
    all.resize(rows.packs.size());
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = count_tokens(rows.packs[k]);
    for (PassRowTokens& own : out) {
      own.pack.assign(rows.rows.size(), no_pack);
      own.own.assign(rows.rows.size(), 0);
      own.exchange.assign(rows.rows.size(), KeyExchange::none);
      own.sums.assign(rows.rows.size() + 1, 0.0);
      own.started.assign(rows.rows.size() + 1, 0.0);
      own.largest.clear();
    }
    for (std::size_t r = 0; r < rows.rows.size(); ++r) {
      for (const PackId pack : rows.rows[r]) add_pack(shares, pack, r, all[pack], out);
    }
    for (PassRowTokens& own : out) {
      for (std::size_t r = 0; r < rows.rows.size(); ++r) {
        own.sums[r + 1] += own.sums[r];
        own.started[r + 1] += own.started[r];
      }
    }
  }

  void add_pack(const PackShares& shares, PackId pack, std::size_t r, Tokens all,
                std::vector<PassRowTokens>& out) {
    const std::span<const Slice> slices = shares.rows.packs[pack];
    ended_.clear();
    for (const Slice& slice : slices) {
      if (slice.end == lengths_[slice.sample]) ended_.push_back({slice.sample, 0, slice.end});
    }
    const auto members = shares.rows.members[pack];
    double tokens = 0.0, started = 0.0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const MemberShare share = shares(pack, i);
      if (i == 0 || !share.equal()) {
        tokens = share(slices);
        started = share(ended_);
      }
      PassRowTokens& own = out[members[i]];
      own.pack[r] = pack;
      own.own[r] = static_cast<Tokens>(std::ceil(tokens));
      own.exchange[r] = shares.exchange(pack);
      own.sums[r + 1] = tokens;
      own.started[r + 1] = started;
      add_largest({shares.rows.sharers[pack], shares.exchange(pack), own.own[r], all}, own.largest);
    }
  }

  static void add_largest(const PassRowTokens::Largest& pack, std::vector<PassRowTokens::Largest>& largest) {
    const auto exceeds = [](const PassRowTokens::Largest& one, const PassRowTokens::Largest& other) {
      return one.sharers == other.sharers && one.exchange == other.exchange && one.own >= other.own &&
             one.all >= other.all;
    };
    if (std::any_of(largest.begin(), largest.end(), [&](const auto& known) { return exceeds(known, pack); }))
      return;
    std::erase_if(largest, [&](const auto& known) { return exceeds(pack, known); });
    largest.push_back(pack);
  }

  std::span<const Tokens> lengths_;
  std::size_t ranks_;
  std::vector<PassRowTokens> forward_, backward_;   // [pipeline]
  std::vector<Tokens> forward_all_, backward_all_;  // [pack]
  std::vector<Slice> ended_;  // samples that end in the pack looked at, all their tokens
};

}  // namespace slimpack
