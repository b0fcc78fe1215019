#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/digits.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/core/hash.hpp"
#include "slimpack/exec/agreement.hpp"

namespace slimpack {

/// Something besides the plan that decides what a run computes, and so has to be the same on all ranks. Neither text
/// contains a zero byte.
struct Setting {
  std::string name;   ///< as it stands in messages after "the": `learning rate`
  std::string value;  ///< equal where what it says is equal

  friend bool operator==(const Setting&, const Setting&) = default;
};
using Settings = std::vector<Setting>;

/// The value of a rank that has none; no other rank is expected to have it.
inline constexpr const char* no_value = "nothing";

/// A number as a setting, written so that other numbers have other texts; `true` and `false` are `yes` and `no`.
template <class T>
  requires(std::integral<T> || std::floating_point<T>)
[[nodiscard]] Setting setting(std::string name, T value) {
  if constexpr (std::same_as<T, bool>) {
    return {std::move(name), value ? "yes" : "no"};
  } else {
    return {std::move(name), detail::all_digits(value)};
  }
}

/// A hash as a setting, for what is too long to show.
[[nodiscard]] inline Setting hash_setting(std::string name, std::uint64_t hash) {
  return {std::move(name), detail::hash_digits(hash)};
}

/// Settings as one text that ranks can send each other, and back.
[[nodiscard]] inline std::string settings_text(std::span<const Setting> settings) {
  std::string text;
  for (const Setting& s : settings) text.append(s.name).append(1, '\0').append(s.value).append(1, '\0');
  return text;
}
/// @copydoc settings_text
[[nodiscard]] inline Settings settings_from(std::string_view text) {
  Settings settings;
  const auto next = [&] {
    std::string word(text.substr(0, text.find('\0')));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    return word;
  };
  while (!text.empty()) {
    settings.push_back({next(), {}});
    settings.back().value = next();
  }
  return settings;
}

/// Hash of settings, in their order. Never 0. O(characters).
[[nodiscard]] inline std::uint64_t settings_hash(std::span<const Setting> settings) {
  WordHash hash;
  hash.add_all(std::span<const char>(settings_text(settings)));
  return hash.value();
}

/// Checks the settings of all ranks, which all ranks have gathered: all throw or none.
/// @param by_rank ranks of other versions may have other settings; of the rest, they have `no_value`.
/// @throws InvalidInput naming each setting that differs, the ranks that have another value than most, and both values.
/// Complexity: O(ranks * settings^2).
inline void require_same_settings(std::span<const Settings> by_rank) {
  const auto value_of = [&](const Settings& settings, const std::string& name) -> std::string {
    const auto found = std::find_if(settings.begin(), settings.end(),
                                    [&](const Setting& setting) { return setting.name == name; });
    return found == settings.end() ? no_value : found->value;
  };
  std::vector<std::string> names;
  for (const Settings& settings : by_rank) {
    for (const Setting& setting : settings) {
      if (std::find(names.begin(), names.end(), setting.name) == names.end()) names.push_back(setting.name);
    }
  }
  std::string all;
  for (const std::string& name : names) {
    std::vector<std::string> values;
    for (const Settings& settings : by_rank) values.push_back(value_of(settings, name));
    const std::string differs = detail::disagreement(name, values, no_value);
    if (!differs.empty()) all += (all.empty() ? "" : "; ") + differs;
  }
  require(all.empty(), all);
}

/// Makes sure that all ranks have the same settings. Every rank has to call it.
/// @param all_gather called once with a text; hands back all ranks' texts in the order of ranks.
/// @throws InvalidInput on every rank as `require_same_settings`, and whatever `all_gather` throws.
template <std::invocable<const std::string&> AllGather>
void agree_on_settings(std::span<const Setting> own, AllGather&& all_gather) {
  std::vector<Settings> by_rank;
  for (const std::string& text : std::forward<AllGather>(all_gather)(settings_text(own)))
    by_rank.push_back(settings_from(text));
  require_same_settings(by_rank);
}

}  // namespace slimpack
