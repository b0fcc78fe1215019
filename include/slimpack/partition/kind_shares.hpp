#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace slimpack::detail {

/// Divisible items over a few kinds of bins, so that the kind with the most load per bin has little: a linear
/// program with one row per kind and item, solved by Dantzig-Wolfe decomposition. Its few duals are the price of
/// load on every kind; every item goes to the kind where it costs least; a simplex over the assignments seen so
/// far gives the next prices.
class KindShares {
 public:
  /// @param bins [kind] of each kind, some possibly 0.
  explicit KindShares(std::span<const double> bins)
      : bins_(bins.begin(), bins.end()),
        price_(bins.size(), 0.0),
        used_(bins.size(), 0.0),
        column_(bins.size() + 1, 0.0),
        direction_(bins.size() + 1, 0.0) {
    double sum = 0.0;
    for (const double n : bins_) sum += n;
    for (std::size_t k = 0; k < bins_.size(); ++k) price_[k] = bins_[k] > 0.0 ? 1.0 / sum : 0.0;
  }

  /// What is known about the least load per bin.
  struct Result {
    double bound = 0.0;  ///< no division is below
    double reached = std::numeric_limits<double>::infinity();
  };

  /// Ends when `bound` is above `enough`, when `reached` is at most `enough`, or when both agree up to
  /// `tolerance`. Starts from the prices of the last call. O(rounds (kinds items + kinds²)), with some rounds per
  /// kind.
  /// @param load [kind * items + item]; infinite where the kind does not take it. Every item has a kind.
  Result solve(std::span<const double> load, std::size_t items, double enough, double tolerance) {
    Result result;
    double value = assign(load, items);
    result.bound = value;
    best_price_ = price_;
    begin();
    for (std::size_t round = 0; round < most_rounds; ++round) {
      result.reached = right_[theta_place_];
      if (result.bound > enough || result.reached <= enough ||
          result.reached - result.bound <= tolerance * result.reached)
        break;
      read_prices();
      if (const std::size_t slack = negative_price(); slack < price_.size()) {
        std::fill(column_.begin(), column_.end(), 0.0);
        column_[slack] = 1.0;
      } else {
        value = assign(load, items);
        if (value > result.bound) {
          result.bound = value;
          best_price_ = price_;
        }
        std::copy(used_.begin(), used_.end(), column_.begin());
        column_.back() = 1.0;
      }
      if (!pivot()) break;
    }
    price_ = best_price_;
    return result;
  }

  /// [kind] Price of load for which the last bound holds. Load on all bins costs 1.
  [[nodiscard]] std::span<const double> price() const { return price_; }

 private:
  static constexpr std::size_t most_rounds = 100;

  /// Every item to the kind where it costs least; the load of each kind goes to `used_`. Returns the cost.
  double assign(std::span<const double> load, std::size_t items) {
    std::fill(used_.begin(), used_.end(), 0.0);
    double cost = 0.0;
    for (std::size_t i = 0; i < items; ++i) {
      double least = std::numeric_limits<double>::infinity(), taken = 0.0;
      std::size_t best = 0;
      for (std::size_t k = 0; k < bins_.size(); ++k) {
        const double own = load[k * items + i];
        if (!(own < std::numeric_limits<double>::infinity())) continue;
        const double priced = price_[k] * own;
        if (priced < least) {
          least = priced;
          best = k;
          taken = own;
        }
      }
      used_[best] += taken;
      cost += least;
    }
    return cost;
  }

  /// The basis of one assignment: the fullest kind's load per bin, and slack on the others.
  void begin() {
    const std::size_t rows = bins_.size() + 1;
    std::size_t full = 0;
    double most = -1.0;
    for (std::size_t k = 0; k < bins_.size(); ++k) {
      if (bins_[k] > 0.0 && used_[k] / bins_[k] > most) {
        most = used_[k] / bins_[k];
        full = k;
      }
    }
    theta_place_ = full;
    inverse_.assign(rows * rows, 0.0);
    right_.assign(rows, 0.0);
    const auto at = [&](std::size_t row, std::size_t column) -> double& {
      return inverse_[row * rows + column];
    };
    for (std::size_t k = 0; k < bins_.size(); ++k) {
      const double share = k == full ? 1.0 / bins_[full] : bins_[k] / bins_[full];
      at(k, full) = -share;
      at(k, rows - 1) = share * used_[full];
      if (k == full) continue;
      at(k, k) = 1.0;
      at(k, rows - 1) -= used_[k];
    }
    at(rows - 1, rows - 1) = 1.0;
    for (std::size_t k = 0; k < rows; ++k) right_[k] = at(k, rows - 1);
  }

  void read_prices() {
    const std::size_t rows = bins_.size() + 1;
    for (std::size_t k = 0; k < bins_.size(); ++k) price_[k] = -inverse_[theta_place_ * rows + k];
  }

  /// The kind with the most negative price, whose slack has to enter the basis; the number of kinds if none.
  /// Prices that rounding made negative become 0.
  std::size_t negative_price() {
    std::size_t worst = price_.size();
    double least = -1e-12;
    for (std::size_t k = 0; k < price_.size(); ++k) {
      if (bins_[k] > 0.0 && price_[k] * bins_[k] < least) {
        least = price_[k] * bins_[k];
        worst = k;
      }
    }
    if (worst < price_.size()) return worst;
    double sum = 0.0;
    for (std::size_t k = 0; k < price_.size(); ++k) {
      price_[k] = std::max(price_[k], 0.0);
      sum += price_[k] * bins_[k];
    }
    for (double& p : price_) p /= sum;
    return worst;
  }

  /// Takes `column_` into the basis. False if it improves nothing.
  bool pivot() {
    const std::size_t rows = bins_.size() + 1;
    for (std::size_t r = 0; r < rows; ++r) {
      direction_[r] = 0.0;
      for (std::size_t c = 0; c < rows; ++c) direction_[r] += inverse_[r * rows + c] * column_[c];
    }
    if (direction_[theta_place_] <= 1e-12 * right_[theta_place_]) return false;
    std::size_t out = rows;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < rows; ++r) {
      if (r == theta_place_ || direction_[r] <= 1e-12) continue;
      const double ratio = std::max(right_[r], 0.0) / direction_[r];
      if (ratio < least) {
        least = ratio;
        out = r;
      }
    }
    if (out == rows) return false;
    const double scale = 1.0 / direction_[out];
    for (std::size_t c = 0; c < rows; ++c) inverse_[out * rows + c] *= scale;
    right_[out] *= scale;
    for (std::size_t r = 0; r < rows; ++r) {
      if (r == out) continue;
      for (std::size_t c = 0; c < rows; ++c)
        inverse_[r * rows + c] -= direction_[r] * inverse_[out * rows + c];
      right_[r] -= direction_[r] * right_[out];
    }
    return true;
  }

  std::vector<double> bins_, price_, best_price_, used_, column_, direction_;
  std::vector<double> inverse_;  // of the basis, row by row; rows are the kinds, then the convexity row
  std::vector<double> right_;    // values of the basis
  std::size_t theta_place_ = 0;  // row of the largest load per bin, which never leaves the basis
};

}  // namespace slimpack::detail
