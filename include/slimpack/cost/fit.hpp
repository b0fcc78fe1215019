#pragma once

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"
#include "slimpack/cost/polynomial.hpp"
#include "slimpack/model/device.hpp"

namespace slimpack {

/// A measured duration of one whole sample on one stage.
struct ProfileRow {
  Tokens tokens = 0;
  double seconds = 0.0;
};

/// `a l^2 + b l + c` seconds for l tokens, and how well it describes what it was fitted to.
struct QuadraticFit {
  double a = 0.0, b = 0.0, c = 0.0;
  double rms_relative_error = 0.0;
  double max_relative_error = 0.0;

  [[nodiscard]] double seconds(double tokens) const { return (a * tokens + b) * tokens + c; }
};

namespace detail {

/// Least squares of relative errors over the columns that are in use; the other coefficients are zero.
inline QuadraticFit fit_columns(std::span<const ProfileRow> rows, const bool (&use)[3]) {
  const double unit = static_cast<double>(std::max_element(rows.begin(), rows.end(), [](auto& x, auto& y) {
                                            return x.tokens < y.tokens;
                                          })->tokens);
  std::vector<int> columns;
  for (int i = 0; i < 3; ++i) {
    if (use[i]) columns.push_back(i);
  }
  Eigen::MatrixXd matrix(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(columns.size()));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const double l = static_cast<double>(rows[r].tokens) / unit;
    const double powers[] = {l * l, l, 1.0};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      matrix(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(i)) =
          powers[columns[i]] / rows[r].seconds;
    }
  }
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(static_cast<Eigen::Index>(rows.size()));
  const Eigen::VectorXd solution = matrix.colPivHouseholderQr().solve(ones);
  double coefficients[3] = {0.0, 0.0, 0.0};
  for (std::size_t i = 0; i < columns.size(); ++i)
    coefficients[columns[i]] = solution(static_cast<Eigen::Index>(i));
  return {coefficients[0] / (unit * unit), coefficients[1] / unit, coefficients[2]};
}

inline void state_errors(std::span<const ProfileRow> rows, QuadraticFit& fit) {
  double squares = 0.0;
  for (const ProfileRow& row : rows) {
    const double error = std::abs(fit.seconds(static_cast<double>(row.tokens)) / row.seconds - 1.0);
    squares += error * error;
    fit.max_relative_error = std::max(fit.max_relative_error, error);
  }
  fit.rms_relative_error = std::sqrt(squares / static_cast<double>(rows.size()));
}

}  // namespace detail

/// Fits a quadratic to a profile, by least squares of the relative errors, so that short samples count as
/// much as long ones. A coefficient that would be negative is held at zero: no sample takes less than no
/// time.
/// @param rows at least three different lengths.
/// @throws InvalidInput naming the row whose length or duration is not positive, or if lengths are missing.
/// Complexity: O(rows).
[[nodiscard]] inline QuadraticFit fit_quadratic(std::span<const ProfileRow> rows) {
  std::set<Tokens> lengths;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    require(rows[i].tokens > 0, "profile row ", i, " has ", rows[i].tokens,
            " tokens; expected a positive number");
    require(rows[i].seconds > 0.0 && std::isfinite(rows[i].seconds), "profile row ", i, " has ",
            rows[i].seconds, " seconds; expected a positive number");
    lengths.insert(rows[i].tokens);
  }
  require(lengths.size() >= 3, "the profile has ", lengths.size(), " different lengths; expected at least 3");
  QuadraticFit best;
  best.rms_relative_error = std::numeric_limits<double>::infinity();
  for (int use = 1; use < 8; ++use) {
    QuadraticFit fit = detail::fit_columns(rows, {(use & 1) != 0, (use & 2) != 0, (use & 4) != 0});
    if (fit.a < 0.0 || fit.b < 0.0 || fit.c < 0.0) continue;
    detail::state_errors(rows, fit);
    if (fit.rms_relative_error < best.rms_relative_error) best = fit;
  }
  return best;
}

/// UtilLen(P) of Hydraulis: the fewest tokens of a pack that reach a share of the best efficiency, tokens per second,
/// of any pack of one sample of up to `longest` tokens. Shorter packs leave devices idle
/// (`PackPipelineOptions::useful_tokens`).
/// @param fit T(l, P) of the scheme. @param share of the best efficiency, in (0, 1].
/// @throws InvalidInput if a number is impossible, or the fit takes no time. Source: Hydraulis, appendix C. O(1).
[[nodiscard]] inline Tokens useful_tokens(const QuadraticFit& fit, Tokens longest, double share = 0.85) {
  require(share > 0.0 && share <= 1.0, "share is ", share, "; expected more than 0 and at most 1");
  require(longest > 0, "longest is ", longest, " tokens; expected a positive number");
  require(fit.a >= 0.0 && fit.b >= 0.0 && fit.c >= 0.0 && fit.a + fit.b + fit.c > 0.0, "the fit is ", fit.a,
          " l^2 + ", fit.b, " l + ", fit.c, "; expected coefficients from 0, not all 0");
  // Seconds per token, a l + b + c / l, fall until l^2 = c / a.
  const auto most = static_cast<double>(longest);
  const double fastest = std::clamp(fit.a > 0.0 ? std::sqrt(fit.c / fit.a) : most, 1.0, most);
  const double allowed = (fit.a * fastest + fit.b + fit.c / fastest) / share;
  // The first l with a l^2 + (b - allowed) l + c <= 0, written so that it stays exact for a = 0.
  const double q = allowed - fit.b, root = std::sqrt(std::max(0.0, q * q - 4.0 * fit.a * fit.c));
  const double first = q + root > 0.0 ? 2.0 * fit.c / (q + root) : 1.0;
  return std::clamp(static_cast<Tokens>(std::ceil(first * (1.0 - 1e-12))), Tokens{1}, longest);
}

/// A CostModel from fits of a user's profile: a slice costs the difference of the quadratic at its ends, a
/// pack the constant. The stages are equal. A PolynomialCostModel.
class FittedCost {
 public:
  /// @param bytes_per_token what a token takes from stage to stage over `link`.
  /// @throws InvalidInput if there is no stage.
  FittedCost(QuadraticFit forward, QuadraticFit backward, std::size_t stages, Link link,
             double bytes_per_token)
      : forward_(forward),
        backward_(backward),
        stages_(stages),
        link_(link),
        bytes_per_token_(bytes_per_token) {
    require(stages > 0, "0 stages; expected at least 1");
  }

  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass pass) const {
    const QuadraticFit& fit = of(pass);
    const double first = static_cast<double>(begin), last = static_cast<double>(end);
    return (last - first) * (fit.a * (last + first) + fit.b);
  }
  [[nodiscard]] double pack_seconds(std::size_t, Pass pass) const { return of(pass).c; }
  [[nodiscard]] SliceCoefficients coefficients(std::size_t, Pass pass) const {
    return {.per_token = of(pass).b - of(pass).a, .per_twice_pair = of(pass).a};
  }
  [[nodiscard]] static constexpr bool is_polynomial() { return true; }
  [[nodiscard]] double transfer_seconds(std::size_t, Tokens tokens, Pass) const {
    return link_.seconds(static_cast<double>(tokens) * bytes_per_token_);
  }

 private:
  [[nodiscard]] const QuadraticFit& of(Pass pass) const {
    return pass == Pass::forward ? forward_ : backward_;
  }
  QuadraticFit forward_, backward_;
  std::size_t stages_;
  Link link_;
  double bytes_per_token_;
};

}  // namespace slimpack
