#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "slimpack/core/error.hpp"

namespace slimpack {

namespace detail {

/// Bytes as messages say them: below 1 MiB all of them, otherwise MiB, up or down to a tenth.
[[nodiscard]] inline std::string bytes_text(double bytes, bool up) {
  constexpr double mebibyte = 1024.0 * 1024.0, most = 9e17;
  if (!(std::abs(bytes) < most)) return concat(bytes, " bytes");
  if (bytes < mebibyte)
    return concat(static_cast<std::int64_t>(up ? std::ceil(bytes) : std::floor(bytes)), " bytes");
  const double tenths = 10.0 * bytes / mebibyte;
  const auto whole = static_cast<std::int64_t>(up ? std::ceil(tenths) : std::floor(tenths));
  return concat(whole / 10, ".", whole % 10, " MiB");
}

}  // namespace detail

/// The one way to say that memory is too little: "`what` needs 41.5 MiB, but 40.0 MiB are there; expected 1.5 MiB more".
/// @param what text and numbers, such as "stage ", 1, " of pipeline ", 0. @throws InvalidInput unless it is enough.
template <class... What>
void require_memory(double needed, double there, const What&... what) {
  if (needed <= there) return;
  throw InvalidInput(concat(what..., " needs ", detail::bytes_text(needed, true), ", but ",
                            detail::bytes_text(there, false), " are there; expected ",
                            detail::bytes_text(needed - there, true), " more"));
}

/// Bytes in use and the most that ever were, of one stage.
class HighWater {
 public:
  /// @param whose for messages, such as "stage 1 of pipeline 0"
  explicit HighWater(double limit_bytes = std::numeric_limits<double>::infinity(), std::string whose = {})
      : limit_(limit_bytes), whose_(whose.empty() ? "a stage" : std::move(whose)) {}

  /// Call before memory is taken. @param where text and numbers for the message, such as " at ", "F0".
  /// @throws InvalidInput, as `require_memory`, if more than the limit would be in use.
  template <class... Where>
  void take(double bytes, const Where&... where) {
    require_memory(in_use_ + bytes, limit_, whose_, where...);
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
  }

  void give_back(double bytes) { in_use_ -= bytes; }

  [[nodiscard]] double in_use() const { return in_use_; }
  [[nodiscard]] double peak() const { return peak_; }

 private:
  double limit_;
  std::string whose_;
  double in_use_ = 0.0, peak_ = 0.0;
};

}  // namespace slimpack
