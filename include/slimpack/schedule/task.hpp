#pragma once

#include <charconv>
#include <span>
#include <string>
#include <string_view>

#include "slimpack/core/error.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack {

/// One step of a stage: run this pass of this pack. Its text form is the plan file's, `F12`, `B7`, `W7`.
struct Task {
  Pass pass = Pass::forward;
  PackId pack = 0;

  friend bool operator==(const Task&, const Task&) = default;
};

/// F, B or W, with which plan files name a pass.
[[nodiscard]] constexpr char pass_letter(Pass pass) {
  return pass == Pass::forward ? 'F' : pass == Pass::backward ? 'B' : 'W';
}

/// forward, backward or weight, for messages.
[[nodiscard]] constexpr const char* pass_name(Pass pass) {
  return pass == Pass::forward ? "forward" : pass == Pass::backward ? "backward" : "weight";
}

/// The task's name in plan files and messages, such as `F12`.
[[nodiscard]] inline std::string to_string(Task task) { return concat(pass_letter(task.pass), task.pack); }

/// The order of a stage, such as `F0 F1 B0`. O(tasks).
[[nodiscard]] inline std::string to_string(std::span<const Task> order) {
  std::string text;
  for (const Task task : order) {
    if (!text.empty()) text += ' ';
    text += to_string(task);
  }
  return text;
}

/// Reads `F12`, `B7` or `W7`. @throws InvalidInput on anything else.
[[nodiscard]] inline Task parse_task(std::string_view text) {
  Task task;
  const char letter = text.empty() ? '\0' : text.front();
  task.pass = letter == 'F' ? Pass::forward : letter == 'B' ? Pass::backward : Pass::weight;
  const auto [end, error] = text.empty()
                                ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                                : std::from_chars(text.data() + 1, text.data() + text.size(), task.pack);
  require((letter == 'F' || letter == 'B' || letter == 'W') && error == std::errc{} &&
              end == text.data() + text.size(),
          "task '", text, "': expected F, B or W followed by a pack number, as in F12");
  return task;
}

}  // namespace slimpack
