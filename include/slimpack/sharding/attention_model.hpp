#pragma once

#include <concepts>
#include <span>

#include "slimpack/core/ids.hpp"
#include "slimpack/core/packs.hpp"

namespace slimpack {

/// Seconds that attention alone takes, for one layer on one device, in each pass.
struct AttentionSeconds {
  double forward = 0.0;
  double backward = 0.0;

  [[nodiscard]] constexpr double total() const { return forward + backward; }
  constexpr AttentionSeconds& operator+=(const AttentionSeconds& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
  friend bool operator==(const AttentionSeconds&, const AttentionSeconds&) = default;
};

/// What sharding needs to know about the attention kernel. One launch takes any number of chunks of queries
/// (a variable-length kernel); its time is a constant plus a sum over the chunks.
///
/// - `chunk_seconds(begin, end)`: the time of queries `[begin, end)` of a document, at least one, which
///   attend to keys `[0, end)` under the causal mask: `end - begin` rows of queries and `end` rows of keys.
/// - `launch_seconds()`: the constant of one launch.
template <class M>
concept AttentionModel = requires(const M& m, Tokens begin, Tokens end) {
  { m.chunk_seconds(begin, end) } -> std::convertible_to<AttentionSeconds>;
  { m.launch_seconds() } -> std::convertible_to<AttentionSeconds>;
};

/// An attention model that states its best rate, so that slices can be priced, and lower bounds stated, before it is
/// known how packs are shared. Planners take attention models of this kind.
///
/// - `least_seconds_per_twice_pair()`: no chunk takes less than this for each unit of its `twice_causal_pairs`.
template <class M>
concept BoundedAttentionModel = AttentionModel<M> && requires(const M& m) {
  { m.least_seconds_per_twice_pair() } -> std::convertible_to<AttentionSeconds>;
};

/// Seconds of the attention of all chunks of a rank in one launch; zero if there are none. O(chunks).
template <AttentionModel M>
[[nodiscard]] AttentionSeconds attention_seconds(const M& model, std::span<const Slice> chunks) {
  if (chunks.empty()) return {};
  AttentionSeconds sum = model.launch_seconds();
  for (const Slice& chunk : chunks) sum += model.chunk_seconds(chunk.begin, chunk.end);
  return sum;
}

}  // namespace slimpack
