#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "slimpack/plan/plan.hpp"

// Small valid plans made without the library's planners, simulator or FLOPs, for the tests of plan/.
namespace slimpack::testing {

/// What a sample plan looks like. All of it follows from the seed.
struct SamplePlanOptions {
  std::uint64_t seed = 1;
  std::size_t samples = 7;   ///< that run; at least one
  std::size_t deferred = 0;  ///< further samples, held back
  std::size_t merged = 0;    ///< the first samples run on several pipelines together, where there are some
  std::size_t members = 2;   ///< how many, the first ones
  std::size_t pipelines = 2;
  std::size_t stages = 3;
  Tokens max_tokens = 90;
  std::int32_t cp = 1;         ///< above 1, all packs have a sharding
  bool mixed = false;          ///< packs of several slices are mixed; the passes then cut samples alike
  bool whole = false;          ///< packs are of whole samples, the same in both passes, and shared in any way
  bool split_weights = false;  ///< with a `W` task for each backward pack
  bool details = false;        ///< with all that a plan may say and need not
  Tokens block = 0;            ///< of packs that are sharded by position
  /// [pipeline][stage] layers, instead of as many pipelines of as many stages of two layers each.
  std::vector<std::vector<std::int32_t>> layers = {};
  /// Pipelines that run the merged samples, taken in turn, instead of the first `members`. Each stage then runs all
  /// its forward packs before all its backward packs.
  std::vector<std::vector<PipelineId>> groups = {};
};

/// The plan format's formula, as it is written there.
inline Flops formula(const Transformer& m, const Slice& slice, Pass pass) {
  const double h = m.hidden, a = m.heads, g = m.kv_heads, d = m.head_dim, f = m.ffn;
  const auto b = static_cast<double>(slice.begin), e = static_cast<double>(slice.end);
  const Flops forward{(e - b) * (2 * h * (a * d + 2 * g * d) + 2 * a * d * h + 6 * h * f),
                      2 * a * d * (e * (e + 1) - b * (b + 1))};
  return pass == Pass::forward ? forward : Flops{2 * forward.linear, 2.5 * forward.attention};
}

/// Places of tasks in time, found without a graph: every start is raised until no rule is broken.
class NaiveTimes {
 public:
  explicit NaiveTimes(const Plan& plan) : plan_(plan) {
    for (const PipelinePlan& pipeline : plan.pipelines) {
      start.emplace_back();
      for (const auto& order : pipeline.order) start.back().emplace_back(order.size(), 0.0);
    }
    while (raise_all()) {
    }
    for (std::size_t p = 0; p < start.size(); ++p) {
      for (std::size_t s = 0; s < start[p].size(); ++s) {
        for (std::size_t i = 0; i < start[p][s].size(); ++i) seconds = std::max(seconds, finish(p, s, i));
      }
    }
  }

  std::vector<std::vector<std::vector<double>>> start;  ///< [pipeline][stage][place in the order]
  double seconds = 0.0;

  [[nodiscard]] double finish(std::size_t p, std::size_t s, std::size_t i) const {
    const Task t = plan_.pipelines[p].order[s][i];
    const PassPlan& pass = plan_.of(t.pass);
    if (t.pass != Pass::weight) return start[p][s][i] + pass.seconds[t.pack][s];
    return start[p][s][i] + (pass.weight_seconds.size() == 0 ? 0.0 : pass.weight_seconds[t.pack][s]);
  }

 private:
  [[nodiscard]] bool shares_sample(Task a, Task b, bool a_first) const {
    for (const Slice& x : plan_.of(a.pass).packs[a.pack]) {
      for (const Slice& y : plan_.of(b.pass).packs[b.pack]) {
        if (x.sample == y.sample && (a.pass != b.pass || (x.begin < y.begin) == a_first)) return true;
      }
    }
    return false;
  }

  /// When task `t` on stage `s` may start because of task `u` on stage `r`, which ends at `end`.
  [[nodiscard]] double earliest(Task t, std::size_t s, Task u, std::size_t r, double end, bool last) const {
    if (t.pass == Pass::weight) return u == Task{Pass::backward, t.pack} && r == s ? end : 0.0;
    if (u.pass == Pass::weight) return 0.0;
    const bool before = t.pass == Pass::forward ? r + 1 == s : s + 1 == r;
    if (t == u && before) return end + plan_.of(t.pass).transfer_seconds[t.pack][std::min(r, s)];
    if (t == u || r != s) return 0.0;
    if (t.pass == u.pass) return shares_sample(u, t, t.pass == Pass::forward) ? end : 0.0;
    return t.pass == Pass::backward && last && shares_sample(u, t, true) ? end : 0.0;
  }

  /// Latest of all reasons for one task, copies of it on the other members included.
  [[nodiscard]] double needed(std::size_t p, std::size_t s, std::size_t i) const {
    const Task t = plan_.pipelines[p].order[s][i];
    const bool last = s + 1 == plan_.pipelines[p].stages();
    double at = i > 0 ? finish(p, s, i - 1) : 0.0;
    for (std::size_t q = 0; q < start.size(); ++q) {
      for (std::size_t r = 0; r < start[q].size(); ++r) {
        for (std::size_t j = 0; j < start[q][r].size(); ++j) {
          const Task u = plan_.pipelines[q].order[r][j];
          if (t.pass == Pass::weight && p != q) continue;
          if (t == u && r == s) {
            at = std::max(at, start[q][r][j]);
          } else {
            at = std::max(at, earliest(t, s, u, r, finish(q, r, j), last));
          }
        }
      }
    }
    return at;
  }

  bool raise_all() {
    bool changed = false;
    for (std::size_t p = 0; p < start.size(); ++p) {
      for (std::size_t s = 0; s < start[p].size(); ++s) {
        for (std::size_t i = 0; i < start[p][s].size(); ++i) {
          const double at = needed(p, s, i);
          changed = changed || at > start[p][s][i];
          start[p][s][i] = std::max(at, start[p][s][i]);
        }
      }
    }
    return changed;
  }

  const Plan& plan_;
};

/// Makes plans: samples stand in one line on each pipeline, cut again for each pass; every stage takes packs
/// in that line's order, and runs ahead of the next one by one forward pack, as 1F1B does.
class SamplePlanMaker {
 public:
  explicit SamplePlanMaker(const SamplePlanOptions& options) : o_(options), random_(options.seed) {
    if (o_.layers.empty()) o_.layers.assign(o_.pipelines, std::vector<std::int32_t>(o_.stages, 2));
    o_.pipelines = o_.layers.size();
    if (!options.groups.empty()) return;
    o_.groups.emplace_back();
    for (PipelineId p = 0; p < std::min(o_.members, o_.pipelines); ++p) o_.groups[0].push_back(p);
  }

  [[nodiscard]] Plan make() {
    plan_.planner = "by hand";
    plan_.model = {"tiny", std::reduce(o_.layers[0].begin(), o_.layers[0].end()), 16, 4, 2, 8, 24, 100};
    plan_.device = {.name = "toy",
                    .peak_flops = 1e12,
                    .gemm_efficiency = 0.7,
                    .gemm_backward_efficiency = 0.65,
                    .attention_forward = 0.6,
                    .attention_backward = 1.0 / 3.0,
                    .memory_bytes = 1e9,
                    .memory_bandwidth = 1e11,
                    .pack_overhead = 1e-4,
                    .intra_node = {1e10, 1e-6},
                    .inter_node = {1e9, 1e-5},
                    .host = {2e9, 2e-6},
                    .devices_per_node = 4};
    plan_.notes = {"made for a test"};
    for (std::size_t i = 0; i < o_.samples + o_.deferred; ++i) {
      plan_.tokens.push_back(1 + static_cast<Tokens>(below(static_cast<std::uint64_t>(o_.max_tokens))));
      if (i >= o_.samples) plan_.deferred.push_back(static_cast<SampleId>(i));
    }
    place_samples();
    for (const Pass pass : {Pass::forward, Pass::backward}) add_packs(pass);
    for (PassPlan* pass : {&plan_.forward, &plan_.backward}) leave_out_empty(*pass);
    for (std::size_t p = 0; p < o_.pipelines; ++p) add_pipeline(p);
    add_step();
    return std::move(plan_);
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  /// A multiple of 1/1024: sums of such numbers are exact.
  double fraction() { return static_cast<double>(1 + below(1024)) / 1024.0; }

  /// Optional lists in which no pack says anything.
  static void leave_out_empty(PassPlan& pass) {
    const auto silent = [](KeyExchange exchange) { return exchange == KeyExchange::none; };
    if (std::all_of(pass.exchange.begin(), pass.exchange.end(), silent)) pass.exchange.clear();
    if (pass.offload_layers.values().empty()) pass.offload_layers = {};
  }

  void place_samples() {
    lines_.resize(o_.pipelines);
    merged_lines_.resize(o_.groups.size());
    const std::size_t merged = o_.pipelines > 1 ? std::min(o_.merged, o_.samples) : 0;
    for (std::size_t i = 0; i < o_.samples; ++i) {
      if (i < merged) {
        merged_lines_[i % o_.groups.size()].push_back(static_cast<SampleId>(i));
      } else {
        lines_[i % o_.pipelines].push_back(static_cast<SampleId>(i));
      }
    }
  }

  void add_packs(Pass pass) {
    auto& held = held_[pass == Pass::forward ? 0 : 1];
    held.resize(o_.pipelines);
    for (std::size_t g = 0; g < o_.groups.size(); ++g) cut(pass, merged_lines_[g], o_.groups[g]);
    for (PipelineId p = 0; p < o_.pipelines; ++p) cut(pass, lines_[p], {&p, 1});
  }

  /// Cuts a line of samples at random, and closes packs at random.
  void cut(Pass pass, std::span<const SampleId> line, std::span<const PipelineId> members) {
    std::vector<Slice> open;
    for (const SampleId id : line) {
      std::vector<Slice>& slices = cuts_[id];
      if (pass == Pass::forward || !o_.mixed) slices.clear();
      if (o_.whole) slices.assign(1, {id, 0, plan_.tokens[id]});
      for (Tokens at = slices.empty() ? 0 : plan_.tokens[id]; at < plan_.tokens[id];) {
        const auto rest = static_cast<std::uint64_t>(plan_.tokens[id] - at);
        const Tokens end = at + 1 + static_cast<Tokens>(below(rest));
        slices.push_back({id, at, end});
        at = end;
      }
      std::vector<Slice> run = slices;
      if (pass == Pass::backward) std::reverse(run.begin(), run.end());
      for (const Slice& slice : run) {
        // Two slices of one sample in one pack would only be one slice.
        const bool again = !open.empty() && open.back().sample == id;
        if (again || (!open.empty() && begins_pack(pass, id))) close_pack(pass, open, members);
        open.push_back(slice);
      }
    }
    if (!open.empty()) close_pack(pass, open, members);
  }

  /// At random; whole samples as in the forward pass.
  bool begins_pack(Pass pass, SampleId id) {
    if (o_.whole && pass == Pass::backward) return begins_pack_[id];
    return begins_pack_[id] = below(3) == 0;
  }

  void close_pack(Pass pass, std::vector<Slice>& open, std::span<const PipelineId> members) {
    PassPlan& packs = pass == Pass::forward ? plan_.forward : plan_.backward;
    const auto id = static_cast<PackId>(packs.packs.size());
    Flops flops;
    for (const Slice& slice : open) {
      packs.packs.add(slice);
      flops += formula(plan_.model, slice, pass);
    }
    packs.packs.close();
    open.clear();
    for (const PipelineId p : members) {
      packs.pipelines.add(p);
      held_[pass == Pass::forward ? 0 : 1][p].push_back(id);
    }
    packs.pipelines.close();
    packs.flops.push_back(flops);
    const std::vector<std::int32_t>& held = o_.layers[members.front()];
    const std::size_t stages = held.size();
    for (double& seconds : packs.seconds.add_row(stages)) seconds = fraction();
    const double transfer = below(4) == 0 ? 0.0 : fraction() / 8;
    for (double& seconds : packs.transfer_seconds.add_row(stages - 1, transfer))
      seconds += static_cast<double>(transfers_() % 3) / 16;
    add_sharding(packs, members);
    if (o_.mixed) mix(packs);
    if (o_.whole) share_whole(packs, members.size());
    if (pass == Pass::forward) return;
    const auto some_layers = [&](std::span<std::int32_t> row) {
      for (std::size_t s = 0; s < stages; ++s)
        row[s] = static_cast<std::int32_t>(below(static_cast<std::uint64_t>(held[s]) + 1));
    };
    some_layers(packs.recompute_layers.add_row(stages));
    if (!o_.details) return;
    if (below(2) == 0) {
      some_layers(packs.offload_layers.add_row(stages));
    } else {
      packs.offload_layers.close();
    }
    if (!o_.split_weights) return;
    for (double& seconds : packs.weight_seconds.add_row(stages)) seconds = fraction() / 4;
  }

  /// All packs of a sample have the same members, and so the same exchange, if they name one.
  void add_sharding(PassPlan& packs, std::span<const PipelineId> members) {
    const bool shared = members.size() > 1 || o_.cp > 1;
    constexpr Sharding kinds[] = {Sharding::by_position, Sharding::per_sequence, Sharding::per_document};
    packs.sharding.push_back(!shared ? Sharding::none : !o_.mixed ? Sharding::by_position : kinds[below(3)]);
    if (shared) packs.block = o_.block;
    constexpr KeyExchange exchanges[] = {KeyExchange::ring, KeyExchange::all_to_all, KeyExchange::all_gather,
                                         KeyExchange::queries};
    if (o_.details)
      packs.exchange.push_back(shared && below(5) > 0
                                   ? exchanges[(o_.seed / 2 + 2 * members.size() + members.front()) % 4]
                                   : KeyExchange::none);
  }

  /// Shares the last pack in any way that it has tokens for, the same in both passes.
  void share_whole(PassPlan& packs, std::size_t members) {
    const std::size_t k = packs.packs.size() - 1, slices = packs.packs[k].size();
    const Tokens ranks = static_cast<Tokens>(members) * o_.cp;
    if (&packs == &plan_.backward) {
      packs.sharding[k] = plan_.forward.sharding[k];
    } else if (ranks > 1 && count_tokens(packs.packs[k]) >= ranks) {
      constexpr Sharding kinds[] = {Sharding::by_position, Sharding::per_sequence, Sharding::per_document,
                                    Sharding::mixed, Sharding::mixed};
      packs.sharding[k] = kinds[below(slices > 1 ? 5 : 3)];
    }
    for (std::uint32_t i = 1; packs.sharding[k] == Sharding::mixed && i < slices; i += 2)
      packs.per_document.add(i);
    packs.per_document.close();
  }

  /// Makes the last pack mixed where it has several slices: the last one is sharded by itself.
  static void mix(PassPlan& packs) {
    const std::size_t slices = packs.packs[packs.packs.size() - 1].size();
    if (slices > 1) {
      packs.sharding.back() = Sharding::mixed;
      packs.per_document.add(static_cast<std::uint32_t>(slices - 1));
    }
    packs.per_document.close();
  }

  /// Number of this pipeline's forward packs that backward pack `k` and those before it wait for.
  [[nodiscard]] std::size_t waits_for(std::size_t p, std::size_t k) const {
    std::size_t count = 0;
    for (std::size_t j = 0; j <= k; ++j) {
      for (const Slice& back : plan_.backward.packs[held_[1][p][j]]) {
        for (std::size_t i = 0; i < held_[0][p].size(); ++i) {
          for (const Slice& front : plan_.forward.packs[held_[0][p][i]]) {
            if (front.sample == back.sample) count = std::max(count, i + 1);
          }
        }
      }
    }
    return count;
  }

  void add_pipeline(std::size_t p) {
    PipelinePlan pipeline{
        .id = static_cast<PipelineId>(p), .tp = 2, .cp = o_.cp, .layers = {}, .order = {}, .devices = {}};
    pipeline.layers = o_.layers[p];
    const std::size_t stages = pipeline.layers.size();
    for (std::size_t s = 0; o_.details && s < stages; ++s) {
      auto& devices = pipeline.devices.emplace_back();
      for (std::int32_t rank = 0; rank < 2 * o_.cp; ++rank)
        devices.push_back(2 * o_.cp * static_cast<std::int32_t>(p + o_.pipelines * s) + rank);
    }
    for (std::size_t s = 0; s < stages; ++s) {
      auto& order = pipeline.order.emplace_back();
      std::size_t done = 0;
      for (std::size_t k = 0; k < held_[1][p].size(); ++k) {
        const std::size_t ahead =
            o_.groups.size() > 1 ? held_[0][p].size() : waits_for(p, k) + (stages - 1 - s);
        for (; done < std::min(ahead, held_[0][p].size()); ++done) {
          order.push_back({Pass::forward, held_[0][p][done]});
        }
        order.push_back({Pass::backward, held_[1][p][k]});
        if (o_.split_weights) order.push_back({Pass::weight, held_[1][p][k]});
      }
    }
    plan_.pipelines.push_back(std::move(pipeline));
  }

  void add_step() {
    StepPlan& step = plan_.step;
    step.pipeline_seconds = NaiveTimes(plan_).seconds;
    step.sync_seconds = 0.25;
    step.seconds = step.pipeline_seconds + step.sync_seconds;
    double busy = 0.0;
    for (const PipelinePlan& pipeline : plan_.pipelines) {
      auto& peaks = step.peak_bytes.emplace_back();
      for (std::size_t s = 0; s < pipeline.stages(); ++s) {
        double own = 0.0;
        for (const Task t : pipeline.order[s]) {
          const PassPlan& pass = plan_.of(t.pass);
          if (t.pass != Pass::weight) own += pass.seconds[t.pack][s];
          if (t.pass == Pass::weight && pass.weight_seconds.size() > 0) own += pass.weight_seconds[t.pack][s];
        }
        busy += own;
        step.lower_bound_seconds = std::max(step.lower_bound_seconds, own);
        peaks.push_back(1e6 * fraction());
      }
    }
    double stages = 0.0;
    for (const auto& layers : o_.layers) stages += static_cast<double>(layers.size());
    step.bubble_ratio = 1.0 - busy / (stages * step.pipeline_seconds);
  }

  SamplePlanOptions o_;
  std::mt19937_64 random_;
  std::mt19937_64 transfers_;  ///< what they differ by between stages
  Plan plan_;
  std::map<SampleId, std::vector<Slice>> cuts_;      ///< of the pass that is being made
  std::map<SampleId, bool> begins_pack_;             ///< whether it began a pack in the forward pass
  std::vector<std::vector<SampleId>> merged_lines_;  ///< by group
  std::vector<std::vector<SampleId>> lines_;         ///< by pipeline
  std::vector<std::vector<PackId>> held_[2];         ///< [pass][pipeline], in the order in which they run
};

[[nodiscard]] inline Plan sample_plan(const SamplePlanOptions& options = {}) {
  return SamplePlanMaker(options).make();
}

}  // namespace slimpack::testing
