#pragma once

#include <charconv>
#include <cstddef>
#include <string>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/timeline.hpp"

namespace slimpack {

namespace detail {

inline void append_trace_task(const Plan& plan, std::size_t pipeline, std::size_t stage, Task task,
                              TaskTime time, std::string& out) {
  out += concat(",\n{\"ph\":\"X\",\"pid\":", pipeline, ",\"tid\":", stage, ",\"name\":\"", to_string(task),
                "\",\"cat\":\"", pass_name(task.pass), "\",\"ts\":");
  char digits[32];
  const auto number = [&](double microseconds) {
    out.append(digits,
               std::to_chars(digits, digits + sizeof digits, microseconds, std::chars_format::fixed, 3).ptr);
  };
  number(time.start * 1e6);
  out += ",\"dur\":";
  number((time.finish - time.start) * 1e6);
  const PassPlan& pass = plan.of(task.pass);
  out += concat(",\"args\":{\"tokens\":", count_tokens(pass.packs[task.pack]),
                ",\"flops_per_layer\":", pass.flops[task.pack].total(), ",\"slices\":\"");
  bool first = true;
  for (const Slice& slice : pass.packs[task.pack]) {
    out += concat(first ? "" : " ", slice.sample, "[", slice.begin, ",", slice.end, ")");
    first = false;
  }
  out += "\"}}";
}

}  // namespace detail

/// A timeline in the trace event format that chrome://tracing and ui.perfetto.dev read: a process per
/// pipeline, a thread per stage, an event per task with its tokens and slices. Times in microseconds. O(tasks
/// * slices per pack).
[[nodiscard]] inline std::string to_trace(const Plan& plan, const Timeline& timeline) {
  std::string out =
      "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"trace\",\"args\":{}"
      "}";
  for (std::size_t p = 0; p < timeline.stages.size(); ++p) {
    out += concat(",\n{\"ph\":\"M\",\"pid\":", p, ",\"name\":\"process_name\",\"args\":{\"name\":\"pipeline ",
                  p, "\"}}");
    for (std::size_t s = 0; s < timeline.stages[p].size(); ++s) {
      out += concat(",\n{\"ph\":\"M\",\"pid\":", p, ",\"tid\":", s,
                    ",\"name\":\"thread_name\",\"args\":{\"name\":\"stage ", s, "\"}}");
      const auto& order = plan.pipelines[p].order[s];
      for (std::size_t i = 0; i < order.size(); ++i) {
        detail::append_trace_task(plan, p, s, order[i], timeline.stages[p][s][i], out);
      }
    }
  }
  out += "\n]}\n";
  return out;
}

}  // namespace slimpack
