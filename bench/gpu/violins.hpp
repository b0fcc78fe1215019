#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <istream>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"

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

/// The value below which a share q of sorted values lies, between neighbours in proportion.
[[nodiscard]] inline double quantile_of_sorted(const std::vector<double>& sorted, double q) {
  require(!sorted.empty(), "there are no values; expected at least one");
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// Densities of values at `points` places from 0 to `top`, by a Gaussian kernel of Scott's width, none beyond
/// the least and largest value; the largest is 1.
[[nodiscard]] inline std::vector<double> density(const std::vector<double>& sorted, double top,
                                                 std::size_t points) {
  require(!sorted.empty() && points > 1, "there are ", sorted.size(), " values and ", points,
          " places; expected at least one and two");
  const auto n = static_cast<double>(sorted.size());
  double mean = 0.0, square = 0.0;
  for (const double v : sorted) mean += v / n;
  for (const double v : sorted) square += (v - mean) * (v - mean) / n;
  const double step = top / static_cast<double>(points - 1);
  const double width = std::max(std::sqrt(square) * std::pow(n, -0.2), step);
  std::vector<double> out(points);
  for (std::size_t i = 0; i < points; ++i) {
    const double at = static_cast<double>(i) * step;
    if (at < sorted.front() - step || at > sorted.back() + step) continue;
    for (const double v : sorted) out[i] += std::exp(-0.5 * (at - v) * (at - v) / (width * width));
  }
  const double most = *std::max_element(out.begin(), out.end());
  for (double& d : out) d /= most;
  return out;
}

namespace detail {

/// One violin with its quartiles. @param centre, base, height in pixels
inline void draw_violin(std::ostream& out, const std::vector<double>& sorted, double top, double centre,
                        double base, double height, const char* colour) {
  constexpr std::size_t points = 121;
  constexpr double half = 62.0;
  const std::vector<double> wide = density(sorted, top, points);
  const auto y = [&](double seconds) { return base - height * seconds / top; };
  std::string left, right;
  const auto point = [](double x, double at) {
    char text[48];
    std::snprintf(text, sizeof text, "%.1f,%.1f ", x, at);
    return std::string(text);
  };
  for (std::size_t i = 0; i < points; ++i) {
    if (wide[i] <= 0.0) continue;
    const double at = y(top * static_cast<double>(i) / static_cast<double>(points - 1));
    left += point(centre - half * wide[i], at);
    right = point(centre + half * wide[i], at) + right;
  }
  out << "<polygon points=\"" << left << right << "\" fill=\"" << colour
      << "\" fill-opacity=\".55\" stroke=\"" << colour << "\"/>\n";
  for (const double q : {0.25, 0.5, 0.75}) {
    const double value = quantile_of_sorted(sorted, q), at = y(value);
    const auto place = static_cast<std::size_t>(std::lround(value / top * static_cast<double>(points - 1)));
    const double reach = half * std::max(0.08, wide[std::min(place, points - 1)]);
    out << "<line x1=\"" << centre - reach << "\" x2=\"" << centre + reach << "\" y1=\"" << at << "\" y2=\""
        << at << "\" stroke=\"#222\" stroke-dasharray=\"" << (q == 0.5 ? "none" : "4 3") << "\"/>\n";
  }
}

}  // namespace detail

/// Times of a plan's tasks of a pass, sorted.
struct TaskGroup {
  std::string name;
  std::vector<double> values;
};

/// @throws InvalidInput without a task, or if a time is not positive.
[[nodiscard]] inline std::vector<TaskGroup> group_tasks(const std::vector<TimedTask>& tasks) {
  std::vector<TaskGroup> groups;
  for (const TimedTask& t : tasks) {
    require(t.seconds > 0.0 && std::isfinite(t.seconds), "a task of '", t.plan, "' took ", t.seconds,
            " s; expected a positive number");
    const std::string name = t.plan + ", " + t.pass;
    auto g =
        std::find_if(groups.begin(), groups.end(), [&](const TaskGroup& one) { return one.name == name; });
    if (g == groups.end()) g = groups.insert(groups.end(), {name, {}});
    g->values.push_back(t.seconds);
  }
  require(!groups.empty(), "there are no tasks; expected at least one");
  for (TaskGroup& g : groups) std::sort(g.values.begin(), g.values.end());
  return groups;
}

/// A violin for each group on one axis. @param factor of the values on the axis, whose numbers `unit` follows
inline void draw_chart(std::ostream& out, const std::vector<TaskGroup>& groups, double factor,
                       const char* unit) {
  constexpr std::array colours{"#3b6fb6", "#c2662d"};
  constexpr double left = 80, each = 170, base = 330, height = 300;
  double most = 0.0;
  for (const TaskGroup& g : groups) most = std::max(most, g.values.back());
  const double width = left + each * static_cast<double>(groups.size()), top = 1.05 * most;
  out << "<svg width=\"" << width << "\" height=\"360\" font-size=\"12\">\n";
  for (int tick = 0; tick <= 4; ++tick) {
    const double y = base - height * tick / 4;
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", factor * top * tick / 4);
    out << "<line x1=\"" << left << "\" x2=\"" << width << "\" y1=\"" << y << "\" y2=\"" << y
        << "\" stroke=\"#ddd\"/><text x=\"" << left - 6 << "\" y=\"" << y + 4 << "\" text-anchor=\"end\">"
        << text << unit << "</text>\n";
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const TaskGroup& g = groups[i];
    const double centre = left + each * (static_cast<double>(i) + 0.5);
    detail::draw_violin(out, g.values, top, centre, base, height,
                        colours[g.name.ends_with("forward") ? 0 : 1]);
    out << "<text x=\"" << centre << "\" y=\"350\" text-anchor=\"middle\">" << g.name << "</text>\n";
  }
  out << "</svg>\n";
}

/// A page that needs nothing else: a violin for each plan and pass, with lines at the quartiles, and their
/// numbers; and the same by each one's mean, since packs of samples and of slices differ in number and so in
/// size.
/// @param title what was measured. @throws InvalidInput as `group_tasks`.
inline void draw_violins(std::ostream& out, const std::vector<TimedTask>& tasks, const std::string& title) {
  std::vector<TaskGroup> groups = group_tasks(tasks);
  out << "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>" << title
      << "</title>\n<style>body { font: 14px sans-serif } td, th { padding: .2em .8em; text-align: right }"
      << "</style>\n<h1>" << title << "</h1>\n";
  draw_chart(out, groups, 1e3, " ms");
  out << "<table>\n<tr><th>tasks, ms<th>number<th>least<th>quarter<th>median<th>three quarters<th>most\n";
  for (const TaskGroup& g : groups) {
    out << "<tr><th>" << g.name << "<td>" << g.values.size();
    for (const double q : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      char text[32];
      std::snprintf(text, sizeof text, "<td>%.3f", 1e3 * quantile_of_sorted(g.values, q));
      out << text;
    }
    out << "\n";
  }
  out << "</table>\n<h2>By each one's mean</h2>\n";
  for (TaskGroup& g : groups) {
    const double mean =
        std::accumulate(g.values.begin(), g.values.end(), 0.0) / static_cast<double>(g.values.size());
    for (double& v : g.values) v /= mean;
  }
  draw_chart(out, groups, 1.0, "");
}

}  // namespace slimpack::bench
