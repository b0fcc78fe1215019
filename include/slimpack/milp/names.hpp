#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "slimpack/core/error.hpp"

namespace slimpack::detail {

[[nodiscard]] inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Whether the LP format, or one of its readers, gives a word a meaning.
[[nodiscard]] inline bool is_lp_word(std::string_view name) {
  static constexpr std::array<std::string_view, 26> words{
      "st",       "free",     "inf",     "infinity", "max",      "maximize", "maximise", "maximum",  "min",
      "minimize", "minimise", "minimum", "bound",    "bounds",   "bin",      "binary",   "binaries", "gen",
      "general",  "generals", "int",     "integer",  "integers", "subject",  "such",     "sos"};
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::find(words.begin(), words.end(), lower) != words.end();
}

/// A name that the readers of both file formats accept: letters, digits and underscores stay, everything else
/// becomes an underscore, and 60 characters are kept. A name that starts like a number, as "e5" does, or has
/// a meaning in the format gets `letter` in front.
[[nodiscard]] inline std::string clean_name(std::string_view name, char letter) {
  std::string clean;
  for (const char c : name.substr(0, 60)) clean += is_letter(c) || (c >= '0' && c <= '9') ? c : '_';
  if (clean.empty()) return clean;
  const bool safe = is_letter(clean[0]) && clean[0] != 'e' && clean[0] != 'E' && !is_lp_word(clean);
  return safe ? clean : letter + ("_" + clean);
}

/// Clean names, all different: an empty one becomes the letter and the index, and one that is already taken
/// gets the index as a suffix.
/// @param letter that names without one begin with. @param reserved is given to none. O(characters) as a
/// rule.
[[nodiscard]] inline std::vector<std::string> unique_names(std::span<const std::string> wanted, char letter,
                                                           const std::string& reserved) {
  std::unordered_set<std::string> taken{reserved};
  std::vector<std::string> names;
  names.reserve(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string clean = clean_name(wanted[i], letter);
    const std::string first = clean.empty() ? concat(letter, i) : clean;
    std::string name = first;
    for (std::size_t n = 0; !taken.insert(name).second; ++n)
      name = n == 0 ? concat(first, "_", i) : concat(first, "_", i, "_", n);
    names.push_back(name);
  }
  return names;
}

}  // namespace slimpack::detail
