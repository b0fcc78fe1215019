#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/task_io.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/sharding/sample_owners.hpp"

// What members of a merged pack that share attention by tokens pass around (Liu et al., Ring Attention). Each
// member holds the keys and values of its own tokens. They are passed around in windows, each of the same rows of every
// member, so that all have something to send however tokens are dealt: of each window, a member has its own rows first, and
// in round r those of the member r places before it.
namespace slimpack::kernels::cuda {

/// Rows of what each member holds of a sample, whose keys are passed around together.
struct RingPiece {
  std::size_t slice = 0;       ///< of the task, whose queries see them
  Slice keys;                  ///< all that these see: the sample up to the slice's end
  Tokens first = 0, rows = 0;  ///< of each member; some may have fewer
};

/// What is passed around at a time: members' rows are those of the pieces, consecutively.
struct RingWindow {
  std::vector<RingPiece> pieces;
};

/// Keys and values that come to a member, and what its attention does with them.
struct RingRound {
  std::size_t window = 0;
  std::size_t distance = 1;  ///< of the member before it whose keys they are
  std::size_t rows = 0;      ///< of them
  AttentionItems items;      ///< in the device's memory
};

/// Cuts the keys that a task's slices see into windows of at most `ring_tokens` rows of each member.
/// O(slices * members + pieces), times log ranges where samples are not dealt by position.
[[nodiscard]] inline std::vector<RingWindow> ring_windows(const StageTask& task, std::size_t ring_tokens,
                                                          const SampleOwners& owners) {
  const auto most = static_cast<Tokens>(ring_tokens);
  std::vector<RingWindow> windows;
  Tokens room = 0;  // in the last window
  for (std::size_t i = 0; i < task.slices.size(); ++i) {
    const Slice keys{task.slices[i].sample, 0, task.slices[i].end};
    Tokens all = 0;  // rows of the fullest member
    for (std::size_t member = 0; member < task.members.size(); ++member)
      all = std::max(all, owners.owned_tokens(keys, member));
    for (Tokens first = 0; first < all; first += most) {
      const Tokens rows = std::min(most, all - first);
      if (room < rows) {
        windows.emplace_back();
        room = most;
      }
      windows.back().pieces.push_back({i, keys, first, rows});
      room -= rows;
    }
  }
  return windows;
}

/// Rows of a piece that a member holds.
[[nodiscard]] inline std::size_t ring_rows(const RingPiece& piece, std::size_t member,
                                           const SampleOwners& owners) {
  return static_cast<std::size_t>(
      std::clamp(owners.owned_tokens(piece.keys, member) - piece.first, Tokens{0}, piece.rows));
}

/// Rows of a window that a member holds. O(pieces).
[[nodiscard]] inline std::size_t ring_rows(const RingWindow& window, std::size_t member,
                                           const SampleOwners& owners) {
  std::size_t rows = 0;
  for (const RingPiece& piece : window.pieces) rows += ring_rows(piece, member, owners);
  return rows;
}

/// Most rows of a window that any member holds. O(members * pieces).
[[nodiscard]] inline std::size_t most_ring_rows(const StageTask& task, std::size_t ring_tokens,
                                                const SampleOwners& owners) {
  std::size_t most = 0;
  for (const RingWindow& window : ring_windows(task, ring_tokens, owners)) {
    for (std::size_t member = 0; member < task.members.size(); ++member)
      most = std::max(most, ring_rows(window, member, owners));
  }
  return most;
}

/// What a member's own queries see of the keys that another one holds of a window: all queries between two of
/// the other's tokens the same ones. Queries are rows of `task.owned`, keys those of the other's window.
/// O(ranges of the slices that the member holds).
[[nodiscard]] inline std::vector<AttentionSlice> ring_slices(const RingWindow& window, const StageTask& task,
                                                             std::size_t other, const SampleOwners& owners) {
  std::vector<std::int32_t> rows(1, 0);  // of the slices' first own query
  for (const Slice& slice : task.slices) {
    rows.push_back(rows.back() + static_cast<std::int32_t>(owners.owned_tokens(slice, task.member)));
  }
  std::vector<AttentionSlice> slices;
  std::int32_t key = 0;
  for (const RingPiece& piece : window.pieces) {
    const Slice keys = owners.part_of_rows(piece.keys, other, piece.first, piece.rows);
    std::int32_t row = rows[piece.slice];
    bool is_first = true;
    owners.for_each_owned_range(task.slices[piece.slice], task.member, [&](const Slice& range) {
      const Slice before{range.sample, keys.begin, std::min(range.begin, keys.end)};
      const Tokens seen = before.begin < before.end ? owners.owned_tokens(before, other) : 0;
      const auto size = static_cast<std::int32_t>(range.size());
      if (seen > 0) {
        if (!is_first && slices.back().prefix == seen) {
          slices.back().tokens += size;
        } else {
          slices.push_back({.query_begin = row,
                            .tokens = size,
                            .key_begin = key,
                            .prefix = static_cast<std::int32_t>(seen),
                            .gradient_piece = 0,
                            .own_keys = 0});
        }
        is_first = false;
      }
      row += size;
    });
    key += static_cast<std::int32_t>(ring_rows(piece, other, owners));
  }
  return slices;
}

/// Bytes of what the host tells of a task's rounds, at most. O(rounds * ranges).
[[nodiscard]] inline std::size_t ring_data_bytes(const StageTask& task, std::size_t ring_tokens,
                                                 const SampleOwners& owners) {
  const auto blocks = [](std::int32_t tokens) {  // the smaller ones: the others are fewer
    return static_cast<std::size_t>((tokens + attention_rows - 1) / attention_rows);
  };
  std::size_t bytes = 0;
  for (const RingWindow& window : ring_windows(task, ring_tokens, owners)) {
    for (std::size_t other = 0; other < task.members.size(); ++other) {
      if (other == task.member) continue;
      const auto slices = ring_slices(window, task, other, owners);
      std::size_t queries = 0, keys = 0;
      for (std::size_t i = 0; i < slices.size(); ++i) {
        queries += blocks(slices[i].tokens);
        // A piece's slices see more and more of it: the last one all that any sees.
        if (i + 1 == slices.size() || slices[i + 1].key_begin != slices[i].key_begin)
          keys += blocks(slices[i].prefix);
      }
      bytes += TaskData::bytes_of<AttentionSlice>(slices.size()) + TaskData::bytes_of<QueryItem>(queries) +
               TaskData::bytes_of<KeyItem>(keys);
    }
  }
  return bytes;
}

}  // namespace slimpack::kernels::cuda
