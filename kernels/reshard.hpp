#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/transport/collectives.hpp"
#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/agreement.hpp"
#include "slimpack/exec/reshard_program.hpp"

namespace slimpack::kernels {

/// Tags of resharding lie between those of packs and those of collectives.
inline constexpr Tag first_reshard_tag = Tag{1} << 62;

/// A rank's numbers of each unit in one layout: its shards of the unit, ascending, one after another. Empty where it has none.
template <class V>
using UnitSpans = std::vector<std::span<V>>;

/// Carries out a rank's part of a plan over any transport (Hydraulis, section 5.2). `start` posts what can go at once, and does
/// not block, so that a rank can compute until it needs a unit and calls `finish`.
///
/// All ranks construct it, start all units that they have, and finish them in one order. Gradients that are pushed are used
/// up: their memory holds partial sums afterwards.
template <Transport T, Movable V>
class Resharder {
 public:
  /// Makes sure that all ranks have the same plan and buffers that fit it, before anything moves.
  /// @param all ranks of the transport. @param first, second the rank's numbers in the plan's two layouts; they stay where
  /// they are until every unit is finished.
  /// @throws InvalidInput on all ranks if those of one don't fit, or plans differ.
  Resharder(T& transport, Group<T>& all, const ReshardPlan& plan, ReshardDirection direction,
            UnitSpans<V> first, UnitSpans<V> second)
      : transport_(transport), first_(std::move(first)), second_(std::move(second)) {
    std::exception_ptr error;
    std::uint64_t hash = no_plan_hash;
    try {
      program_ = reshard_program(plan, static_cast<DeviceId>(transport.rank()), direction);
      require_ranks(plan);
      require_sizes("first", first_, program_.first);
      require_sizes("second", second_, program_.second);
      hash = reshard_hash(plan, direction);
    } catch (const InvalidInput&) {
      error = std::current_exception();
    }
    agree(all, hash, error);
    posted_.resize(program_.steps.size());
  }

  /// For a rank that has no plan: the others learn of it. @throws the error, after all ranks know.
  [[noreturn]] static void refuse(Group<T>& all, std::exception_ptr error) {
    static_cast<void>(all.all_gather_value(no_plan_hash));
    std::rethrow_exception(error);
  }

  [[nodiscard]] std::size_t units() const { return program_.steps.size(); }

  /// Posts a unit's receives, and sends what this rank has. The source has to be ready. @pre not started yet.
  void start(std::size_t unit) {
    Posted& posted = posted_[unit];
    const auto steps = std::as_const(program_.steps)[unit];
    std::size_t added = 0;
    for (const PlacedReshardStep& step : steps)
      added += step.adds && step.primitive == ReshardPrimitive::receive ? step.count() : 0;
    posted.scratch.resize(added);
    posted.receives.resize(steps.size());
    added = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const PlacedReshardStep& step = steps[i];
      if (step.primitive != ReshardPrimitive::receive) continue;
      const std::span<V> to =
          step.adds ? std::span(posted.scratch).subspan(added, step.count()) : target(unit, step);
      if (step.adds) added += step.count();
      posted.receives[i] =
          transport_.irecv(static_cast<std::size_t>(step.peer), tag(unit, step), std::as_writable_bytes(to));
    }
    send(unit, 0);
  }

  /// Waits for a unit's numbers, forwards what others wait for, and forms sums. @pre started.
  void finish(std::size_t unit) {
    std::size_t added = 0;
    for (const int round : {0, 1}) {
      if (round == 1) send(unit, 1);
      const auto steps = std::as_const(program_.steps)[unit];
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (steps[i].round == round) take(unit, steps[i], posted_[unit].receives[i], added);
      }
    }
    wait_all(transport_, std::span(posted_[unit].sends));
    posted_[unit] = {};
  }

  /// Starts all units, then finishes them in order.
  void run() {
    for (std::size_t u = 0; u < units(); ++u) start(u);
    for (std::size_t u = 0; u < units(); ++u) finish(u);
  }

 private:
  struct Posted {
    std::vector<Request> receives;  ///< [step]
    std::vector<Request> sends;
    std::vector<V> scratch;  ///< what is received and added, in the order of the steps
  };

  void agree(Group<T>& all, std::uint64_t hash, const std::exception_ptr& error) {
    const auto hashes = all.all_gather_value(hash);
    if (error) std::rethrow_exception(error);
    require_agreement(hashes, transport_.size());
  }

  void require_ranks(const ReshardPlan& plan) const {
    for (const ParameterShards* layout : {&plan.from, &plan.to}) {
      for (const ParameterShard& shard : layout->shards.values()) {
        require(shard.device >= 0 && static_cast<std::size_t>(shard.device) < transport_.size(),
                "the plan gives parameters to device ", shard.device, "; expected one of the ",
                transport_.size(), " ranks");
      }
    }
  }

  static void require_sizes(const char* name, const UnitSpans<V>& spans,
                            const std::vector<std::size_t>& sizes) {
    require(spans.size() == sizes.size(), "the ", name, " layout's buffers are of ", spans.size(),
            " units; expected the plan's ", sizes.size());
    for (std::size_t u = 0; u < sizes.size(); ++u) {
      require(spans[u].size() == sizes[u], "the ", name, " layout's buffer of unit ", u, " has ",
              spans[u].size(), " numbers; expected the rank's ", sizes[u]);
    }
  }

  [[nodiscard]] static Tag tag(std::size_t unit, const ReshardStep& step) {
    return first_reshard_tag + 2 * Tag{unit} + step.round;
  }
  [[nodiscard]] std::span<V> source(std::size_t unit, const PlacedReshardStep& step) {
    return (step.source == ReshardBuffer::first ? first_ : second_)[unit].subspan(step.source_at,
                                                                                  step.count());
  }
  [[nodiscard]] std::span<V> target(std::size_t unit, const PlacedReshardStep& step) {
    return (step.target == ReshardBuffer::first ? first_ : second_)[unit].subspan(step.target_at,
                                                                                  step.count());
  }

  void send(std::size_t unit, int round) {
    for (const PlacedReshardStep& step : std::as_const(program_.steps)[unit]) {
      if (step.round != round || step.primitive != ReshardPrimitive::send) continue;
      posted_[unit].sends.push_back(transport_.isend(static_cast<std::size_t>(step.peer), tag(unit, step),
                                                     std::as_bytes(source(unit, step))));
    }
  }

  /// @param added numbers of the scratch memory that were used.
  void take(std::size_t unit, const PlacedReshardStep& step, Request& receive, std::size_t& added) {
    if (step.primitive == ReshardPrimitive::send) return;
    const std::span<V> to = target(unit, step);
    std::span<const V> from = to;
    if (step.primitive == ReshardPrimitive::receive) {
      transport_.wait(receive);
      if (!step.adds) return;
      from = std::span<const V>(posted_[unit].scratch).subspan(added, step.count());
      added += step.count();
    } else {
      from = source(unit, step);
    }
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = step.adds ? static_cast<V>(to[i] + from[i]) : from[i];
  }

  T& transport_;
  UnitSpans<V> first_, second_;
  ReshardProgram program_;
  std::vector<Posted> posted_;  ///< [unit]
};

}  // namespace slimpack::kernels
