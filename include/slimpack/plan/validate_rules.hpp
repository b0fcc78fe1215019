#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/plan/graph.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/validate_times.hpp"
#include "slimpack/plan/violations.hpp"

namespace slimpack::detail {

/// Pipelines for a message: `0, 1`.
inline std::string ids_text(std::span<const PipelineId> ids) {
  std::string text;
  for (const PipelineId p : ids) text += concat(text.empty() ? "" : ", ", p);
  return text;
}

/// FLOPs follow the plan format's formula.
inline void check_flops(const Plan& plan, Violations& found) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const PassPlan& packs = plan.of(pass);
    for (std::size_t k = 0; k < packs.packs.size(); ++k) {
      const auto check = [&](const char* field, double said, double expected) {
        if (close(said, expected, 1e-9)) return;
        found.expect(false, pass_name(pass), "[", k, "].flops.", field, " is ", all_digits(said),
                     "; expected ", all_digits(expected));
      };
      const Flops expected = pack_flops(plan.model, packs.packs[k], pass);
      check("linear", packs.flops[k].linear, expected.linear);
      check("attention", packs.flops[k].attention, expected.attention);
    }
  }
}

/// Rule 1: every token of every sample that is not deferred is in exactly one pack of the pass.
inline void check_tokens(const Plan& plan, Pass pass, const SampleSlices& slices, Violations& found) {
  std::vector<std::uint8_t> deferred(plan.tokens.size(), 0);
  for (const SampleId id : plan.deferred) deferred[id] = 1;
  for (SampleId id = 0; id < plan.tokens.size(); ++id) {
    Tokens reached = 0;
    for (const auto& piece : slices[id]) {
      found.expect(piece.begin == reached, "rule 1: ", pass_name(pass), "[", piece.pack, "] holds sample ",
                   id, " from token ", piece.begin, "; expected from ", reached,
                   ", where the slice before it ends");
      reached = piece.end;
    }
    const Tokens expected = deferred[id] != 0 ? 0 : plan.tokens[id];
    found.expect(reached == expected, "rule 1: ", pass_name(pass), " packs hold sample ", id, " up to token ",
                 reached, "; expected ", expected,
                 deferred[id] != 0 ? ", for it is deferred" : ", its length");
  }
}

/// Rule 4: every stage runs each of its pipeline's packs once. Rule 7: weight-gradient tasks follow their backward
/// tasks.
class OrderCheck {
 public:
  OrderCheck(const Plan& plan, Violations& found) : plan_(plan), found_(found) {}

  void run() {
    std::vector<std::vector<Task>> held(plan_.pipelines.size());
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan_.of(pass);
      for (std::size_t k = 0; k < packs.packs.size(); ++k) {
        for (const PipelineId p : packs.pipelines[k]) held[p].push_back({pass, static_cast<PackId>(k)});
      }
    }
    const std::size_t most = std::max(plan_.forward.packs.size(), plan_.backward.packs.size());
    for (auto& runs : runs_) runs.assign(most, 0);
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      for (std::size_t s = 0; s < pipeline.stages(); ++s) check_order(pipeline, s, held[pipeline.id]);
    }
  }

 private:
  [[nodiscard]] std::uint32_t& runs(Task t) { return runs_[static_cast<std::size_t>(t.pass)][t.pack]; }
  [[nodiscard]] bool exists(Task t) const { return t.pack < plan_.of(t.pass).packs.size(); }

  /// `runs_` holds zeros before and after.
  void check_order(const PipelinePlan& pipeline, std::size_t s, std::span<const Task> held) {
    const auto expect = [&](bool ok, Task t, const auto&... rest) {
      found_.expect(ok, "rule 4: stage ", s, " of pipeline ", pipeline.id, " runs ", to_string(t), rest...);
    };
    for (const Task t : pipeline.order[s]) {
      expect(exists(t), t, "; expected ", t.pass == Pass::forward ? "forward" : "backward", " packs below ",
             plan_.of(t.pass).packs.size());
      if (!exists(t)) continue;
      ++runs(t);
      found_.expect(t.pass != Pass::weight || (runs(t) == 1 && runs({Pass::backward, t.pack}) > 0),
                    "rule 7: stage ", s, " of pipeline ", pipeline.id, " runs ", to_string(t),
                    "; expected it once, after its backward task");
    }
    for (const Task t : held) {
      if (t.pass == Pass::backward) check_weight_task(pipeline, s, t.pack);
      expect(runs(t) == 1, t, " ", runs(t), " times; expected once");
      runs(t) = 0;
    }
    for (const Task t : pipeline.order[s]) {
      if (!exists(t)) continue;
      expect(t.pass == Pass::weight || runs(t) == 0, t, "; expected packs of this pipeline only");
      runs(t) = 0;
    }
  }

  /// What a pack's weight gradients take must be spent somewhere.
  void check_weight_task(const PipelinePlan& pipeline, std::size_t s, PackId k) {
    const Ragged<double>& seconds = plan_.backward.weight_seconds;
    if (seconds.empty() || seconds[k].empty() || seconds[k][s] == 0.0) return;
    found_.expect(runs({Pass::weight, k}) > 0, "rule 7: stage ", s, " of pipeline ", pipeline.id,
                  " does not run W", k, "; expected it, for backward[", k, "].weight_seconds[", s, "] is ",
                  seconds[k][s]);
  }

  const Plan& plan_;
  Violations& found_;
  std::vector<std::uint32_t> runs_[3];  ///< how often a stage runs each pack, by pass
};

/// Rule 8: all packs of a sample name the same pipelines in the same order.
inline void check_groups(const Plan& plan, const SampleSlices& forward, const SampleSlices& backward,
                         Violations& found) {
  for (SampleId id = 0; id < plan.tokens.size(); ++id) {
    if (forward[id].empty()) continue;
    const Task first{Pass::forward, forward[id].front().pack};
    const auto members = plan.forward.pipelines[first.pack];
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const auto& piece : (pass == Pass::forward ? forward : backward)[id]) {
        const auto others = plan.of(pass).pipelines[piece.pack];
        if (std::equal(members.begin(), members.end(), others.begin(), others.end())) continue;
        found.expect(false, "rule 8: sample ", id, " is in ", to_string(first), " of pipelines ",
                     ids_text(members), " and in ", to_string(Task{pass, piece.pack}), " of ",
                     ids_text(others), "; expected all its packs on the same pipelines in the same order");
        break;
      }
    }
  }
}

/// A sample that several ranks share has its keys and values where all its packs expect them: they exchange them in the same
/// way, and if the passes cut the sample differently, it is dealt to ranks by position, in chunks of the same size.
class ShardingCheck {
 public:
  ShardingCheck(const Plan& plan, const SampleSlices& forward, const SampleSlices& backward,
                Violations& found)
      : plan_(plan), forward_(forward), backward_(backward), found_(found) {}

  void run() {
    const Tokens blocks[] = {plan_.forward.block, plan_.backward.block};
    found_.expect(blocks[0] == 0 || blocks[1] == 0 || blocks[0] == blocks[1], "forward packs have block ",
                  blocks[0], " and backward packs ", blocks[1],
                  "; expected the same, for a token is on one rank in both passes");
    for (SampleId id = 0; id < plan_.tokens.size(); ++id) {
      if (forward_[id].empty() || !shared(forward_[id].front().pack)) continue;
      check_exchange(id);
      if (cut_differently(id)) check(id);
    }
  }

 private:
  [[nodiscard]] bool shared(PackId forward) const {
    const auto members = plan_.forward.pipelines[forward];
    return members.size() > 1 || plan_.pipelines[members.front()].cp > 1;
  }

  [[nodiscard]] bool cut_differently(SampleId id) const {
    const auto same = [](const auto& a, const auto& b) { return a.begin == b.begin && a.end == b.end; };
    const auto f = forward_[id], b = backward_[id];
    return !std::equal(f.begin(), f.end(), b.begin(), b.end(), same);
  }

  void check_exchange(SampleId id) {
    KeyExchange expected = KeyExchange::none;
    std::string first;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const auto& piece : (pass == Pass::forward ? forward_ : backward_)[id]) {
        const KeyExchange exchange = plan_.of(pass).exchange_of(piece.pack);
        if (exchange == expected || exchange == KeyExchange::none) continue;
        if (expected == KeyExchange::none) {
          expected = exchange;
          first = concat(pass_name(pass), "[", piece.pack, "]");
          continue;
        }
        found_.expect(false, pass_name(pass), "[", piece.pack, "].exchange is ", exchange_name(exchange),
                      "; expected ", exchange_name(expected), " as in ", first, ", for the keys of sample ",
                      id, " stay where they are");
        return;
      }
    }
  }

  void check(SampleId id) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const auto& piece : (pass == Pass::forward ? forward_ : backward_)[id]) {
        const Sharding kind = plan_.of(pass).sharding[piece.pack];
        if (kind == Sharding::by_position) continue;
        found_.expect(false, pass_name(pass), "[", piece.pack, "].sharding is ", sharding_name(kind),
                      "; expected by_position, for several ranks share sample ", id,
                      " and the passes cut it differently");
        return;
      }
    }
  }

  const Plan& plan_;
  const SampleSlices& forward_;
  const SampleSlices& backward_;
  Violations& found_;
};

/// What a stage has to run in this order, because of a sample. A forward and a backward task: rule 3.
struct Precedence {
  Task before, after;
  SampleId sample;
};

/// Rules 2 and 3, stage by stage, in plans that keep rules 4 and 8.
class SampleOrderCheck {
 public:
  SampleOrderCheck(const Plan& plan, const SampleSlices& forward, const SampleSlices& backward,
                   Violations& found)
      : plan_(plan), found_(found), required_(plan.pipelines.size()) {
    require_neighbours(Pass::forward, forward);
    require_neighbours(Pass::backward, backward);
    for (SampleId id = 0; id < plan.tokens.size(); ++id) {
      if (forward[id].empty() || backward[id].empty()) continue;
      require_order({Pass::forward, forward[id].back().pack}, {Pass::backward, backward[id].back().pack}, id);
    }
  }

  void run() {
    place_[0].resize(plan_.forward.packs.size());
    place_[1].resize(plan_.backward.packs.size());
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      for (std::size_t s = 0; s < pipeline.stages(); ++s) check_order(pipeline, s);
    }
  }

 private:
  /// Slices of a sample in token order, or in reverse.
  void require_neighbours(Pass pass, const SampleSlices& slices) {
    for (SampleId id = 0; id < slices.size(); ++id) {
      for (std::size_t i = 1; i < slices[id].size(); ++i) {
        const Task lower{pass, slices[id][i - 1].pack}, upper{pass, slices[id][i].pack};
        pass == Pass::forward ? require_order(lower, upper, id) : require_order(upper, lower, id);
      }
    }
  }

  void require_order(Task before, Task after, SampleId sample) {
    if (before == after) return;
    for (const PipelineId p : plan_.of(before.pass).pipelines[before.pack])
      required_[p].push_back({before, after, sample});
  }

  [[nodiscard]] std::uint32_t& place(Task t) { return place_[static_cast<std::size_t>(t.pass)][t.pack]; }

  void check_order(const PipelinePlan& pipeline, std::size_t s) {
    const auto& order = pipeline.order[s];
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].pass != Pass::weight) place(order[i]) = static_cast<std::uint32_t>(i);
    }
    for (const Precedence& p : required_[pipeline.id]) {
      const bool loss = p.before.pass != p.after.pass;
      if (loss && s + 1 < pipeline.stages()) continue;
      found_.expect(place(p.before) < place(p.after), "rule ", loss ? 3 : 2, ": stage ", s, " of pipeline ",
                    pipeline.id, " runs ", to_string(p.after), " before ", to_string(p.before), "; expected ",
                    loss ? "all forward slices" : pass_name(p.after.pass), " of sample ", p.sample,
                    loss                            ? " before its backward"
                    : p.after.pass == Pass::forward ? " in token order"
                                                    : " in reverse token order");
    }
  }

  const Plan& plan_;
  Violations& found_;
  std::vector<std::vector<Precedence>> required_;  ///< by pipeline
  std::vector<std::uint32_t> place_[2];            ///< of each pass, in the stage's order
};

/// The plan format's rules, for a plan whose shapes and values are right. A check relies on those before it:
/// what they find keeps it from running on nonsense.
inline void check_rules(const Plan& plan, Violations& found) {
  check_flops(plan, found);
  const SampleSlices forward(plan.forward.packs, plan.tokens.size());
  const SampleSlices backward(plan.backward.packs, plan.tokens.size());
  check_tokens(plan, Pass::forward, forward, found);
  check_tokens(plan, Pass::backward, backward, found);
  OrderCheck(plan, found).run();
  check_groups(plan, forward, backward, found);
  ShardingCheck(plan, forward, backward, found).run();
  if (found.none()) SampleOrderCheck(plan, forward, backward, found).run();
  if (found.none()) check_times(plan, found);
  found.expect(plan.step.lower_bound_seconds <= plan.step.seconds * (1.0 + 1e-12),
               "rule 6: step.lower_bound_seconds is ", all_digits(plan.step.lower_bound_seconds),
               "; expected at most step.seconds = ", all_digits(plan.step.seconds));
}

}  // namespace slimpack::detail
