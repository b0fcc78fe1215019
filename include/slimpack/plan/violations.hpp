#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack::detail {

/// What the checks of a plan found wrong, as messages; no more than asked for.
class Violations {
 public:
  explicit Violations(std::size_t most) : most_(most) {}

  /// The message's parts are joined only if it is kept.
  template <class... Parts>
  void expect(bool ok, const Parts&... parts) {
    if (ok) return;
    none_ = false;
    if (found_.size() < most_) found_.push_back(concat(parts...));
  }
  /// Whether every expectation was met, those included whose messages were too many.
  [[nodiscard]] bool none() const { return none_; }
  [[nodiscard]] std::vector<std::string> take() { return std::move(found_); }

 private:
  std::size_t most_;
  bool none_ = true;
  std::vector<std::string> found_;
};

}  // namespace slimpack::detail
