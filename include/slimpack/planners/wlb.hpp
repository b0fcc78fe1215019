#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/planners/documents.hpp"
#include "slimpack/planners/wlb_options.hpp"
#include "slimpack/planners/wlb_stream.hpp"
#include "slimpack/stream/outlier_delay.hpp"

namespace slimpack {

/// WLB-LLM: a global batch goes in, the plan of one iteration comes out. Long documents wait until an iteration
/// can balance them, short ones fill micro-batches of varying length up to equal workload (section 4); replicas
/// get equal work; each micro-batch is sharded so that its slowest context-parallel rank is fastest
/// (section 5); 1F1B.
///
/// The plan's samples are the batch's documents in their order, then those that were already waiting. `document_ids`
/// has their ids, `deferred` the samples that wait now. Over all iterations, every document is trained exactly
/// once, at most `max_delay` iterations after it arrived.
class WlbPlanner {
 public:
  /// @param models of a pipeline of the job's layout.
  /// @throws InvalidInput naming the first option that makes no sense.
  WlbPlanner(Job job, PricedModels models, WlbOptions options = {})
      : planner_(std::make_shared<MicroBatchPlanner>(
            std::move(job), std::move(models),
            MicroBatchOptions{.sharding = options.sharding, .order = options.order})),
        stream_(resolved_stream_options(std::move(options), planner_->job().layout, planner_->memory()),
                Workload{planner_}) {}

  /// The same with models of any type. @throws InvalidInput also if the job is impossible or does not match the models.
  template <CostModel C, MemoryModel M, BoundedAttentionModel A>
  WlbPlanner(const Job& job, const C& cost, const M& memory, const A& attention, WlbOptions options = {})
      : WlbPlanner(job, price_models(job, cost, memory, attention), std::move(options)) {}

  /// Copies would share state: move the planner, or save and restore its state.
  WlbPlanner(const WlbPlanner&) = delete;
  WlbPlanner& operator=(const WlbPlanner&) = delete;
  WlbPlanner(WlbPlanner&&) noexcept = default;
  WlbPlanner& operator=(WlbPlanner&&) noexcept = default;
  ~WlbPlanner() = default;

  /// Plans the next iteration. @param batch a global batch in data order.
  /// @throws InvalidInput as `OutlierDelayStream::push` or `MicroBatchPlanner::plan`, or if the batch has fewer
  /// tokens than there are context-parallel ranks; nothing has then changed. Complexity: that of these two.
  [[nodiscard]] Plan push(std::span<const Document> batch) { return push(state().iteration, batch); }

  /// The same under a number, for callers who may not get the plan that they asked for, and ask again: the next
  /// iteration, `state().iteration`, or the last one, which is planned again as it was and changes nothing.
  /// @throws InvalidInput as `push(batch)`, or as `OutlierDelayStream::push` for another number or other documents;
  /// nothing has then changed.
  [[nodiscard]] Plan push(std::int64_t iteration, std::span<const Document> batch) {
    require_shardable(batch, planner_->job().layout.cp);
    Stream next = stream_;
    const PackedIteration packed = next.push(iteration, batch);
    return finish(std::move(next), packed, batch);
  }

  /// Plans an iteration of waiting documents, the oldest first, at the end of the data.
  /// @throws InvalidInput if nothing waits, or as `MicroBatchPlanner::plan`; nothing has then changed.
  [[nodiscard]] Plan drain() { return drain(state().iteration); }

  /// The same under a number, as `push(iteration, batch)`.
  [[nodiscard]] Plan drain(std::int64_t iteration) {
    Stream next = stream_;
    const PackedIteration packed = next.drain(iteration);
    return finish(std::move(next), packed, {});
  }

  /// Whether no document waits.
  [[nodiscard]] bool empty() const { return stream_.empty(); }
  [[nodiscard]] const OutlierDelayOptions& options() const { return stream_.options(); }
  /// Delays and imbalance so far.
  [[nodiscard]] const DelayStatistics& statistics() const { return stream_.statistics(); }
  [[nodiscard]] const OutlierDelayState& state() const { return stream_.state(); }

  /// What the planner remembers, as bytes; see `OutlierDelayStream::save`.
  [[nodiscard]] std::string save(std::uint64_t result = 0) const { return stream_.save(result); }
  /// Continues from the saved state of a planner with the same job, models and options.
  /// @throws InvalidInput as `OutlierDelayStream::restore`; nothing has then changed.
  void restore(std::string_view bytes) { stream_.restore(bytes); }

 private:
  struct Workload {
    std::shared_ptr<const MicroBatchPlanner> planner;
    double operator()(Tokens length) const { return planner->document_seconds(length); }
  };
  using Stream = OutlierDelayStream<Workload>;

  /// Plans what the stream packed, then takes over the stream as it is then.
  Plan finish(Stream next, const PackedIteration& packed, std::span<const Document> batch) {
    std::vector<Document> known(batch.begin(), batch.end());
    const std::vector<Document> before = waiting_documents(stream_.state_before(packed.iteration));
    known.insert(known.end(), before.begin(), before.end());
    Plan plan = plan_documents("wlb", packed, known, *planner_);
    stream_ = std::move(next);
    return plan;
  }

  std::shared_ptr<MicroBatchPlanner> planner_;
  Stream stream_;
};

/// A planner with the calibrated cost model, the transformer's memory model and the device's assumed attention table.
[[nodiscard]] inline WlbPlanner wlb_planner(const Job& job, const WlbOptions& options = {}) {
  return {job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job), options};
}

}  // namespace slimpack
