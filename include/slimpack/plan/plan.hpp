#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/flops.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/model/transformer.hpp"
#include "slimpack/schedule/task.hpp"
#include "slimpack/sharding/kind.hpp"

namespace slimpack {

/// A fixed number of rows of varying width, stored flat.
template <class T>
class Ragged {
 public:
  [[nodiscard]] std::size_t size() const { return offsets_.size() - 1; }
  [[nodiscard]] std::span<const T> operator[](std::size_t row) const {
    return {values_.data() + offsets_[row], values_.data() + offsets_[row + 1]};
  }
  [[nodiscard]] std::span<T> operator[](std::size_t row) {
    return {values_.data() + offsets_[row], values_.data() + offsets_[row + 1]};
  }
  [[nodiscard]] std::span<const T> values() const { return values_; }
  void reserve(std::size_t rows, std::size_t values) {
    offsets_.reserve(rows + 1);
    values_.reserve(values);
  }
  void add(const T& value) { values_.push_back(value); }
  void close() { offsets_.push_back(values_.size()); }
  /// Appends a row and hands it out for writing.
  std::span<T> add_row(std::size_t width, const T& value = T{}) {
    values_.resize(values_.size() + width, value);
    close();
    return (*this)[size() - 1];
  }
  /// Appends `rows` rows of the same width, whose values stand one after another.
  void add_rows(std::size_t rows, std::span<const T> values) {
    values_.insert(values_.end(), values.begin(), values.end());
    close_equal(rows);
  }
  /// Appends the same row several times.
  void repeat_row(std::size_t times, std::span<const T> row) {
    for (std::size_t i = 0; i < times; ++i) values_.insert(values_.end(), row.begin(), row.end());
    close_equal(times);
  }
  friend bool operator==(const Ragged&, const Ragged&) = default;

 private:
  /// Ends `rows` rows of equal width behind the last one.
  void close_equal(std::size_t rows) {
    const std::size_t begin = offsets_.back();
    for (std::size_t i = 1; i <= rows; ++i) offsets_.push_back(begin + (values_.size() - begin) / rows * i);
  }

  std::vector<T> values_;
  std::vector<std::size_t> offsets_{0};
};

/// The packs of one pass over the whole batch. All lists have one entry (or row) per pack.
struct PassPlan {
  Packs packs;
  Ragged<PipelineId> pipelines;          ///< the pipelines that run the pack; several = DP-Merge, in lockstep
  std::vector<Flops> flops;              ///< whole pack, per transformer layer
  Ragged<double> seconds;                ///< per stage; for a merged pack, on each member
  std::vector<double> transfer_seconds;  ///< from a stage's end until the next stage may start
  std::vector<Sharding> sharding;
  /// Places of the slices that mixed packs shard by themselves, ascending. No rows where no pack is mixed.
  Ragged<std::uint32_t> per_document;
  Ragged<std::int32_t> recompute_layers;  ///< per stage; backward only, no rows in the forward pass
};

/// One data-parallel replica: `pp` stages of `tp * cp` devices each.
struct PipelinePlan {
  PipelineId id = 0;
  std::int32_t tp = 1;
  std::int32_t cp = 1;
  std::vector<std::int32_t> layers;      ///< layers held by each stage; its size is pp
  std::vector<std::vector<Task>> order;  ///< tasks of each stage in the order in which it runs them

  [[nodiscard]] std::size_t stages() const { return layers.size(); }
};

/// What the iteration costs, by the simulator.
struct StepPlan {
  double seconds = 0.0;           ///< pipeline_seconds + sync_seconds
  double sync_seconds = 0.0;      ///< gradient synchronisation and optimiser
  double pipeline_seconds = 0.0;  ///< longest path through all tasks
  double bubble_ratio = 0.0;      ///< idle share of stage time until pipeline_seconds, over all stages
  double lower_bound_seconds = 0.0;
  std::vector<std::vector<double>> peak_bytes;  ///< [pipeline][stage]

  [[nodiscard]] double gap() const { return seconds > 0.0 ? 1.0 - lower_bound_seconds / seconds : 0.0; }
};

/// A training iteration: which tokens run where, in which pack, in which order, forward and backward.
/// A value: it can be validated, timed, drawn, written and read without the planner that made it.
struct Plan {
  std::string planner;
  Transformer model;
  Device device;
  std::vector<Tokens> tokens;      ///< length of every sample; a sample's id is its index here
  std::vector<SampleId> deferred;  ///< held back for a later iteration
  /// Of every sample, the id that the document has in the training data; empty where nobody gave ids.
  std::vector<std::uint64_t> document_ids;
  std::vector<PipelinePlan> pipelines;
  PassPlan forward;
  PassPlan backward;
  StepPlan step;
  std::vector<std::string> notes;  ///< what the planner wants its user to know, one sentence each

  [[nodiscard]] const PassPlan& of(Pass pass) const { return pass == Pass::forward ? forward : backward; }
};

}  // namespace slimpack
