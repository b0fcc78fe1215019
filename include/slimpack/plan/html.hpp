#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/html_assets.hpp"
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

/// Text as HTML or, between quotes, as a JavaScript string: nothing in it can end either.
inline std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\\':
        out += "&#92;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
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

inline void append_stages(const PlanView& view, std::string& out) {
  append_list(view.timeline->stages.size(), out, [&](std::size_t p) {
    append_list(view.timeline->stages[p].size(), out, [&](std::size_t s) {
      const auto& order = view.plan->pipelines[p].order[s];
      append_list(order.size(), out, [&](std::size_t i) {
        const TaskTime& time = view.timeline->stages[p][s][i];
        out += concat('[', static_cast<int>(order[i].pass), ',', order[i].pack, ',', microseconds(time.start),
                      ',', microseconds(time.finish), ']');
      });
    });
  });
}

inline void append_packs_data(const PassPlan& pass, std::string& out) {
  append_list(pass.packs.size(), out, [&](std::size_t k) {
    const auto pack = pass.packs[k];
    out += concat('[', count_tokens(pack), ',');
    append_list(pack.size(), out, [&](std::size_t i) {
      out += concat('[', pack[i].sample, ',', pack[i].begin, ',', pack[i].end, ']');
    });
    out += concat(',', pass.pipelines[k].size(), ']');
  });
}

/// Mean seconds per stage of each pack.
inline void append_durations(const PassPlan& pass, std::string& out) {
  append_list(pass.packs.size(), out, [&](std::size_t k) {
    const auto stages = pass.seconds[k];
    const double sum = std::accumulate(stages.begin(), stages.end(), 0.0);
    out += concat(microseconds(sum / static_cast<double>(std::max<std::size_t>(1, stages.size()))));
  });
}

/// Times in microseconds and megabytes in turn.
inline void append_memory(const MemoryCurves& curves, std::string& out) {
  append_list(curves.stages.size(), out, [&](std::size_t p) {
    append_list(curves.stages[p].size(), out, [&](std::size_t s) {
      const auto& curve = curves.stages[p][s];
      append_list(curve.size(), out, [&](std::size_t i) {
        out += concat(microseconds(curve[i].seconds), ',', std::llround(curve[i].bytes / 1e6));
      });
    });
  });
}

/// Pipelines by the end of their last task, latest first: what a reader wants to see first.
inline std::vector<std::size_t> by_end(const Timeline& timeline) {
  std::vector<double> ends;
  for (const auto& pipeline : timeline.stages) {
    double end = 0.0;
    for (const auto& stage : pipeline) end = std::max(end, stage.empty() ? 0.0 : stage.back().finish);
    ends.push_back(end);
  }
  std::vector<std::size_t> order(ends.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return ends[a] > ends[b]; });
  return order;
}

inline void append_plan(const PlanView& view, std::string& out) {
  out += "{\"title\":\"" + escaped(view.title) + "\"";
  out += concat(",\"end\":", microseconds(view.timeline->seconds), ",\"order\":");
  const auto order = by_end(*view.timeline);
  append_list(order.size(), out, [&](std::size_t i) { out += concat(order[i]); });
  out += ",\n\"stages\":";
  append_stages(view, out);
  out += ",\n\"packs\":[";
  append_packs_data(view.plan->forward, out);
  out += ',';
  append_packs_data(view.plan->backward, out);
  out += "],\n\"durations\":[";
  append_durations(view.plan->forward, out);
  out += ',';
  append_durations(view.plan->backward, out);
  out += ']';
  if (view.memory != nullptr) {
    out += ",\n\"memory\":";
    append_memory(*view.memory, out);
  }
  out += "}";
}

}  // namespace detail

/// Writes one self-contained page that compares plans: timelines on one axis (colour by pass or sample, zoom, hover),
/// memory of each stage, distribution of pack durations, and a table of figures given as text.
/// @throws InvalidInput if there is no plan, or a view lacks its timeline. O(tasks + slices).
inline void write_html(std::ostream& out, std::span<const PlanView> views, std::string_view figures) {
  require(!views.empty(), "0 plans to draw; expected at least one");
  std::string data;
  detail::append_list(views.size(), data, [&](std::size_t i) {
    require(views[i].plan != nullptr && views[i].timeline != nullptr && !views[i].timeline->stages.empty(),
            "plan ", i, " to draw lacks its timeline");
    detail::append_plan(views[i], data);
  });
  const Plan& first = *views.front().plan;
  const Tokens tokens = std::accumulate(first.tokens.begin(), first.tokens.end(), Tokens{0});
  out << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>slimpack</title>\n"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<style>"
      << detail::html_style << "</style></head><body>\n<h1>One training step, " << views.size()
      << (views.size() == 1 ? " plan" : " plans") << "</h1>\n<p class=\"note\">" << first.tokens.size()
      << " samples, " << tokens << " tokens, " << detail::escaped(first.model.name) << " on "
      << detail::escaped(first.device.name) << "</p>\n<pre>" << detail::escaped(figures)
      << "</pre>\n<div class=\"bar\"><span id=\"pipelines\" class=\"bar\"></span>"
         "<label>colour by <select id=\"colour\"><option value=\"pass\">pass</option><option "
         "value=\"sample\">sample</option>"
         "</select></label><span><i class=\"key\" style=\"background:var(--F)\"></i>forward</span><span><i "
         "class=\"key\" "
         "style=\"background:var(--B)\"></i>backward</span><span><i class=\"key\" "
         "style=\"background:var(--idle);outline:1px "
         "solid var(--line)\"></i>idle</span><button id=\"reset\">whole step</button><span>wheel: zoom, "
         "drag: move</span></div>\n"
         "<h2>Timelines</h2><canvas id=\"timeline\"></canvas>\n<h2 id=\"memory-title\">Memory of each "
         "stage</h2>"
         "<canvas id=\"memory\"></canvas>\n<h2>Pack durations, mean over the stages</h2><div "
         "class=\"pair\"><div>forward"
         "<canvas id=\"violin0\"></canvas></div><div>backward<canvas "
         "id=\"violin1\"></canvas></div></div>\n<div id=\"tip\"></div>\n"
         "<script>const DATA="
      << data << ";" << detail::html_script << "</script></body></html>\n";
}

}  // namespace slimpack
