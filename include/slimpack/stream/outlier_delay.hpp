#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/stream/iteration_packing.hpp"
#include "slimpack/stream/outlier_queues.hpp"
#include "slimpack/stream/state.hpp"

namespace slimpack {

/// Packing of variable length with outlier delay (WLB-LLM, section 4 and Algorithm 1) as a stream: a global
/// batch goes in, the micro-batches of one iteration come out. Long documents wait in queues until the
/// iteration can balance them.
///
/// Every document comes out exactly once, and no later than `max_delay` iterations after it was pushed. This
/// is guaranteed because a batch is accepted only if it fits into one iteration by itself: whatever is left
/// of it when it is due, all from the same batch, has its place there and is packed before anything else if
/// necessary.
///
/// A document overtakes another of its queue, or one that found no room, only if an iteration can't hold the
/// older one. If not all tokens fit, the oldest documents are packed first.
template <DocumentWorkload Workload>
class OutlierDelayStream {
 public:
  /// @throws InvalidInput naming the first option that makes no sense.
  OutlierDelayStream(OutlierDelayOptions options, Workload workload)
      : options_(std::move(options)), workload_(std::move(workload)) {
    validate(options_);
    state_.queues.resize(options_.thresholds.size());
  }

  /// Adds a global batch, in data order, and packs the next iteration.
  /// @throws InvalidInput, leaving the stream unchanged, if there is no document; one has no tokens, more
  /// than max_tokens, the id of another in the batch or waiting, or a workload that is negative or not
  /// finite; or the batch does not fit into an iteration. Complexity: O(n log n + n micro_batches) for n
  /// documents that are new or wait, plus the local search.
  [[nodiscard]] PackedIteration push(std::span<const Document> batch) {
    require(!batch.empty(), "the batch has no documents; expected at least one");
    return take(batch);
  }

  /// The same under a number, for callers who may not get what they asked for, and ask again: the next iteration
  /// is packed as `push(batch)` does; the one that was packed last is packed again as it was, which changes
  /// nothing. @throws InvalidInput, leaving the stream unchanged, as `push(batch)` and `state_before`, or if that
  /// iteration was packed from other documents, or by a stream that packs otherwise.
  [[nodiscard]] PackedIteration push(std::int64_t iteration, std::span<const Document> batch) {
    require(!batch.empty(), "the batch has no documents; expected at least one");
    return is_next(iteration) ? take(batch) : again(iteration, batch);
  }

  /// Whether no document waits.
  [[nodiscard]] bool empty() const {
    return state_.carried.empty() &&
           std::all_of(state_.queues.begin(), state_.queues.end(), [](const auto& q) { return q.empty(); });
  }

  /// Packs an iteration at the end of the data: as many of the waiting documents as fit, the oldest first.
  /// @throws InvalidInput if nothing waits.
  [[nodiscard]] PackedIteration drain() {
    require(!empty(), "nothing waits; expected documents to drain");
    return take({});
  }

  /// The same under a number, as `push(iteration, batch)`.
  [[nodiscard]] PackedIteration drain(std::int64_t iteration) {
    return is_next(iteration) ? drain() : again(iteration, {});
  }

  /// All iterations until no document waits. The stream can be used again afterwards.
  [[nodiscard]] std::vector<PackedIteration> flush() {
    std::vector<PackedIteration> iterations;
    while (!empty()) iterations.push_back(drain());
    return iterations;
  }

  [[nodiscard]] const OutlierDelayOptions& options() const { return options_; }
  /// The documents that wait, and statistics of all iterations so far.
  [[nodiscard]] const OutlierDelayState& state() const { return state_; }
  [[nodiscard]] const DelayStatistics& statistics() const { return state_.statistics; }
  /// What an iteration is packed from: the next one, `state().iteration`, or the one that was packed last.
  /// @throws InvalidInput naming both, if it is neither.
  [[nodiscard]] const OutlierDelayState& state_before(std::int64_t iteration) const {
    if (is_next(iteration)) return state_;
    require(last_ && iteration == last_->before.iteration, "iteration is ", iteration, "; expected ",
            state_.iteration, ", the next one",
            last_                  ? concat(", or ", last_->before.iteration, ", the last one, again")
            : state_.iteration > 0 ? std::string(": the state does not keep the last one")
                                   : std::string());
    return last_->before;
  }

  /// The state as bytes, to be restored in a stream with the same options and workload; the same on every
  /// platform. @param result a fingerprint of what the caller made of the last iteration, for
  /// `saved_result`. @see stream/state.hpp
  [[nodiscard]] std::string save(std::uint64_t result = 0) const {
    return save_state({state_, last_, result}, options_, samples());
  }

  /// Continues from a saved state: the same batches give the same iterations as they would have given there.
  /// @throws InvalidInput, leaving the stream unchanged, if the bytes are not such a state, were truncated or
  /// changed, or come from other options or another workload.
  void restore(std::string_view bytes) {
    SavedStream saved = load_state(bytes, options_, samples());
    state_ = std::move(saved.state);
    last_ = std::move(saved.last);
  }

 private:
  /// An iteration, and the state that it leaves.
  struct Step {
    PackedIteration packed;
    OutlierDelayState after;
  };

  [[nodiscard]] bool is_next(std::int64_t iteration) const { return iteration == state_.iteration; }

  /// Packs the next iteration. @param batch none: of what waits.
  PackedIteration take(std::span<const Document> batch) {
    Step step = packed_from(state_, batch);
    last_ = {.before = std::move(state_), .documents = documents_hash(batch)};
    state_ = std::move(step.after);
    return std::move(step.packed);
  }

  /// Packs the last iteration again.
  [[nodiscard]] PackedIteration again(std::int64_t iteration, std::span<const Document> batch) const {
    const OutlierDelayState& before = state_before(iteration);
    require(documents_hash(batch) == last_->documents, "iteration ", iteration,
            " was packed from other documents; expected the same in the same order, or iteration ",
            state_.iteration);
    Step step = packed_from(before, batch);
    require(step.after.queues == state_.queues && step.after.carried == state_.carried, "iteration ",
            iteration, " would not leave the documents that wait since it was packed; expected ",
            "the version of slimpack that packed it, or iteration ", state_.iteration);
    return std::move(step.packed);
  }

  /// Values that distinguish workloads.
  [[nodiscard]] std::vector<double> samples() const {
    std::vector<double> values;
    for (Tokens length = 1; length < options_.max_tokens; length *= 2) values.push_back(workload_(length));
    values.push_back(workload_(options_.max_tokens));
    return values;
  }

  /// The batch with its places, after everything was checked.
  [[nodiscard]] std::vector<WaitingDocument> arrivals(const OutlierDelayState& from,
                                                      std::span<const Document> batch) const {
    std::vector<Tokens> lengths(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      lengths[i] = batch[i].length;
      require(lengths[i] >= 1 && lengths[i] <= options_.max_tokens, "document ", batch[i].id, " (number ", i,
              " of the batch) has ", lengths[i], " tokens; expected 1 to the ", options_.max_tokens,
              " that a micro-batch can hold");
      const double work = workload_(lengths[i]);
      require(work >= 0.0 && std::isfinite(work), "the workload of document ", batch[i].id, " (number ", i,
              " of the batch, ", lengths[i], " tokens) is ", work,
              "; expected a finite number, not negative");
    }
    check_ids(from, batch);
    const std::vector<std::uint32_t> home = detail::home_micro_batches(lengths, options_);
    std::vector<WaitingDocument> result(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) result[i] = {batch[i], from.iteration, home[i]};
    return result;
  }

  static void check_ids(const OutlierDelayState& from, std::span<const Document> batch) {
    std::vector<std::uint64_t> ids(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) ids[i] = batch[i].id;
    if (!std::is_sorted(ids.begin(), ids.end())) std::sort(ids.begin(), ids.end());
    const auto twice = std::adjacent_find(ids.begin(), ids.end());
    require(twice == ids.end(), "document ", twice == ids.end() ? 0 : *twice,
            " occurs twice in the batch; expected every id once");
    const auto check = [&](const std::vector<WaitingDocument>& list) {
      for (const WaitingDocument& waiting : list) {
        require(!std::binary_search(ids.begin(), ids.end(), waiting.document.id), "document ",
                waiting.document.id, " is in the batch and waits since iteration ", waiting.arrived,
                "; expected every id once");
      }
    };
    for (const auto& queue : from.queues) check(queue);
    check(from.carried);
  }

  /// @param batch none: an iteration at the end of the data.
  [[nodiscard]] Step packed_from(const OutlierDelayState& from, std::span<const Document> batch) const {
    const bool ending = batch.empty();
    std::vector<WaitingDocument> arrived;
    if (!ending) arrived = arrivals(from, batch);
    OutlierDelayState next = from;
    std::vector<WaitingDocument> pending = std::move(next.carried);
    next.carried.clear();
    detail::enqueue(arrived, options_.thresholds, next.queues, pending);
    const auto is_due = [&](const WaitingDocument& waiting) {
      return next.iteration - waiting.arrived >= options_.max_delay;
    };
    for (auto& queue : next.queues) {
      detail::take_if(queue, pending, [&](const auto& waiting) { return ending || is_due(waiting); });
    }
    if (options_.release == OutlierRelease::full_queue) {
      detail::release_full(options_.micro_batches, next.queues, pending);
    } else {
      detail::release_balanced(options_, workload_, next.queues, pending);
    }
    std::stable_sort(pending.begin(), pending.end(),
                     [](const auto& a, const auto& b) { return a.arrived < b.arrived; });
    const auto due = static_cast<std::size_t>(std::partition_point(pending.begin(), pending.end(), is_due) -
                                              pending.begin());
    PackedIteration packed = pack(pending, due, next);
    next.statistics.add(packed);
    ++next.iteration;
    return {std::move(packed), std::move(next)};
  }

  /// Packs the pending documents, oldest first, as far as tokens allow; the others are carried over.
  [[nodiscard]] PackedIteration pack(std::span<const WaitingDocument> pending, std::size_t due,
                                     OutlierDelayState& next) const {
    std::vector<double> work;
    std::vector<Tokens> lengths;
    Tokens room = static_cast<Tokens>(options_.micro_batches) * options_.max_tokens;
    for (const WaitingDocument& waiting : pending) {
      if (waiting.document.length > room) break;
      room -= waiting.document.length;
      lengths.push_back(waiting.document.length);
      work.push_back(workload_(waiting.document.length));
    }
    const auto admitted = pending.first(work.size());
    auto packed = detail::pack_with_due(work, lengths, admitted, due, options_);
    if (options_.refine) detail::refine(work, lengths, options_.max_tokens, packed);
    const auto& bin = packed.assignment.bin;
    for (std::size_t i = 0; i < pending.size(); ++i) {
      if (i >= work.size() || bin[i] == unassigned) next.carried.push_back(pending[i]);
    }
    return detail::gather(next.iteration, admitted, work, bin, options_.micro_batches);
  }

  OutlierDelayOptions options_;
  Workload workload_;
  OutlierDelayState state_;
  std::optional<LastIteration> last_;
};

}  // namespace slimpack
