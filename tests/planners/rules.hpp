#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "slimpack/plan/plan.hpp"

namespace oracle {

using namespace slimpack;

/// Rules 1 to 4 of the plan format, token by token and position by position: the first that is broken, or
/// nothing. That no stage gets stuck and that times are right (4 and 5) is for `run` to see.
inline std::string broken_rule(const Plan& plan) {
  using std::to_string;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    std::vector<std::vector<int>> seen;
    for (const Tokens length : plan.tokens) seen.emplace_back(static_cast<std::size_t>(length), 0);
    for (const Slice& slice : plan.of(pass).packs.slices()) {
      if (slice.begin >= slice.end) return "rule 1: an empty slice of sample " + to_string(slice.sample);
      for (Tokens t = slice.begin; t < slice.end; ++t)
        ++seen.at(slice.sample).at(static_cast<std::size_t>(t));
    }
    for (std::size_t i = 0; i < seen.size(); ++i) {
      for (std::size_t t = 0; t < seen[i].size(); ++t) {
        if (seen[i][t] != 1)
          return "rule 1: token " + to_string(t) + " of sample " + to_string(i) + " in " +
                 to_string(seen[i][t]) + " packs";
      }
    }
  }
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (std::size_t s = 0; s < pipeline.stages(); ++s) {
      const std::string where = " on stage " + to_string(s) + " of pipeline " + to_string(pipeline.id);
      std::map<SampleId, Tokens> forward_end, backward_begin;
      std::map<PackId, int> runs[2];
      for (const Task task : pipeline.order[s]) {
        const bool forward = task.pass == Pass::forward;
        ++runs[forward ? 0 : 1][task.pack];
        for (const Slice& slice : plan.of(task.pass).packs[task.pack]) {
          const Tokens length = plan.tokens[slice.sample];
          if (forward) {
            if (slice.begin != forward_end[slice.sample])
              return "rule 2: forward of sample " + to_string(slice.sample) + where;
            forward_end[slice.sample] = slice.end;
            continue;
          }
          const auto [at, first] = backward_begin.try_emplace(slice.sample, length);
          if (slice.end != at->second) return "rule 2: backward of sample " + to_string(slice.sample) + where;
          at->second = slice.begin;
          if (forward_end[slice.sample] != length) return "rule 3: sample " + to_string(slice.sample) + where;
        }
      }
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        for (std::size_t k = 0; k < plan.of(pass).packs.size(); ++k) {
          int expected = 0;
          for (const PipelineId p : plan.of(pass).pipelines[k]) expected += p == pipeline.id ? 1 : 0;
          const int found = runs[pass == Pass::forward ? 0 : 1][static_cast<PackId>(k)];
          if (found != expected)
            return "rule 4: pack " + to_string(k) + " runs " + to_string(found) + " times" + where;
        }
      }
    }
  }
  return "";
}

}  // namespace oracle
