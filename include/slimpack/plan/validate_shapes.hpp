#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/violations.hpp"

namespace slimpack::detail {

inline void check_pipelines(const Plan& plan, Violations& found) {
  found.expect(!plan.pipelines.empty(), "pipelines is empty; expected at least one pipeline");
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const PipelinePlan& pipeline = plan.pipelines[p];
    found.expect(pipeline.id == p, "pipelines[", p, "].id is ", pipeline.id, "; expected ", p);
    found.expect(pipeline.tp > 0 && pipeline.cp > 0, "pipelines[", p, "] has tp ", pipeline.tp, " and cp ",
                 pipeline.cp, "; expected positive numbers");
    found.expect(pipeline.stages() > 0, "pipelines[", p,
                 "].layers is empty; expected one number for each stage");
    found.expect(pipeline.order.size() == pipeline.stages(), "pipelines[", p, "] orders ",
                 pipeline.order.size(), " stages; expected one list of tasks for each of ",
                 pipeline.stages());
  }
}

/// Phases are numbered from 0, each with pipelines, and there is a switch between each two.
inline void check_phases(const Plan& plan, Violations& found) {
  std::vector<char> seen(plan.phases(), 0);
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const std::int32_t phase = plan.pipelines[p].phase;
    const bool known = phase >= 0 && std::cmp_less(phase, plan.phases());
    found.expect(known, "pipelines[", p, "].phase is ", phase, "; expected 0 to the ",
                 plan.step.switch_seconds.size(), " entries of step.switch_seconds");
    if (known) seen[static_cast<std::size_t>(phase)] = 1;
  }
  for (std::size_t i = 0; i < seen.size() && plan.phases() > 1; ++i)
    found.expect(seen[i] != 0, "phase ", i, " has no pipelines; expected at least one in each of the ",
                 plan.phases(), " phases");
}

/// Where devices are named: as many for each stage as it has ranks, none in two stages of a phase.
inline void check_devices(const Plan& plan, Violations& found) {
  std::vector<std::pair<std::int32_t, DeviceId>> all;  // with their phase
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const PipelinePlan& pipeline = plan.pipelines[p];
    if (pipeline.devices.empty()) continue;
    found.expect(pipeline.devices.size() == pipeline.stages(), "pipelines[", p, "].devices has ",
                 pipeline.devices.size(), " entries; expected one list for each of the ", pipeline.stages(),
                 " stages, or none at all");
    for (std::size_t s = 0; s < pipeline.devices.size(); ++s) {
      const std::vector<DeviceId>& own = pipeline.devices[s];
      const std::int64_t expected = std::int64_t{pipeline.tp} * pipeline.cp;
      found.expect(std::cmp_equal(own.size(), expected), "pipelines[", p, "].devices[", s, "] names ",
                   own.size(), " devices; expected tp * cp = ", expected);
      for (const DeviceId id : own)
        found.expect(id >= 0, "pipelines[", p, "].devices[", s, "] holds ", id, "; expected ids from 0");
      for (const DeviceId id : own) all.emplace_back(pipeline.phase, id);
    }
  }
  std::sort(all.begin(), all.end());
  for (auto twice = std::adjacent_find(all.begin(), all.end()); twice != all.end();
       twice = std::adjacent_find(std::upper_bound(twice, all.end(), *twice), all.end())) {
    found.expect(false, "pipelines[].devices names device ", twice->second,
                 " twice; expected distinct ids in each phase");
  }
}

/// Lists of one entry for each stage, or each pair of neighbouring stages.
inline void check_rows(const PassPlan& packs, Pass pass, std::size_t k, std::size_t stages,
                       Violations& found) {
  const std::size_t transfers = packs.transfer_seconds[k].size();
  found.expect(transfers + 1 == stages, pass_name(pass), "[", k, "].transfer_seconds has ", transfers,
               " entries; expected one for each of the ", stages - 1, " pairs of neighbouring stages");
  if (pass == Pass::forward) return;
  found.expect(packs.recompute_layers[k].size() == stages, pass_name(pass), "[", k, "].recompute_layers has ",
               packs.recompute_layers[k].size(), " entries; expected ", stages);
  const auto optional = [&](const char* list, const auto& rows) {
    if (rows.empty() || rows[k].empty()) return;
    found.expect(rows[k].size() == stages, pass_name(pass), "[", k, "].", list, " has ", rows[k].size(),
                 " entries; expected ", stages, ", or none");
  };
  optional("offload_layers", packs.offload_layers);
  optional("weight_seconds", packs.weight_seconds);
}

inline void check_members(const Plan& plan, Pass pass, std::size_t k, Violations& found) {
  const PassPlan& packs = plan.of(pass);
  const auto members = packs.pipelines[k];
  found.expect(!members.empty(), pass_name(pass), "[", k, "].pipelines is empty; expected at least one id");
  for (std::size_t i = 0; i < members.size(); ++i) {
    const PipelineId p = members[i];
    found.expect(p < plan.pipelines.size(), pass_name(pass), "[", k, "] runs on pipeline ", p,
                 "; expected ids below ", plan.pipelines.size());
    if (p >= plan.pipelines.size()) return;
    const std::int32_t phase = plan.pipelines[members.front()].phase;
    found.expect(plan.pipelines[p].phase == phase, pass_name(pass), "[", k, "] runs on pipeline ", p,
                 " of phase ", plan.pipelines[p].phase, "; expected pipelines of one phase, as pipeline ",
                 members.front(), " is of phase ", phase);
    found.expect(std::find(members.begin(), members.begin() + std::ptrdiff_t(i), p) ==
                     members.begin() + std::ptrdiff_t(i),
                 pass_name(pass), "[", k, "].pipelines lists ", p, " twice; expected distinct ids");
    const std::size_t stages = plan.pipelines[p].stages();
    const std::size_t first = plan.pipelines[members.front()].stages();
    found.expect(stages == first, pass_name(pass), "[", k, "] is merged over pipelines ", members.front(),
                 " and ", p, " of ", first, " and ", stages, " stages; expected equally many");
    found.expect(plan.pipelines[p].layers == plan.pipelines[members.front()].layers || stages != first,
                 pass_name(pass), "[", k, "] is merged over pipelines ", members.front(), " and ", p,
                 ", whose stages hold different layers; expected the same");
    found.expect(i > 0 || packs.seconds[k].size() == stages, pass_name(pass), "[", k, "].seconds has ",
                 packs.seconds[k].size(), " entries; expected one for each of the ", stages,
                 " stages of pipeline ", p);
    if (i == 0 && stages > 0) check_rows(packs, pass, k, stages, found);
  }
}

inline void check_slice(const Plan& plan, Pass pass, std::size_t k, const Slice& slice, Violations& found) {
  found.expect(slice.sample < plan.tokens.size(), pass_name(pass), "[", k, "] holds sample ", slice.sample,
               "; expected ids below ", plan.tokens.size());
  if (slice.sample >= plan.tokens.size()) return;
  found.expect(0 <= slice.begin && slice.begin < slice.end && slice.end <= plan.tokens[slice.sample],
               pass_name(pass), "[", k, "] holds tokens ", slice.begin, " to ", slice.end, " of sample ",
               slice.sample, "; expected a range within its ", plan.tokens[slice.sample],
               " tokens, not empty");
}

/// Mixed packs, and no others, name some of their slices, but not all.
inline void check_mixed(const PassPlan& packs, Pass pass, std::size_t k, Violations& found) {
  const bool listed = packs.per_document.size() > 0;
  const std::span<const std::uint32_t> row =
      listed ? packs.per_document[k] : std::span<const std::uint32_t>{};
  const std::size_t slices = packs.packs[k].size();
  if (packs.sharding[k] != Sharding::mixed) {
    found.expect(row.empty(), pass_name(pass), "[", k, "] shards ", row.size(),
                 " slices by themselves; expected none, for its sharding is not mixed");
    return;
  }
  found.expect(!row.empty() && row.size() < slices, pass_name(pass), "[", k, "] shards ", row.size(), " of ",
               slices, " slices by themselves; expected some but not all in a mixed pack");
  for (std::size_t i = 0; i < row.size(); ++i) {
    found.expect(row[i] < slices && (i == 0 || row[i - 1] < row[i]), pass_name(pass), "[", k,
                 "].per_document_slices[", i, "] is ", row[i], "; expected ascending places below ", slices);
  }
}

/// Lists have one entry per pack, ids are in range, merged pipelines have equally many stages.
inline void check_packs(const Plan& plan, Pass pass, Violations& found) {
  const PassPlan& packs = plan.of(pass);
  const std::size_t n = packs.packs.size();
  bool ok = true;
  const auto one_each = [&](const char* list, std::size_t size, std::size_t expected) {
    found.expect(size == expected, pass_name(pass), ": ", list, " has ", size, " entries; expected ",
                 expected, " for ", n, " packs");
    ok = ok && size == expected;
  };
  one_each("pipelines", packs.pipelines.size(), n);
  one_each("flops", packs.flops.size(), n);
  one_each("seconds", packs.seconds.size(), n);
  one_each("transfer_seconds", packs.transfer_seconds.size(), n);
  one_each("sharding", packs.sharding.size(), n);
  one_each("recompute_layers", packs.recompute_layers.size(), pass == Pass::forward ? 0 : n);
  const std::size_t backward_only = pass == Pass::forward ? 0 : n;
  if (!packs.exchange.empty()) one_each("exchange", packs.exchange.size(), n);
  if (packs.offload_layers.size() > 0) one_each("offload_layers", packs.offload_layers.size(), backward_only);
  if (packs.weight_seconds.size() > 0) one_each("weight_seconds", packs.weight_seconds.size(), backward_only);
  if (packs.per_document.size() > 0) one_each("per_document_slices", packs.per_document.size(), n);
  for (std::size_t k = 0; ok && k < n; ++k) {
    check_mixed(packs, pass, k, found);
    check_members(plan, pass, k, found);
    for (const Slice& slice : packs.packs[k]) check_slice(plan, pass, k, slice, found);
  }
}

inline void check_deferred(const Plan& plan, Violations& found) {
  std::vector<std::uint8_t> seen(plan.tokens.size(), 0);
  for (const SampleId id : plan.deferred) {
    found.expect(id < seen.size(), "deferred holds sample ", id, "; expected ids below ", seen.size());
    if (id >= seen.size()) continue;
    found.expect(seen[id] == 0, "deferred holds sample ", id, " twice; expected distinct ids");
    seen[id] = 1;
  }
}

inline void check_document_ids(const Plan& plan, Violations& found) {
  if (plan.document_ids.empty()) return;
  found.expect(plan.document_ids.size() == plan.tokens.size(), "document_ids has ", plan.document_ids.size(),
               " entries; expected one for each of the ", plan.tokens.size(), " samples, or none at all");
  std::vector<std::uint64_t> ids = plan.document_ids;
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  found.expect(twice == ids.end(), "document_ids holds ", twice == ids.end() ? 0 : *twice,
               " twice; expected distinct ids");
}

/// Lists have one entry per pack or stage, ids exist, slices lie within their samples.
inline void check_shapes(const Plan& plan, Violations& found) {
  check_pipelines(plan, found);
  check_phases(plan, found);
  check_devices(plan, found);
  for (const Pass pass : {Pass::forward, Pass::backward}) check_packs(plan, pass, found);
  check_deferred(plan, found);
  check_document_ids(plan, found);
}

}  // namespace slimpack::detail
