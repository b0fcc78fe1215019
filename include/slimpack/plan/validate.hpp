#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/timeline.hpp"

namespace slimpack {

namespace detail {

/// Checks a plan against the rules of the plan format. Shapes come first, then values, then the rules: a
/// check relies on those before it, and what it finds keeps those behind it from running on nonsense.
class PlanChecker {
 public:
  PlanChecker(const Plan& plan, std::size_t most) : plan_(plan), most_(most) {}

  [[nodiscard]] std::vector<std::string> violations() {
    check_pipelines();
    for (const Pass pass : {Pass::forward, Pass::backward}) check_packs(pass);
    check_deferred();
    if (found_.empty()) check_values();
    if (!found_.empty()) return std::move(found_);
    check_flops();
    for (const Pass pass : {Pass::forward, Pass::backward}) check_tokens(pass);
    check_orders();
    if (found_.empty()) check_sample_orders();
    if (found_.empty()) check_longest_path();
    expect(plan_.step.lower_bound_seconds <= plan_.step.seconds * (1.0 + 1e-12),
           "rule 6: step.lower_bound_seconds is ", plan_.step.lower_bound_seconds,
           "; expected at most step.seconds = ", plan_.step.seconds);
    return std::move(found_);
  }

 private:
  /// A slice and the pack that holds it.
  struct Piece {
    Slice slice;
    PackId pack;
  };

  /// What a stage has to run in this order, because of a sample. A forward and a backward task: rule 3.
  struct Precedence {
    Task before, after;
    SampleId sample;
  };

  template <class... Parts>
  void expect(bool ok, const Parts&... parts) {
    if (!ok && found_.size() < most_) found_.push_back(concat(parts...));
  }

  static const char* name(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }
  static std::size_t index(Pass pass) { return pass == Pass::forward ? 0 : 1; }

  void check_pipelines() {
    expect(!plan_.pipelines.empty(), "pipelines is empty; expected at least one pipeline");
    for (std::size_t p = 0; p < plan_.pipelines.size(); ++p) {
      const PipelinePlan& pipeline = plan_.pipelines[p];
      expect(pipeline.id == p, "pipelines[", p, "].id is ", pipeline.id, "; expected ", p);
      expect(pipeline.tp > 0 && pipeline.cp > 0, "pipelines[", p, "] has tp ", pipeline.tp, " and cp ",
             pipeline.cp, "; expected positive numbers");
      expect(pipeline.stages() > 0, "pipelines[", p, "].layers is empty; expected one number for each stage");
      expect(pipeline.order.size() == pipeline.stages(), "pipelines[", p, "] orders ", pipeline.order.size(),
             " stages; expected one list of tasks for each of ", pipeline.stages());
    }
  }

  /// Lists have one entry per pack, ids are in range, merged pipelines have equally many stages.
  void check_packs(Pass pass) {
    const PassPlan& packs = plan_.of(pass);
    const std::size_t n = packs.packs.size();
    bool ok = true;
    const auto one_each = [&](const char* list, std::size_t size, std::size_t expected) {
      expect(size == expected, name(pass), ": ", list, " has ", size, " entries; expected ", expected,
             " for ", n, " packs");
      ok = ok && size == expected;
    };
    one_each("pipelines", packs.pipelines.size(), n);
    one_each("flops", packs.flops.size(), n);
    one_each("seconds", packs.seconds.size(), n);
    one_each("transfer_seconds", packs.transfer_seconds.size(), n);
    one_each("sharding", packs.sharding.size(), n);
    one_each("recompute_layers", packs.recompute_layers.size(), pass == Pass::forward ? 0 : n);
    for (std::size_t k = 0; ok && k < n; ++k) {
      check_members(pass, k);
      for (const Slice& slice : packs.packs[k]) check_slice(pass, k, slice);
    }
  }

  void check_members(Pass pass, std::size_t k) {
    const PassPlan& packs = plan_.of(pass);
    const auto members = packs.pipelines[k];
    expect(!members.empty(), name(pass), "[", k, "].pipelines is empty; expected at least one id");
    for (std::size_t i = 0; i < members.size(); ++i) {
      const PipelineId p = members[i];
      expect(p < plan_.pipelines.size(), name(pass), "[", k, "] runs on pipeline ", p,
             "; expected ids below ", plan_.pipelines.size());
      if (p >= plan_.pipelines.size()) return;
      expect(std::find(members.begin(), members.begin() + std::ptrdiff_t(i), p) ==
                 members.begin() + std::ptrdiff_t(i),
             name(pass), "[", k, "].pipelines lists ", p, " twice; expected distinct ids");
      const std::size_t stages = plan_.pipelines[p].stages();
      const std::size_t first = plan_.pipelines[members.front()].stages();
      expect(stages == first, name(pass), "[", k, "] is merged over pipelines ", members.front(), " and ", p,
             " of ", first, " and ", stages, " stages; expected equally many");
      expect(i > 0 || packs.seconds[k].size() == stages, name(pass), "[", k, "].seconds has ",
             packs.seconds[k].size(), " entries; expected one for each of the ", stages,
             " stages of pipeline ", p);
      if (i > 0 || pass == Pass::forward) continue;
      expect(packs.recompute_layers[k].size() == stages, name(pass), "[", k, "].recompute_layers has ",
             packs.recompute_layers[k].size(), " entries; expected ", stages);
    }
  }

  void check_slice(Pass pass, std::size_t k, const Slice& slice) {
    expect(slice.sample < plan_.tokens.size(), name(pass), "[", k, "] holds sample ", slice.sample,
           "; expected ids below ", plan_.tokens.size());
    if (slice.sample >= plan_.tokens.size()) return;
    expect(0 <= slice.begin && slice.begin < slice.end && slice.end <= plan_.tokens[slice.sample], name(pass),
           "[", k, "] holds tokens ", slice.begin, " to ", slice.end, " of sample ", slice.sample,
           "; expected a range within its ", plan_.tokens[slice.sample], " tokens, not empty");
  }

  void check_deferred() {
    std::vector<std::uint8_t> seen(plan_.tokens.size(), 0);
    for (const SampleId id : plan_.deferred) {
      expect(id < seen.size(), "deferred holds sample ", id, "; expected ids below ", seen.size());
      if (id >= seen.size()) continue;
      expect(seen[id] == 0, "deferred holds sample ", id, " twice; expected distinct ids");
      seen[id] = 1;
    }
  }

  void check_values() {
    try {
      validate(plan_.model);
    } catch (const InvalidInput& error) {
      expect(false, std::string(error.what()));
    }
    for (std::size_t i = 0; i < plan_.tokens.size(); ++i) {
      expect(plan_.tokens[i] > 0, "tokens[", i, "] is ", plan_.tokens[i], "; expected a positive number");
    }
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      std::int64_t layers = 0;
      for (const std::int32_t l : pipeline.layers) {
        layers += l;
        expect(l >= 0, "pipelines[", pipeline.id, "].layers holds ", l, "; expected numbers from 0");
      }
      expect(layers == plan_.model.layers, "pipelines[", pipeline.id, "].layers sum to ", layers,
             "; expected the model's ", plan_.model.layers);
    }
    for (const Pass pass : {Pass::forward, Pass::backward}) check_pack_values(pass);
    check_step_values();
  }

  void check_pack_values(Pass pass) {
    const PassPlan& packs = plan_.of(pass);
    for (std::size_t k = 0; k < packs.packs.size(); ++k) {
      for (const double seconds : packs.seconds[k]) {
        expect(seconds > 0.0 && std::isfinite(seconds), name(pass), "[", k, "].seconds holds ", seconds,
               "; expected positive numbers");
      }
      expect(packs.transfer_seconds[k] >= 0.0 && std::isfinite(packs.transfer_seconds[k]), name(pass), "[", k,
             "].transfer_seconds is ", packs.transfer_seconds[k], "; expected zero or a positive number");
      if (pass == Pass::forward) continue;
      for (const PipelineId p : packs.pipelines[k]) {
        for (std::size_t s = 0; s < plan_.pipelines[p].stages(); ++s) {
          const std::int32_t again = packs.recompute_layers[k][s], held = plan_.pipelines[p].layers[s];
          expect(again >= 0 && again <= held, name(pass), "[", k, "].recompute_layers[", s, "] is ", again,
                 "; expected 0 to the ", held, " layers of stage ", s, " of pipeline ", p);
        }
      }
    }
  }

  void check_step_values() {
    const StepPlan& step = plan_.step;
    const auto seconds = [&](const char* field, double value) {
      expect(value >= 0.0 && std::isfinite(value), "step.", field, " is ", value,
             "; expected zero or a positive number");
    };
    seconds("seconds", step.seconds);
    seconds("sync_seconds", step.sync_seconds);
    seconds("pipeline_seconds", step.pipeline_seconds);
    seconds("lower_bound_seconds", step.lower_bound_seconds);
    expect(step.bubble_ratio >= 0.0 && step.bubble_ratio <= 1.0, "step.bubble_ratio is ", step.bubble_ratio,
           "; expected a fraction in [0, 1]");
    if (step.peak_bytes.empty()) return;
    expect(step.peak_bytes.size() == plan_.pipelines.size(), "step.peak_bytes has ", step.peak_bytes.size(),
           " rows; expected one for each of ", plan_.pipelines.size(), " pipelines");
    for (std::size_t p = 0; p < std::min(step.peak_bytes.size(), plan_.pipelines.size()); ++p) {
      expect(step.peak_bytes[p].size() == plan_.pipelines[p].stages(), "step.peak_bytes[", p, "] has ",
             step.peak_bytes[p].size(), " entries; expected one for each of ", plan_.pipelines[p].stages(),
             " stages");
      for (const double bytes : step.peak_bytes[p]) {
        expect(bytes >= 0.0 && std::isfinite(bytes), "step.peak_bytes[", p, "] holds ", bytes,
               "; expected zero or a positive number");
      }
    }
  }

  static bool close(double a, double b, double tolerance) {
    return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
  }

  void check_flops() {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan_.of(pass);
      for (std::size_t k = 0; k < packs.packs.size(); ++k) {
        const Flops expected = pack_flops(plan_.model, packs.packs[k], pass);
        expect(close(packs.flops[k].linear, expected.linear, 1e-9), name(pass), "[", k, "].flops.linear is ",
               packs.flops[k].linear, "; expected ", expected.linear);
        expect(close(packs.flops[k].attention, expected.attention, 1e-9), name(pass), "[", k,
               "].flops.attention is ", packs.flops[k].attention, "; expected ", expected.attention);
      }
    }
  }

  /// Rule 1: every token of every sample that is not deferred is in exactly one pack. Leaves the slices by
  /// sample and token behind.
  void check_tokens(Pass pass) {
    std::vector<Piece>& pieces = pieces_[index(pass)];
    pieces = sort_by_sample(plan_.of(pass).packs, plan_.tokens.size());
    std::vector<std::uint8_t> deferred(plan_.tokens.size(), 0);
    for (const SampleId id : plan_.deferred) deferred[id] = 1;
    auto next = pieces.begin();
    for (SampleId id = 0; id < plan_.tokens.size(); ++id) {
      Tokens reached = 0;
      for (; next != pieces.end() && next->slice.sample == id; ++next) {
        expect(next->slice.begin == reached, "rule 1: ", name(pass), "[", next->pack, "] holds sample ", id,
               " from token ", next->slice.begin, "; expected from ", reached,
               ", where the slice before it ends");
        reached = next->slice.end;
      }
      const Tokens expected = deferred[id] != 0 ? 0 : plan_.tokens[id];
      expect(reached == expected, "rule 1: ", name(pass), " packs hold sample ", id, " up to token ", reached,
             "; expected ", expected, deferred[id] != 0 ? ", for it is deferred" : ", its length");
    }
  }

  /// Buckets by sample, then by token in each bucket: a sort of all slices would cost more than all the rest.
  static std::vector<Piece> sort_by_sample(const Packs& packs, std::size_t samples) {
    std::vector<std::size_t> end(samples + 1, 0);
    for (const Slice& slice : packs.slices()) ++end[slice.sample + 1];
    for (std::size_t i = 0; i < samples; ++i) end[i + 1] += end[i];
    std::vector<Piece> pieces(packs.slices().size());
    for (std::size_t k = 0; k < packs.size(); ++k) {
      for (const Slice& slice : packs[k]) pieces[end[slice.sample]++] = {slice, static_cast<PackId>(k)};
    }
    for (std::size_t i = 0; i < samples; ++i) {
      std::sort(pieces.begin() + std::ptrdiff_t(i > 0 ? end[i - 1] : 0),
                pieces.begin() + std::ptrdiff_t(end[i]),
                [](const Piece& a, const Piece& b) { return a.slice.begin < b.slice.begin; });
    }
    return pieces;
  }

  /// Rule 4: every stage runs each of its pipeline's packs once.
  void check_orders() {
    std::vector<std::vector<Task>> held(plan_.pipelines.size());
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PassPlan& packs = plan_.of(pass);
      for (std::size_t k = 0; k < packs.packs.size(); ++k) {
        for (const PipelineId p : packs.pipelines[k]) held[p].push_back({pass, static_cast<PackId>(k)});
      }
    }
    for (auto& runs : runs_)
      runs.assign(std::max(plan_.forward.packs.size(), plan_.backward.packs.size()), 0);
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      for (std::size_t s = 0; s < pipeline.stages(); ++s) check_order(pipeline, s, held[pipeline.id]);
    }
  }

  /// `runs_` holds zeros before and after.
  void check_order(const PipelinePlan& pipeline, std::size_t s, std::span<const Task> held) {
    const auto runs = [&](Task t) -> std::uint32_t& {
      return runs_[static_cast<std::size_t>(t.pass)][t.pack];
    };
    const auto exists = [&](Task t) { return t.pack < plan_.of(t.pass).packs.size(); };
    for (const Task t : pipeline.order[s]) {
      expect(exists(t), "rule 4: stage ", s, " of pipeline ", pipeline.id, " runs ", to_string(t),
             "; expected ", t.pass == Pass::forward ? "forward" : "backward", " packs below ",
             plan_.of(t.pass).packs.size());
      if (!exists(t)) continue;
      ++runs(t);
      expect(t.pass != Pass::weight || (runs(t) == 1 && runs({Pass::backward, t.pack}) > 0), "rule 4: stage ",
             s, " of pipeline ", pipeline.id, " runs ", to_string(t),
             "; expected it once, behind its backward task");
    }
    for (const Task t : held) {
      expect(runs(t) == 1, "rule 4: stage ", s, " of pipeline ", pipeline.id, " runs ", to_string(t), " ",
             runs(t), " times; expected once");
      runs(t) = 0;
    }
    for (const Task t : pipeline.order[s]) {
      if (!exists(t)) continue;
      expect(t.pass == Pass::weight || runs(t) == 0, "rule 4: stage ", s, " of pipeline ", pipeline.id,
             " runs ", to_string(t), "; expected packs of this pipeline only");
      runs(t) = 0;
    }
  }

  /// Rules 2 and 3, stage by stage.
  void check_sample_orders() {
    const std::vector<std::vector<Precedence>> required = precedences();
    std::vector<std::uint32_t> place[2];
    place[0].resize(plan_.forward.packs.size());
    place[1].resize(plan_.backward.packs.size());
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      for (std::size_t s = 0; s < pipeline.stages(); ++s) {
        const auto& order = pipeline.order[s];
        for (std::size_t i = 0; i < order.size(); ++i) {
          if (order[i].pass != Pass::weight) place[index(order[i].pass)][order[i].pack] = std::uint32_t(i);
        }
        for (const Precedence& p : required[pipeline.id]) {
          const bool loss = p.before.pass != p.after.pass;
          if (loss && s + 1 < pipeline.stages()) continue;
          expect(place[index(p.before.pass)][p.before.pack] < place[index(p.after.pass)][p.after.pack],
                 "rule ", loss ? 3 : 2, ": stage ", s, " of pipeline ", pipeline.id, " runs ",
                 to_string(p.after), " before ", to_string(p.before), "; expected ",
                 loss ? "all forward slices" : name(p.after.pass), " of sample ", p.sample,
                 loss                            ? " before its backward"
                 : p.after.pass == Pass::forward ? " in token order"
                                                 : " in reverse token order");
        }
      }
    }
  }

  /// By pipeline: neighbouring slices of a sample in each pass; its last forward and first backward slice.
  [[nodiscard]] std::vector<std::vector<Precedence>> precedences() {
    std::vector<std::vector<Precedence>> required(plan_.pipelines.size());
    const auto require_order = [&](Task before, Task after, SampleId sample) {
      if (before == after) return;
      const auto members = plan_.of(after.pass).pipelines[after.pack];
      const std::size_t stages[] = {plan_.of(before.pass).seconds[before.pack].size(),
                                    plan_.of(after.pass).seconds[after.pack].size()};
      expect(stages[0] == stages[1], "rule 2: sample ", sample, " is in ", to_string(before), " of ",
             stages[0], " stages and in ", to_string(after), " of ", stages[1], "; expected equally many");
      for (const PipelineId p : plan_.of(before.pass).pipelines[before.pack]) {
        if (std::find(members.begin(), members.end(), p) == members.end()) continue;
        required[p].push_back({before, after, sample});
      }
    };
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const std::vector<Piece>& pieces = pieces_[index(pass)];
      for (std::size_t i = 1; i < pieces.size(); ++i) {
        const SampleId sample = pieces[i].slice.sample;
        if (pieces[i - 1].slice.sample != sample) continue;
        const Task first{pass, pieces[i - 1].pack}, second{pass, pieces[i].pack};
        pass == Pass::forward ? require_order(first, second, sample) : require_order(second, first, sample);
      }
    }
    std::vector<PackId> last(plan_.tokens.size(), 0);
    for (const Piece& piece : pieces_[0]) last[piece.slice.sample] = piece.pack;
    for (const Piece& piece : pieces_[1]) {
      const Slice& slice = piece.slice;
      if (slice.end < plan_.tokens[slice.sample]) continue;
      require_order({Pass::forward, last[slice.sample]}, {Pass::backward, piece.pack}, slice.sample);
    }
    return required;
  }

  /// Rules 4 and 5: the graph of dependencies and orders has no cycle, and the times are its longest path.
  void check_longest_path() {
    const StepPlan& step = plan_.step;
    try {
      const double longest = time_plan(plan_).seconds;
      expect(close(step.pipeline_seconds, longest, 1e-6), "rule 5: step.pipeline_seconds is ",
             step.pipeline_seconds, "; expected the longest path of ", longest);
      expect(close(step.seconds - step.sync_seconds, longest, 1e-6),
             "rule 5: step.seconds - step.sync_seconds is ", step.seconds - step.sync_seconds,
             "; expected the longest path of ", longest);
    } catch (const InvalidInput& error) {
      expect(false, "rule 4: ", std::string(error.what()));
    }
  }

  const Plan& plan_;
  std::size_t most_;
  std::vector<std::string> found_;
  std::vector<Piece> pieces_[2];        ///< of each pass, by sample and token
  std::vector<std::uint32_t> runs_[3];  ///< how often a stage runs each pack, by pass
};

}  // namespace detail

/// What a plan breaks of the plan format's rules (docs/plan-format.md), each with its rule, place and values;
/// empty for a valid plan. It trusts nothing in the plan and knows nothing of how it was made.
/// @param most how many to name at most. Shapes and ids are checked first, then values, then the rules; what
/// breaks one of these hides the later ones.
/// Complexity: O(tasks + slices), plus sorting the slices of each sample and one longest path.
[[nodiscard]] inline std::vector<std::string> violations(const Plan& plan, std::size_t most = 20) {
  return detail::PlanChecker(plan, most).violations();
}

/// @throws InvalidInput with the first violations. Complexity as of `violations`.
inline void validate(const Plan& plan) {
  const auto found = violations(plan, 3);
  if (found.empty()) return;
  std::string text = "invalid plan: " + found.front();
  for (std::size_t i = 1; i < found.size(); ++i) text += "; " + found[i];
  throw InvalidInput(text);
}

}  // namespace slimpack
