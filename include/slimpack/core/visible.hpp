#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace slimpack {

namespace detail {

/// Bytes of the UTF-8 character that a text begins with; 0 if it begins with none, or with a control character.
/// @pre text is not empty.
[[nodiscard]] inline std::size_t printable_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Control characters up to U+009F, forms that are too long, surrogates, what is above U+10FFFF.
  const unsigned char least = first == 0xc2 || first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return byte(1) >= least && byte(1) <= most ? size : 0;
}

/// A byte that can't be printed, as messages show it: `\n` or `\x1b`.
[[nodiscard]] inline std::string escaped(char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', digits[byte >> 4], digits[byte & 0xf]};
}

}  // namespace detail

/// A foreign text as messages quote it: in at most `most` bytes, with `...` for what is left out; control characters
/// and what is no UTF-8 as `\n` or `\x1b`. O(most).
[[nodiscard]] inline std::string visible(std::string_view text, std::size_t most = 80) {
  std::string out;
  std::size_t room = 0;  // what can stay where the rest is left out
  while (!text.empty()) {
    const std::size_t size = detail::printable_size(text);
    if (size > 0) {
      out += text.substr(0, size);
    } else {
      out += detail::escaped(text.front());
    }
    text.remove_prefix(size > 0 ? size : 1);
    if (out.size() > most) {
      out.resize(room);
      return out + "...";
    }
    if (out.size() + 3 <= most) room = out.size();
  }
  return out;
}

}  // namespace slimpack
