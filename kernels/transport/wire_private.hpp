#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace slimpack::kernels {

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
