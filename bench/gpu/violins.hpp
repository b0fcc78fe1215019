#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <istream>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/violins.hpp"

// Distributions of measured task times, drawn as in SlimPack's Figures 14 to 16.
namespace slimpack::bench {

/// A measured task.
struct TimedTask {
  std::string plan;  ///< how its pack was made
  std::string pass;  ///< forward or backward
  long pack = 0;
  long tokens = 0;
  double seconds = 0.0;
  double predicted = 0.0;  ///< seconds by the profile; not a number without one
};

inline constexpr const char* timed_task_head = "plan,pass,pack,tokens,seconds,predicted";

inline void write_timed_task(std::ostream& out, const TimedTask& t) {
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, "%ld,%ld,%.9g,%.9g", t.pack, t.tokens, t.seconds, t.predicted);
  out << t.plan << ',' << t.pass << ',' << numbers << '\n';
}

/// The tasks of a file that begins with `timed_task_head`. @throws InvalidInput naming the first line that is
/// wrong.
[[nodiscard]] inline std::vector<TimedTask> read_timed_tasks(std::istream& in) {
  std::vector<TimedTask> tasks;
  std::string line;
  require(static_cast<bool>(std::getline(in, line)) && line == timed_task_head,
          "the file of tasks begins with '", line, "'; expected '", timed_task_head, "'");
  for (std::size_t number = 2; std::getline(in, line); ++number) {
    TimedTask t;
    const std::size_t plan = line.find(','),
                      pass = plan == std::string::npos ? plan : line.find(',', plan + 1);
    const bool named = pass != std::string::npos;
    char rest = 0;
    if (named) {
      t.plan = line.substr(0, plan);
      t.pass = line.substr(plan + 1, pass - plan - 1);
    }
    require(named && std::sscanf(line.c_str() + pass, ",%ld,%ld,%lf,%lf%c", &t.pack, &t.tokens, &t.seconds,
                                 &t.predicted, &rest) == 4,
            "line ", number, " of the tasks is '", line, "'; expected ", timed_task_head);
    tasks.push_back(std::move(t));
  }
  return tasks;
}

/// Times of each plan's tasks of each pass. @throws InvalidInput without a task, or if a time is not positive.
[[nodiscard]] inline std::vector<Violin> group_tasks(const std::vector<TimedTask>& tasks) {
  std::vector<Violin> groups;
  for (const TimedTask& t : tasks) {
    require(t.seconds > 0.0 && std::isfinite(t.seconds), "a task of '", t.plan, "' took ", t.seconds,
            " s; expected a positive number");
    const std::string name = t.plan + ", " + t.pass;
    auto g = std::find_if(groups.begin(), groups.end(), [&](const Violin& one) { return one.name == name; });
    if (g == groups.end())
      g = groups.insert(groups.end(), {name, t.pass == "forward" ? Pass::forward : Pass::backward, {}});
    g->values.push_back(t.seconds);
  }
  require(!groups.empty(), "there are no tasks; expected at least one");
  for (Violin& g : groups) std::sort(g.values.begin(), g.values.end());
  return groups;
}

inline void draw_chart(std::ostream& out, const ViolinChart& chart) {
  std::string drawn;
  append_violins(drawn, chart);
  out << drawn;
}

/// A page that needs nothing else: a violin for each plan and pass, with lines at the quartiles, and their
/// numbers; and the same by each one's mean, since packs of samples and of slices differ in number and so in
/// size.
/// @param title what was measured. @throws InvalidInput as `group_tasks`.
inline void draw_violins(std::ostream& out, const std::vector<TimedTask>& tasks, const std::string& title) {
  ViolinChart chart{.title = {}, .factor = 1e3, .unit = " ms", .violins = group_tasks(tasks)};
  out << "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>" << title << "</title>\n<style>"
      << slimpack::detail::colours << slimpack::detail::violin_style
      << "body { font: 14px sans-serif; color: var(--fg); background: var(--bg) } "
      << "td, th { padding: .2em .8em; text-align: right }</style>\n<h1>" << title << "</h1>\n";
  draw_chart(out, chart);
  out << "<table>\n<tr><th>tasks, ms<th>number<th>least<th>quarter<th>median<th>three quarters<th>most\n";
  for (const Violin& g : chart.violins) {
    out << "<tr><th>" << g.name << "<td>" << g.values.size();
    for (const double q : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      char text[32];
      std::snprintf(text, sizeof text, "<td>%.3f", 1e3 * quantile_of_sorted(g.values, q));
      out << text;
    }
    out << "\n";
  }
  out << "</table>\n<h2>By each one's mean</h2>\n";
  for (Violin& g : chart.violins) {
    const double mean =
        std::accumulate(g.values.begin(), g.values.end(), 0.0) / static_cast<double>(g.values.size());
    for (double& v : g.values) v /= mean;
  }
  chart.factor = 1.0;
  chart.unit = "";
  draw_chart(out, chart);
}

}  // namespace slimpack::bench
