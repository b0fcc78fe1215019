#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/packs.hpp"

/// The shortest step there is, by trying everything: which samples run where or merged, how they are cut into
/// packs in each pass, and in which order stages run them. For a handful of tokens.
namespace exact {

using namespace slimpack;

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// A pack on one stage: it occupies that stage of one or two pipelines.
struct Operation {
  std::vector<std::size_t> resources;
  double seconds = 0.0;
  std::vector<std::pair<std::size_t, double>> after;  ///< operation, and the time from its end
};

/// Shortest schedule of operations, by branch and bound over all that start operations as early as they can.
class Sequencing {
 public:
  /// @returns seconds, or `limit` if there is nothing shorter.
  double operator()(std::span<const Operation> operations, std::size_t resources, double limit) {
    operations_ = operations;
    best_ = limit;
    end_.assign(operations.size(), -1.0);
    free_.assign(resources, 0.0);
    work_.assign(resources, 0.0);
    for (const Operation& o : operations) {
      for (const std::size_t r : o.resources) work_[r] += o.seconds;
    }
    extend(operations.size(), 0.0, 0.0);
    return best_;
  }

 private:
  [[nodiscard]] double earliest(const Operation& o) const {
    double start = 0.0;
    for (const auto& [before, lag] : o.after)
      start = end_[before] < 0.0 ? infinity : std::max(start, end_[before] + lag);
    for (const std::size_t r : o.resources) start = std::max(start, free_[r]);
    return start;
  }

  /// Adds operations in the order of their starts.
  void extend(std::size_t left, double previous, double length) {
    if (left == 0) {
      best_ = std::min(best_, length);
      return;
    }
    for (std::size_t r = 0; r < free_.size(); ++r) {
      if (free_[r] + work_[r] >= best_) return;
    }
    // Something that starts after another operation could have ended before it on idle stages gains nothing.
    double first_end = infinity;
    std::vector<std::pair<double, std::size_t>> ready;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (end_[i] >= 0.0) continue;
      const double start = earliest(operations_[i]);
      if (start == infinity) continue;
      ready.emplace_back(start, i);
      first_end = std::min(first_end, start + operations_[i].seconds);
    }
    std::sort(ready.begin(), ready.end());
    for (const auto& [start, i] : ready) {
      if (start < previous || start >= first_end) continue;
      const Operation& o = operations_[i];
      std::vector<double> saved;
      for (const std::size_t r : o.resources) {
        saved.push_back(free_[r]);
        free_[r] = start + o.seconds;
        work_[r] -= o.seconds;
      }
      end_[i] = start + o.seconds;
      extend(left - 1, start, std::max(length, end_[i]));
      end_[i] = -1.0;
      for (std::size_t j = 0; j < o.resources.size(); ++j) {
        free_[o.resources[j]] = saved[j];
        work_[o.resources[j]] += o.seconds;
      }
    }
  }

  std::span<const Operation> operations_;
  double best_ = infinity;
  std::vector<double> end_, free_, work_;
};

using PackList = std::vector<std::vector<Slice>>;

/// All ways to cut samples into packs, at any token.
inline std::vector<PackList> all_packings(std::span<const SampleId> samples,
                                          std::span<const Tokens> lengths) {
  std::vector<PackList> result;
  PackList packs;
  const std::function<void(std::size_t, Tokens)> next = [&](std::size_t i, Tokens begin) {
    if (i == samples.size()) {
      result.push_back(packs);
      return;
    }
    const SampleId id = samples[i];
    for (Tokens end = begin + 1; end <= lengths[id]; ++end) {
      const auto go_on = [&] { end == lengths[id] ? next(i + 1, 0) : next(i, end); };
      for (std::size_t k = 0; k < packs.size(); ++k) {
        if (std::any_of(packs[k].begin(), packs[k].end(), [&](const Slice& s) { return s.sample == id; }))
          continue;
        packs[k].push_back({id, begin, end});
        go_on();
        packs[k].pop_back();
      }
      packs.push_back({{id, begin, end}});
      go_on();
      packs.pop_back();
    }
  };
  next(0, 0);
  return result;
}

/// Samples that one set of pipelines runs together.
struct Placed {
  std::vector<std::size_t> pipelines;
  std::vector<SampleId> samples;
};

template <class C>
class StepSearch {
 public:
  StepSearch(std::span<const Tokens> lengths, const C& cost) : lengths_(lengths), cost_(cost) {}

  /// Shortest time in which the pipelines train the samples placed on them; `limit` if nothing is shorter.
  double operator()(std::span<const Placed> placed, std::size_t pipelines, double limit) {
    pipelines_ = pipelines;
    best_ = limit;
    operations_.clear();
    add_pass(placed, 0, Pass::forward);
    return best_;
  }

 private:
  struct Made {
    const Slice* slice;
    std::size_t operation;  // of its pack on stage 0; stage s is s further
    Pass pass;
  };

  void add_pass(std::span<const Placed> placed, std::size_t i, Pass pass) {
    if (i == placed.size()) {
      if (pass == Pass::forward) {
        add_pass(placed, 0, Pass::backward);
      } else {
        sequence();
      }
      return;
    }
    for (const PackList& packs : all_packings(placed[i].samples, lengths_)) {
      const std::size_t operations = operations_.size(), made = made_.size();
      for (const auto& pack : packs) add_pack(pack, placed[i].pipelines, pass);
      add_pass(placed, i + 1, pass);
      operations_.resize(operations);
      made_.resize(made);
    }
  }

  void add_pack(const std::vector<Slice>& pack, const std::vector<std::size_t>& on, Pass pass) {
    const C cost = on.size() > 1 ? cost_.with_context_parallel(static_cast<std::int32_t>(on.size())) : cost_;
    const std::size_t stages = cost.stages(), first = operations_.size();
    const Tokens tokens = count_tokens(pack);
    for (std::size_t s = 0; s < stages; ++s) {
      Operation o;
      for (const std::size_t p : on) o.resources.push_back(p * stages + s);
      o.seconds = cost.pack_seconds(s, pass);
      for (const Slice& slice : pack) o.seconds += cost.slice_seconds(s, slice.begin, slice.end, pass);
      if (pass == Pass::forward && s > 0)
        o.after.emplace_back(first + s - 1, cost.transfer_seconds(s - 1, tokens, pass));
      if (pass == Pass::backward && s + 1 < stages)
        o.after.emplace_back(first + s + 1, cost.transfer_seconds(s, tokens, pass));
      operations_.push_back(std::move(o));
    }
    for (const Slice& slice : pack) made_.push_back({&slice, first, pass});
  }

  void sequence() {
    std::vector<Operation> operations = operations_;
    const std::size_t stages = cost_.stages();
    for (const Made& a : made_) {
      for (const Made& b : made_) {
        if (a.slice->sample != b.slice->sample) continue;
        for (std::size_t s = 0; s < stages; ++s) {
          const bool both_forward = a.pass == Pass::forward && b.pass == Pass::forward;
          const bool both_backward = a.pass == Pass::backward && b.pass == Pass::backward;
          const bool turn = a.pass == Pass::forward && b.pass == Pass::backward && s + 1 == stages;
          if ((both_forward && a.slice->end <= b.slice->begin) ||
              (both_backward && a.slice->begin >= b.slice->end) || turn) {
            operations[b.operation + s].after.emplace_back(a.operation + s, 0.0);
          }
        }
      }
    }
    best_ = Sequencing()(operations, pipelines_ * stages, best_);
  }

  std::span<const Tokens> lengths_;
  const C& cost_;
  std::size_t pipelines_ = 1;
  double best_ = infinity;
  std::vector<Operation> operations_;
  std::vector<Made> made_;
};

/// Shortest step of a batch on one or two pipelines: every sample on either or, with `merge`, on both.
template <class C>
double shortest_step(std::span<const Tokens> lengths, std::size_t pipelines, const C& cost, bool merge) {
  StepSearch<C> search(lengths, cost);
  std::vector<Placed> placed{{{0}, {}}};
  if (pipelines == 2) placed.push_back({{1}, {}});
  if (pipelines == 2 && merge) placed.push_back({{0, 1}, {}});
  double best = infinity;
  const std::function<void(SampleId)> place = [&](SampleId id) {
    if (id == lengths.size()) {
      best = search(placed, pipelines, best);
      return;
    }
    for (Placed& p : placed) {
      p.samples.push_back(id);
      place(id + 1);
      p.samples.pop_back();
    }
  };
  place(0);
  return best;
}

}  // namespace exact
