#pragma once

#include <charconv>
#include <concepts>
#include <string>

namespace slimpack::detail {

/// Appends a number in the fewest digits that read back as the same one.
template <class T>
  requires(std::integral<T> || std::floating_point<T>)
void append_digits(std::string& out, T value) {
  char digits[32];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

/// The same as a text of its own, also for messages about numbers that are almost the same.
template <class T>
  requires(std::integral<T> || std::floating_point<T>)
[[nodiscard]] std::string all_digits(T value) {
  std::string out;
  append_digits(out, value);
  return out;
}

}  // namespace slimpack::detail
