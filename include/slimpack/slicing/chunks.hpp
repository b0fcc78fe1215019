#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/prices.hpp"

namespace slimpack {

/// What a chunk holds (InfiniPipe, section 3.1.1).
enum class ChunkKind : std::uint8_t {
  batched,  ///< whole samples
  split,    ///< a slice of a longer sample
  hybrid,   ///< the last slice of a longer sample, and whole samples
};

/// Samples in chunks. Those of one sample stand in token order, and no chunk ends two cut samples.
struct Chunks {
  Packs packs;
  std::vector<ChunkKind> kinds;  ///< [pack]

  /// Whether no sample is cut.
  [[nodiscard]] bool whole_samples() const {
    return std::all_of(kinds.begin(), kinds.end(), [](ChunkKind kind) { return kind == ChunkKind::batched; });
  }
};

/// Up to where chunks are filled.
struct ChunkLimits {
  std::vector<Tokens> mesh;  ///< sizes of the slices of samples that are longer than the first of them
  double seconds = std::numeric_limits<double>::infinity();
  Tokens tokens = 0;
};

/// Which chunk a whole sample joins, of those that have room for it.
enum class ChunkChoice : std::uint8_t {
  lightest,  ///< the one that takes least time for its tokens (InfiniPipe, Algorithm 1)
  fullest,   ///< the one with most tokens: best fit
  shortest,  ///< the one that takes least time, of as many as the limits need
};

namespace detail {

/// A chunk that takes whole samples as long as it has room.
struct ChunkBucket {
  std::vector<Slice> slices;
  double seconds = 0.0;
  Tokens tokens = 0;
  ChunkKind kind = ChunkKind::batched;

  void add(const Slice& slice, double more) {
    slices.push_back(slice);
    seconds += more;
    tokens += slice.size();
  }
};

/// Packs whole samples, longest first, into buckets, some of which hold the last slice of a cut sample.
class ChunkPacker {
 public:
  ChunkPacker(const SlicePrices& prices, const ChunkLimits& limits, ChunkChoice choice)
      : prices_(prices), seconds_limit_(limits.seconds), tokens_limit_(limits.tokens), choice_(choice) {}

  /// Adds the last slice of a cut sample. @returns its bucket.
  std::size_t add_tail(const Slice& tail) {
    buckets_.push_back({.slices = {}, .kind = ChunkKind::split});
    buckets_.back().add(tail, prices_(tail.begin, tail.end));
    return buckets_.size() - 1;
  }

  /// @param samples by falling length.
  void add_whole(std::span<const Slice> samples) {
    if (samples.empty()) return;
    least_tokens_ = samples.back().size();
    if (choice_ == ChunkChoice::shortest) add_empty(samples);
    for (std::size_t b = 0; b < buckets_.size(); ++b) open(b);
    for (const Slice& sample : samples) add_sample(sample, prices_(0, sample.end));
  }

  [[nodiscard]] std::vector<ChunkBucket>& buckets() { return buckets_; }

 private:
  /// Buckets in the order of choice.
  using Order = std::set<std::pair<double, std::size_t>>;

  [[nodiscard]] double rank(const ChunkBucket& bucket) const {
    const auto tokens = static_cast<double>(bucket.tokens);
    switch (choice_) {
      case ChunkChoice::lightest:
        return bucket.seconds / tokens;
      case ChunkChoice::fullest:
        return -tokens;
      default:
        return bucket.seconds;
    }
  }
  [[nodiscard]] bool has_tokens(const ChunkBucket& bucket, Tokens tokens) const {
    return bucket.tokens + tokens <= tokens_limit_;
  }

  /// Adds as many empty buckets as samples need besides the room that is left in others. Time is then divided equally,
  /// so it needs no limit.
  void add_empty(std::span<const Slice> samples) {
    double seconds = 0.0, tokens = 0.0;
    for (const Slice& sample : samples) {
      seconds += prices_(0, sample.end);
      tokens += static_cast<double>(sample.size());
    }
    for (const ChunkBucket& bucket : buckets_) {
      seconds -= std::max(0.0, seconds_limit_ - bucket.seconds);
      tokens -= static_cast<double>(tokens_limit_ - bucket.tokens);
    }
    const double needed =
        std::ceil(std::max({0.0, seconds / seconds_limit_, tokens / double(tokens_limit_)}));
    buckets_.resize(buckets_.size() + static_cast<std::size_t>(needed));
    seconds_limit_ = std::numeric_limits<double>::infinity();
  }

  void add_sample(const Slice& sample, double seconds) {
    const auto fits = std::find_if(open_.begin(), open_.end(), [&](const auto& entry) {
      const ChunkBucket& bucket = buckets_[entry.second];
      return has_tokens(bucket, sample.size()) && bucket.seconds + seconds <= seconds_limit_;
    });
    if (fits != open_.end()) return put(sample, seconds, fits);
    // Tokens have room where time has not: one limit of time for all chunks rises (Algorithm 1, line 14).
    auto least = open_.end();
    for (auto entry = open_.begin(); entry != open_.end(); ++entry) {
      if (has_tokens(buckets_[entry->second], sample.size()) &&
          (least == open_.end() || buckets_[entry->second].seconds < buckets_[least->second].seconds))
        least = entry;
    }
    if (least == open_.end()) return start(sample, seconds);
    seconds_limit_ = std::max(seconds_limit_, buckets_[least->second].seconds + seconds);
    put(sample, seconds, least);
  }

  void start(const Slice& sample, double seconds) {
    buckets_.emplace_back();
    buckets_.back().add(sample, seconds);
    open(buckets_.size() - 1);
  }

  void put(const Slice& sample, double seconds, Order::iterator entry) {
    const std::size_t b = entry->second;
    open_.erase(entry);
    buckets_[b].add(sample, seconds);
    if (buckets_[b].kind == ChunkKind::split) buckets_[b].kind = ChunkKind::hybrid;
    open(b);
  }

  /// Lists a bucket, unless it has no tokens left for any sample.
  void open(std::size_t b) {
    if (has_tokens(buckets_[b], least_tokens_)) open_.emplace(rank(buckets_[b]), b);
  }

  const SlicePrices& prices_;
  double seconds_limit_;
  Tokens tokens_limit_;
  ChunkChoice choice_;
  Tokens least_tokens_ = 0;
  std::vector<ChunkBucket> buckets_;
  Order open_;
};

/// The slices of a sample by a mesh. The last one may be smaller than the mesh's.
[[nodiscard]] inline std::vector<Slice> mesh_slices(SampleId id, Tokens length,
                                                    std::span<const Tokens> mesh) {
  std::vector<Slice> out;
  Tokens begin = 0;
  for (std::size_t i = 0; length - begin > mesh[i]; i = std::min(i + 1, mesh.size() - 1)) {
    out.push_back({id, begin, begin + mesh[i]});
    begin += mesh[i];
  }
  out.push_back({id, begin, length});
  return out;
}

}  // namespace detail

/// Cuts samples that are longer than the first slice of a mesh, and packs the others with each other or with the last
/// slices of cut samples.
/// @param lengths of all samples. @param samples those to cut. @param limits the last size of its mesh repeats as long
/// as a sample does.
/// @throws InvalidInput if the mesh is empty, or has a slice that is empty or above the limit of tokens. O(samples *
/// (log samples + chunks that have room)), mostly far less.
[[nodiscard]] inline Chunks pack_chunks(std::span<const Tokens> lengths, std::span<const SampleId> samples,
                                        const SlicePrices& prices, const ChunkLimits& limits,
                                        ChunkChoice choice) {
  require(!limits.mesh.empty(), "the mesh of chunks has no slices; expected at least one");
  for (std::size_t i = 0; i < limits.mesh.size(); ++i)
    require(limits.mesh[i] > 0 && limits.mesh[i] <= limits.tokens, "slice ", i, " of the mesh has ",
            limits.mesh[i], " tokens; expected 1 to the limit of ", limits.tokens);
  detail::ChunkPacker packer(prices, limits, choice);
  std::vector<std::vector<Slice>> cut;
  std::vector<Slice> whole;
  for (const SampleId id : samples) {
    if (lengths[id] <= limits.mesh.front()) {
      whole.push_back({id, 0, lengths[id]});
    } else {
      cut.push_back(detail::mesh_slices(id, lengths[id], limits.mesh));
      packer.add_tail(cut.back().back());
    }
  }
  std::stable_sort(whole.begin(), whole.end(), [](const Slice& a, const Slice& b) { return a.end > b.end; });
  packer.add_whole(whole);
  Chunks out;
  const auto append = [&](std::span<const Slice> slices, ChunkKind kind) {
    out.packs.repeat_row(1, slices);
    out.kinds.push_back(kind);
  };
  const std::vector<detail::ChunkBucket>& buckets = packer.buckets();
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (std::size_t i = 0; b < cut.size() && i + 1 < cut[b].size(); ++i)
      append({&cut[b][i], 1}, ChunkKind::split);
    if (!buckets[b].slices.empty()) append(buckets[b].slices, buckets[b].kind);
  }
  return out;
}

}  // namespace slimpack
