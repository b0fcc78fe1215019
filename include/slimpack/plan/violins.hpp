#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/core/digits.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/plan/markup.hpp"
#include "slimpack/plan/metrics.hpp"

namespace slimpack {

/// A distribution that is drawn as a violin.
struct Violin {
  std::string name;            ///< stands below it
  Pass pass = Pass::forward;   ///< decides its colour
  std::vector<double> values;  ///< ascending, finite, not negative; without any, only the name is drawn
};

/// Violins on one axis.
struct ViolinChart {
  std::string title;    ///< stands above it
  double factor = 1.0;  ///< of the values, for the numbers of the axis
  std::string unit;     ///< that follows these numbers
  std::vector<Violin> violins;
};

/// The value below which a share q of ascending values lies, between neighbours in proportion.
/// @throws InvalidInput without a value. @pre 0 <= q <= 1.
[[nodiscard]] inline double quantile_of_sorted(std::span<const double> sorted, double q) {
  require(!sorted.empty(), "there are no values; expected at least one");
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// Densities of ascending values at `points` places from 0 to `top`, by a Gaussian kernel of Scott's width; none beyond the
/// least and the largest value. The largest density is 1. @throws InvalidInput without a value or with less than two places.
/// O(values * points).
[[nodiscard]] inline std::vector<double> density(std::span<const double> sorted, double top,
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

/// Sizes in pixels.
inline constexpr double violin_axis = 76, violin_margin = 12, violin_top = 26, violin_height = 220,
                        violin_chart_height = violin_top + violin_height + 26, violin_half = 48,
                        violin_letter = 6.5;

inline constexpr std::string_view violin_style = R"css(
.violins text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:var(--fg)}
.violins .axis{fill:var(--dim);text-anchor:end}.violins .name{text-anchor:middle}
.violins .grid{stroke:var(--line)}.violins .quartile{stroke:var(--fg)}
.violins polygon{fill-opacity:.8}
.violins .F{fill:var(--F);stroke:var(--F)}.violins .B{fill:var(--B);stroke:var(--B)}
)css";

/// The largest value of a chart; 0 without any.
[[nodiscard]] inline double largest_value(const ViolinChart& chart) {
  double most = 0.0;
  for (const Violin& violin : chart.violins) {
    if (!violin.values.empty()) most = std::max(most, violin.values.back());
  }
  return most;
}

/// Draws one chart.
class ViolinDrawing {
 public:
  ViolinDrawing(std::string& out, const ViolinChart& chart) : out_(out), chart_(chart) {
    const double most = largest_value(chart);
    std::size_t letters = 0;
    for (const Violin& violin : chart.violins) letters = std::max(letters, violin.name.size());
    top_ = most > 0.0 ? 1.05 * most : 1.0;
    room_ = std::max(2 * violin_half + 8, violin_letter * static_cast<double>(letters) + 12);
  }

  [[nodiscard]] double width() const {
    return violin_axis + room_ * static_cast<double>(chart_.violins.size()) + violin_margin;
  }

  /// @param y of its upper edge, in a drawing that it is part of.
  void draw(double y) {
    add("<svg class=\"violins\" y=\"", y, "\" width=\"", width(), "\" height=\"", violin_chart_height,
        "\" viewBox=\"0 0 ", width(), ' ', violin_chart_height, "\">\n");
    add("<text x=\"8\" y=\"14\">", escaped(chart_.title), "</text>\n");
    axis();
    for (std::size_t i = 0; i < chart_.violins.size(); ++i) {
      const double centre = violin_axis + room_ * (static_cast<double>(i) + 0.5);
      violin(chart_.violins[i], centre);
      add("<text class=\"name\" x=\"", centre, "\" y=\"", violin_chart_height - 8, "\">",
          escaped(chart_.violins[i].name), "</text>\n");
    }
    add("</svg>\n");
  }

 private:
  static constexpr std::size_t points = 121;

  void append(double number) { append_digits(out_, std::round(10 * number) / 10); }
  void append(std::string_view text) { out_ += text; }
  void append(char letter) { out_ += letter; }
  template <class... Parts>
  void add(const Parts&... parts) {
    (append(parts), ...);
  }

  [[nodiscard]] double y(double value) const { return violin_top + violin_height * (1.0 - value / top_); }

  /// Lines at round values, about ten of them.
  void axis() {
    const double raw = chart_.factor * top_ / 10, power = std::pow(10.0, std::floor(std::log10(raw)));
    double step = 10 * power;
    for (const double f : {5.0, 2.0, 1.0}) {
      if (f * power >= 0.999 * raw) step = f * power;
    }
    for (int i = 0; i * step <= chart_.factor * top_; ++i) {
      const double at = y(i * step / chart_.factor);
      add("<line class=\"grid\" x1=\"", violin_axis, "\" x2=\"", width() - violin_margin, "\" y1=\"", at,
          "\" y2=\"", at, "\"/><text class=\"axis\" x=\"", violin_axis - 6, "\" y=\"", at + 4, "\">",
          concat(i * step), chart_.unit, "</text>\n");
    }
  }

  void violin(const Violin& violin, double centre) {
    if (violin.values.empty()) return;
    const std::vector<double> wide = density(violin.values, top_, points);
    const auto value = [&](std::size_t i) { return top_ * static_cast<double>(i) / double{points - 1}; };
    add("<polygon class=\"", violin.pass == Pass::forward ? 'F' : 'B', "\" points=\"");
    for (std::size_t i = 0; i < points; ++i) {
      if (wide[i] > 0.0) add(centre - violin_half * wide[i], ',', y(value(i)), ' ');
    }
    for (std::size_t i = points; i-- > 0;) {
      if (wide[i] > 0.0) add(centre + violin_half * wide[i], ',', y(value(i)), ' ');
    }
    add("\"/>\n");
    for (const double q : {0.25, 0.5, 0.75}) {
      const double at = y(quantile_of_sorted(violin.values, q));
      add("<line class=\"quartile\" x1=\"", centre - violin_half / 2, "\" x2=\"", centre + violin_half / 2,
          "\" y1=\"", at, "\" y2=\"", at, "\" stroke-dasharray=\"", q == 0.5 ? "none" : "4 3", "\"/>\n");
    }
  }

  std::string& out_;
  const ViolinChart& chart_;
  double top_ = 1.0, room_ = 0.0;
};

/// Ascending values; of many, evenly spaced ones, the first and the last among them.
[[nodiscard]] inline std::vector<double> sorted_sample(std::vector<double> values) {
  constexpr std::size_t most = 1024;
  std::sort(values.begin(), values.end());
  if (values.size() <= most) return values;
  std::vector<double> sample(most);
  for (std::size_t i = 0; i < most; ++i) sample[i] = values[i * (values.size() - 1) / (most - 1)];
  return sample;
}

/// What a figure of an axis of seconds is multiplied by, and its unit.
inline void set_unit_of_seconds(ViolinChart& chart) {
  const double most = largest_value(chart);
  chart.factor = most >= 1.0 ? 1.0 : 1e3;
  chart.unit = most >= 1.0 ? " s" : " ms";
}

}  // namespace detail

/// Appends a chart as an SVG element, for a page or a larger drawing. @param y of its upper edge in the drawing.
/// O(violins * values).
inline void append_violins(std::string& out, const ViolinChart& chart, double y = 0.0) {
  detail::ViolinDrawing(out, chart).draw(y);
}

/// Charts one below the other, as an SVG file that needs nothing else. O(violins * values).
inline void write_violins(std::ostream& out, std::span<const ViolinChart> charts) {
  std::string drawn;
  double width = 0.0, height = 0.0;
  for (const ViolinChart& chart : charts) {
    detail::ViolinDrawing drawing(drawn, chart);
    drawing.draw(height);
    width = std::max(width, drawing.width());
    height += detail::violin_chart_height;
  }
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
      << "\">\n<style>" << detail::colours << detail::violin_style
      << "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"var(--bg)\"/>\n"
      << drawn << "</svg>\n";
}

/// A plan among those whose packs are compared.
struct NamedPlan {
  const Plan* plan = nullptr;
  std::string name;
};

/// Durations of plans' packs (SlimPack, Figures 14 to 16), two charts: seconds on a stage, the mean over the stages, one value
/// for each pack; and relative to the mean pack of the pipeline that runs it, one value for each pipeline and pack, so that the
/// largest one is `PlanMetrics::max_over_mean_forward` or `…_backward`. O(packs * (stages + log packs)).
[[nodiscard]] inline std::vector<ViolinChart> duration_charts(std::span<const NamedPlan> plans) {
  std::vector<ViolinChart> charts(2);
  charts[0].title = "Seconds of a pack on a stage, mean over the stages";
  charts[1].title = "The same, relative to the mean pack of the pipeline that runs it";
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const NamedPlan& named : plans) {
      PackDurations durations = pack_durations(named.plan->of(pass), named.plan->pipelines.size());
      const std::string name = named.name + (pass == Pass::forward ? ", forward" : ", backward");
      charts[0].violins.push_back({name, pass, detail::sorted_sample(std::move(durations.seconds))});
      charts[1].violins.push_back({name, pass, detail::sorted_sample(std::move(durations.shares))});
    }
  }
  detail::set_unit_of_seconds(charts[0]);
  return charts;
}

}  // namespace slimpack
