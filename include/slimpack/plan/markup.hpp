#pragma once

#include <string>
#include <string_view>

namespace slimpack::detail {

/// Text as HTML or SVG: nothing in it is markup.
[[nodiscard]] inline std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// Colours of pages and pictures, light and dark: background, text, lines; forward, backward and weight tasks.
inline constexpr std::string_view colours = R"css(
:root{color-scheme:light dark;
--bg:#fcfcfb;--fg:#1d2126;--dim:#5d6671;--line:#d9dde2;--card:#fff;--idle:#e4e7eb;
--F:#3572c8;--B:#e8983a;--W:#4aa36b;--onF:#fff;--onB:#1d2126;--onW:#1d2126}
@media (prefers-color-scheme:dark){:root{
--bg:#15181c;--fg:#e6e8ea;--dim:#9aa4af;--line:#333a42;--card:#1c2025;
--idle:#2d343c;--F:#5b9bf0;--B:#f0a545;--W:#62bd85;--onF:#10151a;--onB:#10151a;--onW:#10151a}}
)css";

}  // namespace slimpack::detail
