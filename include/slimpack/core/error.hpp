#pragma once

#include <charconv>
#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>

namespace slimpack {

/// The one exception of the library: an input that no algorithm can work with. Its message names the
/// value, where it stood, and what would be accepted.
class InvalidInput : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

namespace detail {

inline void append(std::string& out, std::string_view text) { out += text; }

inline void append(std::string& out, char c) { out += c; }

template <class T>
  requires(std::integral<T> || std::floating_point<T>)
void append(std::string& out, T value) {
  char digits[32];
  const auto result = [&] {
    if constexpr (std::floating_point<T>) {
      return std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 6);
    } else {
      return std::to_chars(digits, digits + sizeof digits, value);
    }
  }();
  out.append(digits, result.ptr);
}

}  // namespace detail

/// Joins text and numbers into one string; numbers print independently of the locale.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

/// Throws InvalidInput with the joined message unless `ok` holds. The parts are joined only on failure.
template <class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]] {
    throw InvalidInput(concat(parts...));
  }
}

}  // namespace slimpack
