#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace slimpack::kernels {

/// A value as it travels between processes of one kind of machine.
template <class T>
[[nodiscard]] std::span<const std::byte> bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
[[nodiscard]] std::span<std::byte> writable_bytes_of(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span(&value, 1));
}

/// Puts a text, or its first `N - 1` characters, where others have a fixed place for it.
template <std::size_t N>
void put_text(std::array<char, N>& to, std::string_view text) {
  to = {};
  text.copy(to.data(), N - 1);
}

template <std::size_t N>
[[nodiscard]] std::string text_of(const std::array<char, N>& from) {
  return {from.data(), static_cast<std::size_t>(std::find(from.begin(), from.end(), '\0') - from.begin())};
}

}  // namespace slimpack::kernels
