#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/memory.hpp"
#include "slimpack/plan/timeline.hpp"

namespace slimpack {

/// A plan on a comparison page.
struct PlanView {
  const Plan* plan = nullptr;
  const Timeline* timeline = nullptr;
  const MemoryCurves* memory = nullptr;  ///< optional
  std::string title;
};

namespace detail {

inline std::int64_t microseconds(double seconds) { return std::llround(seconds * 1e6); }

/// Text between quotes in JavaScript or JSON, inside of a page: nothing in it can end either.
inline std::string script_string(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&') {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Appends `[a,b,…]` of what `append` writes for each index.
template <class Append>
void append_list(std::size_t size, std::string& out, Append&& append) {
  out += '[';
  for (std::size_t i = 0; i < size; ++i) {
    if (i > 0) out += ',';
    append(i);
  }
  out += ']';
}

/// Pipelines by the end of their last task, latest first: what a reader wants to see first. As many as hold
/// up to `most_tasks` tasks together, but one at least.
inline std::vector<std::size_t> drawn_pipelines(const Timeline& timeline, std::size_t most_tasks) {
  std::vector<double> ends;
  std::vector<std::size_t> tasks;
  for (const auto& pipeline : timeline.stages) {
    ends.push_back(0.0);
    tasks.push_back(0);
    for (const auto& stage : pipeline) {
      ends.back() = std::max(ends.back(), stage.empty() ? 0.0 : stage.back().finish);
      tasks.back() += stage.size();
    }
  }
  std::vector<std::size_t> order(ends.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return ends[a] > ends[b]; });
  std::size_t drawn = 0;
  for (std::size_t sum = 0; drawn < order.size(); ++drawn) {
    sum += tasks[order[drawn]];
    if (drawn > 0 && sum > most_tasks) break;
  }
  order.resize(drawn);
  return order;
}

/// A task as one number.
inline std::uint64_t task_key(Task task) {
  return 3 * std::uint64_t{task.pack} + static_cast<std::uint64_t>(task.pass);
}

/// A stage's tasks as one list, three numbers each: key, microseconds since the task before, duration.
inline void append_tasks(const std::vector<Task>& order, const std::vector<TaskTime>& times,
                         std::string& out) {
  std::int64_t now = 0;
  append_list(order.size(), out, [&](std::size_t i) {
    const std::int64_t start = microseconds(times[i].start), finish = microseconds(times[i].finish);
    out += concat(task_key(order[i]), ',', start - now, ',', finish - start);
    now = finish;
  });
}

/// Keys of the tasks on the critical path, [pipeline][stage]; those of a merged pack on all members.
inline std::vector<std::vector<std::vector<std::uint64_t>>> critical_keys(const Plan& plan,
                                                                          const Timeline& timeline) {
  std::vector<std::vector<std::vector<std::uint64_t>>> keys;
  for (const auto& pipeline : timeline.stages) keys.emplace_back(pipeline.size());
  for (const PlanGraph::Node& node : timeline.critical_path) {
    for (const PipelineId p : plan.of(node.task.pass).pipelines[node.task.pack])
      keys[p][node.stage].push_back(task_key(node.task));
  }
  return keys;
}

/// Points of a curve as one list: microseconds and megabytes in turn, each since the point before.
inline void append_curve(const std::vector<MemoryPoint>& curve, std::string& out) {
  std::int64_t now = 0, held = 0;
  append_list(curve.size(), out, [&](std::size_t i) {
    const std::int64_t time = microseconds(curve[i].seconds), bytes = std::llround(curve[i].bytes / 1e6);
    out += concat(time - now, ',', bytes - held);
    now = time;
    held = bytes;
  });
}

/// `{"id":[pipelines,[sample,begin,end,…]],…}` of the packs that a drawn pipeline runs.
inline void append_packs_data(const PassPlan& pass, const std::vector<bool>& drawn, std::string& out) {
  out += '{';
  bool first = true;
  for (std::size_t k = 0; k < pass.packs.size(); ++k) {
    const auto members = pass.pipelines[k];
    if (std::none_of(members.begin(), members.end(), [&](PipelineId p) { return drawn[p]; })) continue;
    out += concat(first ? "" : ",", '"', k, "\":[", members.size(), ',');
    const auto pack = pass.packs[k];
    append_list(pack.size(), out,
                [&](std::size_t i) { out += concat(pack[i].sample, ',', pack[i].begin, ',', pack[i].end); });
    out += ']';
    first = false;
  }
  out += '}';
}

/// A plan as the page's script reads it. Lists by pipeline hold the drawn ones in the order of `pipelines`.
inline void append_plan(const PlanView& view, std::span<const std::size_t> pipelines, std::string& out) {
  const Plan& plan = *view.plan;
  std::vector<bool> drawn(plan.pipelines.size(), false);
  for (const std::size_t p : pipelines) drawn[p] = true;
  out += concat("{\"title\":", script_string(view.title), ",\"end\":", microseconds(view.timeline->seconds),
                ",\"capacity\":", std::llround(plan.device.memory_bytes / 1e6),
                ",\"all\":", plan.pipelines.size(), ",\"pipelines\":");
  append_list(pipelines.size(), out, [&](std::size_t i) { out += concat(pipelines[i]); });
  const auto append_stages = [&](const auto& lists, const auto& append) {
    append_list(pipelines.size(), out, [&](std::size_t i) {
      const std::size_t p = pipelines[i];
      append_list(lists[p].size(), out, [&](std::size_t s) { append(p, s); });
    });
  };
  out += ",\n\"stages\":";
  append_stages(view.timeline->stages, [&](std::size_t p, std::size_t s) {
    append_tasks(plan.pipelines[p].order[s], view.timeline->stages[p][s], out);
  });
  out += ",\n\"critical\":";
  const auto keys = critical_keys(plan, *view.timeline);
  append_stages(keys, [&](std::size_t p, std::size_t s) {
    append_list(keys[p][s].size(), out, [&](std::size_t i) { out += concat(keys[p][s][i]); });
  });
  if (view.memory != nullptr) {
    out += ",\n\"memory\":";
    append_stages(view.memory->stages,
                  [&](std::size_t p, std::size_t s) { append_curve(view.memory->stages[p][s], out); });
  }
  const PassPlan* const passes[] = {&plan.forward, &plan.backward};
  out += ",\n\"packs\":";
  append_list(2, out, [&](std::size_t i) { append_packs_data(*passes[i], drawn, out); });
  out += '}';
}

}  // namespace detail

}  // namespace slimpack
