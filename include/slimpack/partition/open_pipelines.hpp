#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

namespace slimpack::detail {

/// Pipelines of one kind while samples are placed one by one: which one takes a sample of given seconds. A pipeline
/// that has C seconds of samples, the longest m, and PP stages takes C + (PP - 1) m, and with a sample of t seconds
/// max(C + (PP - 1) m + t, C + PP t). A tree of the least of both terms leaves out groups of pipelines.
class OpenPipelines {
 public:
  /// A pipeline, and what it would take with the sample.
  struct Place {
    double seconds = std::numeric_limits<double>::infinity();
    std::size_t pipeline = 0;
  };

  OpenPipelines(std::size_t pipelines, double other_stages)
      : stages_(other_stages + 1.0), most_(pipelines, 0.0), count_(pipelines) {
    std::size_t width = std::max<std::size_t>(pipelines, 1);
    while (true) {
      width = (width + fan - 1) / fan;
      levels_.emplace_back(width);
      if (width == 1) break;
    }
    clear();
  }

  [[nodiscard]] std::size_t count() const { return count_; }

  /// Takes all samples away. O(pipelines).
  void clear() {
    std::fill(most_.begin(), most_.end(), 0.0);
    for (std::size_t level = 0, width = count_; level < levels_.size(); ++level) {
      for (std::size_t i = 0; i < levels_[level].size() * fan; ++i) {
        const double empty = i < width ? 0.0 : std::numeric_limits<double>::infinity();
        levels_[level][i / fan].load[i % fan] = levels_[level][i / fan].sum[i % fan] = empty;
      }
      width = levels_[level].size();
    }
  }

  /// The first pipeline after which the sample leaves max(seconds, `enough`) least, if that is below `best`;
  /// otherwise `best` stays as it is. O(log pipelines) mostly.
  /// @return whether it changed.
  bool find(double seconds, double enough, Place& best) const {
    return find_below(levels_.size() - 1, 0, seconds, enough, best);
  }

  /// @return what the pipeline takes then. O(log pipelines).
  double put(std::size_t pipeline, double seconds) {
    Group& leaf = levels_[0][pipeline / fan];
    most_[pipeline] = std::max(most_[pipeline], seconds);
    leaf.sum[pipeline % fan] += seconds;
    leaf.load[pipeline % fan] = leaf.sum[pipeline % fan] + (stages_ - 1.0) * most_[pipeline];
    const double load = leaf.load[pipeline % fan];
    std::size_t node = pipeline / fan;
    for (std::size_t level = 1; level < levels_.size(); ++level) {
      const Group& below = levels_[level - 1][node];
      Group& group = levels_[level][node / fan];
      group.load[node % fan] = *std::min_element(below.load.begin(), below.load.end());
      group.sum[node % fan] = *std::min_element(below.sum.begin(), below.sum.end());
      node /= fan;
    }
    return load;
  }

 private:
  static constexpr std::size_t fan = 8;
  /// The least seconds of a few pipelines or groups: with the other stages, and of the samples alone.
  struct Group {
    std::array<double, fan> load, sum;
  };

  bool find_below(std::size_t level, std::size_t node, double seconds, double enough, Place& best) const {
    const Group& group = levels_[level][node];
    bool found = false;
    for (std::size_t i = 0; i < fan; ++i) {
      const double after = std::max(group.load[i] + seconds, group.sum[i] + stages_ * seconds);
      if (std::max(after, enough) >= best.seconds) continue;
      if (level == 0) {
        best = {std::max(after, enough), node * fan + i};
        found = true;
      } else {
        found = find_below(level - 1, node * fan + i, seconds, enough, best) || found;
      }
      if (best.seconds <= enough) break;
    }
    return found;
  }

  double stages_;
  std::vector<double> most_;                // [pipeline] seconds of its longest sample
  std::vector<std::vector<Group>> levels_;  // pipelines, groups of them, groups of those ...
  std::size_t count_;
};

}  // namespace slimpack::detail
