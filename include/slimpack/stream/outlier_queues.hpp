#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/stream/delay_statistics.hpp"
#include "slimpack/stream/document.hpp"

namespace slimpack {

/// When outliers leave their queues.
enum class OutlierRelease : std::uint8_t {
  /// When a queue holds as many documents as there are micro-batches, that many leave it, oldest first
  /// (WLB-LLM, Algorithm 1, lines 12 to 17).
  full_queue,
  /// As soon as the iteration can carry them: those with the least workload, as many as keep each below
  /// `target_imbalance` times the mean of the micro-batches. All queues count as one.
  balanced,
};

/// The largest `OutlierDelayOptions::max_tokens`.
inline constexpr Tokens most_micro_batch_tokens = Tokens{1} << 36;

struct OutlierDelayOptions {
  std::size_t micro_batches = 1;  ///< of an iteration: pipeline stages times data-parallel replicas
  Tokens max_tokens = 0;          ///< of a micro-batch (L_max)
  /// L1 < L2 < …: documents of L1 tokens or more are outliers; queue i takes those from threshold i to the
  /// next. Without thresholds, only documents that find no room wait.
  std::vector<Tokens> thresholds = {};
  std::int64_t max_delay = 32;  ///< iterations after which a document leaves regardless; 0: at once
  OutlierRelease release = OutlierRelease::full_queue;
  double target_imbalance = 1.05;  ///< 1 or more; for `OutlierRelease::balanced`
  bool refine = true;              ///< local search after the greedy packing
  friend bool operator==(const OutlierDelayOptions&, const OutlierDelayOptions&) = default;
};

/// A document that was pushed and is not yet trained.
struct WaitingDocument {
  Document document;
  std::int64_t arrived = 0;  ///< iteration in which it was pushed
  /// Its micro-batch in a packing of its whole batch. Whatever is left of the batch when it is due finds room
  /// there.
  std::uint32_t home = 0;
  friend bool operator==(const WaitingDocument&, const WaitingDocument&) = default;
};

/// Everything that a stream remembers from one iteration to the next.
struct OutlierDelayState {
  std::int64_t iteration = 0;                        ///< the next one
  std::vector<std::vector<WaitingDocument>> queues;  ///< [threshold] oldest first
  std::vector<WaitingDocument> carried;              ///< found no room; oldest first
  DelayStatistics statistics;
  friend bool operator==(const OutlierDelayState&, const OutlierDelayState&) = default;
};

/// All documents that wait: those that found no room, then those of the queues.
[[nodiscard]] inline std::vector<Document> waiting_documents(const OutlierDelayState& state) {
  std::vector<Document> documents;
  const auto add = [&](const std::vector<WaitingDocument>& list) {
    for (const WaitingDocument& waiting : list) documents.push_back(waiting.document);
  };
  add(state.carried);
  for (const auto& queue : state.queues) add(queue);
  return documents;
}

/// What a stream keeps of the iteration that it packed last, to pack it again for a caller who did not get it.
struct LastIteration {
  OutlierDelayState before;     ///< the state that it was packed from
  std::uint64_t documents = 0;  ///< hash of its batch; that of no documents if it was drained
  friend bool operator==(const LastIteration&, const LastIteration&) = default;
};

/// @throws InvalidInput naming the first option that makes no sense.
inline void validate(const OutlierDelayOptions& options) {
  require(options.micro_batches >= 1 && options.micro_batches <= std::size_t{1} << 24, "micro_batches is ",
          options.micro_batches, "; expected 1 to 2^24");
  require(options.max_tokens >= 1 && options.max_tokens <= most_micro_batch_tokens, "max_tokens is ",
          options.max_tokens, "; expected 1 to 2^36");
  require(options.max_delay >= 0 && options.max_delay <= 1 << 24, "max_delay is ", options.max_delay,
          " iterations; expected 0 to 2^24");
  require(options.target_imbalance >= 1.0 && options.target_imbalance <= std::numeric_limits<double>::max(),
          "target_imbalance is ", options.target_imbalance, "; expected 1 or more");
  for (std::size_t i = 0; i < options.thresholds.size(); ++i) {
    const Tokens below = i == 0 ? 0 : options.thresholds[i - 1];
    require(options.thresholds[i] > below, "threshold ", i, " is ", options.thresholds[i],
            " tokens; expected more than ", below, i == 0 ? "" : ", the threshold before it");
    require(options.thresholds[i] <= options.max_tokens, "threshold ", i, " is ", options.thresholds[i],
            " tokens; expected at most the ", options.max_tokens, " of a micro-batch");
  }
}

namespace detail {

/// Moves the documents for which `taken` holds from one list to the end of another, in order.
template <class Taken>
void take_if(std::vector<WaitingDocument>& from, std::vector<WaitingDocument>& to, Taken&& taken) {
  std::size_t kept = 0;
  for (const WaitingDocument& waiting : from) {
    if (taken(waiting)) {
      to.push_back(waiting);
    } else {
      from[kept++] = waiting;
    }
  }
  from.resize(kept);
}

/// Puts new outliers into their queues, and appends other documents to `pending`.
inline void enqueue(std::span<const WaitingDocument> batch, std::span<const Tokens> thresholds,
                    std::vector<std::vector<WaitingDocument>>& queues,
                    std::vector<WaitingDocument>& pending) {
  for (const WaitingDocument& waiting : batch) {
    const auto above = std::upper_bound(thresholds.begin(), thresholds.end(), waiting.document.length);
    if (above == thresholds.begin()) {
      pending.push_back(waiting);
    } else {
      queues[static_cast<std::size_t>(above - thresholds.begin()) - 1].push_back(waiting);
    }
  }
}

/// Takes the oldest documents out of every queue that holds as many as there are micro-batches.
inline void release_full(std::size_t micro_batches, std::vector<std::vector<WaitingDocument>>& queues,
                         std::vector<WaitingDocument>& pending) {
  for (auto& queue : queues) {
    if (queue.size() < micro_batches) continue;
    const auto end = queue.begin() + static_cast<std::ptrdiff_t>(micro_batches);
    pending.insert(pending.end(), queue.begin(), end);
    queue.erase(queue.begin(), end);
  }
}

/// Takes the outliers with the least workload out of the queues, as many as the micro-batches can balance.
/// Complexity: O(p + q log q) for p pending and q queued documents.
template <class Workload>
void release_balanced(const OutlierDelayOptions& options, const Workload& workload,
                      std::vector<std::vector<WaitingDocument>>& queues,
                      std::vector<WaitingDocument>& pending) {
  struct Candidate {
    double workload;
    WaitingDocument waiting;
  };
  std::vector<Candidate> candidates;
  for (const auto& queue : queues) {
    for (const WaitingDocument& waiting : queue)
      candidates.push_back({static_cast<double>(workload(waiting.document.length)), waiting});
  }
  if (candidates.empty()) return;
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.workload < b.workload || (a.workload == b.workload && a.waiting.arrived < b.waiting.arrived);
  });
  double work = 0.0;
  Tokens tokens = 0;
  for (const WaitingDocument& waiting : pending) {
    work += workload(waiting.document.length);
    tokens += waiting.document.length;
  }
  const auto bins = static_cast<double>(options.micro_batches);
  std::size_t released = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    work += candidates[i].workload;
    tokens += candidates[i].waiting.document.length;
    if (tokens > static_cast<Tokens>(options.micro_batches) * options.max_tokens) break;
    if (candidates[i].workload * bins <= options.target_imbalance * work) released = i + 1;
  }
  for (auto& queue : queues) queue.clear();
  for (std::size_t i = 0; i < released; ++i) pending.push_back(candidates[i].waiting);
  std::vector<WaitingDocument> rest;
  for (std::size_t i = released; i < candidates.size(); ++i) rest.push_back(candidates[i].waiting);
  std::stable_sort(rest.begin(), rest.end(),
                   [](const WaitingDocument& a, const WaitingDocument& b) { return a.arrived < b.arrived; });
  enqueue(rest, options.thresholds, queues, pending);
}

}  // namespace detail

}  // namespace slimpack
