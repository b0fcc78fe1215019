#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/core/packs.hpp"

namespace slimpack {

/// What a loader does with a document that crosses the end of a sequence.
enum class SequenceEnd : std::uint8_t {
  next,      ///< it begins the next sequence, whole; the rest of this one stays empty
  split,     ///< it is cut there; the rest begins the next sequence as a document of its own
  truncate,  ///< it is cut there; the rest is dropped
};

/// Documents in sequences, in their order. Slices are documents of their own: none attends to another one.
struct Sequences {
  Packs sequences;     ///< slices of documents, which are numbered in the given order
  Tokens dropped = 0;  ///< with `truncate`
};

/// Fills sequences of `context` tokens with documents in data order, as Plain-4D's loader does.
/// @throws InvalidInput if the context or a length is not positive, or, with `next`, a document is longer
/// than the context. O(documents), and O(tokens / context) with `split`.
[[nodiscard]] inline Sequences fill_sequences(std::span<const Tokens> lengths, Tokens context,
                                              SequenceEnd end = SequenceEnd::next) {
  require(context > 0, "context is ", context, "; expected a positive number of tokens");
  require(lengths.size() <= 0xffffffffu, lengths.size(), " documents; expected at most 4294967295");
  Sequences result;
  Tokens room = context;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require(lengths[i] > 0, "document ", i, " has ", lengths[i], " tokens; expected a positive number");
    require(lengths[i] <= context || end != SequenceEnd::next, "document ", i, " has ", lengths[i],
            " tokens; expected at most the context of ", context, ", because documents stay whole");
    for (Tokens begin = 0; begin < lengths[i];) {
      const Tokens rest = lengths[i] - begin;
      if (room == 0 || (rest > room && end == SequenceEnd::next)) {
        result.sequences.close();
        room = context;
      }
      const Tokens taken = std::min(rest, room);
      result.sequences.add({static_cast<SampleId>(i), begin, begin + taken});
      room -= taken;
      begin += taken;
      if (end == SequenceEnd::truncate) {
        result.dropped += lengths[i] - begin;
        break;
      }
    }
  }
  if (room < context) result.sequences.close();
  return result;
}

/// Global batches of whole documents: where each begins, then the end. A batch fills `micro_batches`
/// sequences of `context` tokens in data order, with whole documents (`SequenceEnd::next`).
/// @throws InvalidInput as fill_sequences does, or if there is no micro-batch. O(documents).
[[nodiscard]] inline std::vector<std::size_t> global_batches(std::span<const Tokens> lengths, Tokens context,
                                                             std::size_t micro_batches) {
  require(micro_batches >= 1, "0 micro-batches; expected at least 1");
  const Packs sequences = fill_sequences(lengths, context).sequences;
  std::vector<std::size_t> begin;
  for (std::size_t s = 0; s < sequences.size(); s += micro_batches) begin.push_back(sequences[s][0].sample);
  begin.push_back(lengths.size());
  return begin;
}

/// Sequences of each global batch by itself (`fill_sequences`), with the documents' places in `lengths`. Every batch gets as
/// many sequences; empty ones are added where needed.
/// @param batches where each batch begins, and the end. @param[in,out] micro_batches of each batch; 0: as many as the largest
/// needs, rounded up to a multiple of `replicas`.
/// @throws InvalidInput as `fill_sequences`, or if a batch fills more than `micro_batches`. O(documents).
[[nodiscard]] inline Packs batch_sequences(std::span<const Tokens> lengths,
                                           std::span<const std::size_t> batches, Tokens context,
                                           std::size_t replicas, std::size_t& micro_batches) {
  std::vector<Packs> each;
  std::size_t most = 0;
  for (std::size_t b = 0; b + 1 < batches.size(); ++b) {
    each.push_back(
        fill_sequences(lengths.subspan(batches[b], batches[b + 1] - batches[b]), context).sequences);
    most = std::max(most, each.back().size());
  }
  if (micro_batches == 0) micro_batches = (most + replicas - 1) / replicas * replicas;
  require(most <= micro_batches, "a global batch fills ", most, " sequences of ", context,
          " tokens; expected at most the ", micro_batches, " micro-batches of an iteration");
  Packs all;
  for (std::size_t b = 0; b < each.size(); ++b) {
    for (std::size_t k = 0; k < micro_batches; ++k) {
      for (const Slice& slice : k < each[b].size() ? each[b][k] : std::span<const Slice>{})
        all.add({slice.sample + static_cast<SampleId>(batches[b]), slice.begin, slice.end});
      all.close();
    }
  }
  return all;
}

}  // namespace slimpack
