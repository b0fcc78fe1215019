#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"

// Measured figures, kept in a file from one program to the next, so that a part that fails loses its own
// alone.
namespace slimpack::bench {

/// A measured number, or why there is none.
struct Figure {
  std::string name;  ///< parts divided by '/': attention/4096 after 0/forward/wgmma
  double value = std::numeric_limits<double>::quiet_NaN();
  std::string words;  ///< instead of a value
};

/// A file of figures: a line each, name and value or words with a tabulator between.
class FigureFile {
 public:
  /// @param path empty: figures are not kept.
  explicit FigureFile(std::string path) : path_(std::move(path)) {}

  /// Adds a line at the end, which is in the file when this returns. @throws InvalidInput if it can't be
  /// written.
  void add(const std::string& name, double value) const {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    append(name, text);
  }
  void add_words(const std::string& name, std::string words) const {
    for (char& c : words) {
      if (c == '\n' || c == '\t') c = ' ';
    }
    append(name, words);
  }

 private:
  void append(const std::string& name, const std::string& text) const {
    if (path_.empty()) return;
    std::ofstream out(path_, std::ios::app);
    out << name << '\t' << text << '\n';
    out.close();
    require(!out.fail(), "can't write '", path_, "'; expected a file that can be written");
  }

  std::string path_;
};

/// A line of such a file. @throws InvalidInput without a tabulator.
[[nodiscard]] inline Figure parse_figure(const std::string& line) {
  const std::size_t tab = line.find('\t');
  require(tab != std::string::npos, "a figure's line is '", line,
          "'; expected a name, a tabulator and a value");
  Figure figure{.name = line.substr(0, tab), .words = line.substr(tab + 1)};
  char* end = nullptr;
  const double value = std::strtod(figure.words.c_str(), &end);
  if (end != figure.words.c_str() && *end == '\0') {
    figure.value = value;
    figure.words.clear();
  }
  return figure;
}

/// All lines of a file; none if there is no file. @throws InvalidInput as `parse_figure`.
[[nodiscard]] inline std::vector<Figure> read_figures(const std::string& path) {
  std::ifstream in(path);
  std::vector<Figure> figures;
  for (std::string line; std::getline(in, line);) figures.push_back(parse_figure(line));
  return figures;
}

/// The last one of a name; nullptr if there is none.
[[nodiscard]] inline const Figure* find_figure(const std::vector<Figure>& figures, std::string_view name) {
  for (auto f = figures.rbegin(); f != figures.rend(); ++f) {
    if (f->name == name) return &*f;
  }
  return nullptr;
}

}  // namespace slimpack::bench
