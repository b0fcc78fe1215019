#pragma once

#include <string>
#include <string_view>

#include "slimpack/plan/plan.hpp"

namespace slimpack::testing {

/// @returns the plan's first note with this text; nothing where none has it.
inline std::string note_of(const Plan& plan, std::string_view text) {
  for (const std::string& note : plan.notes) {
    if (note.find(text) != std::string::npos) return note;
  }
  return "";
}

inline bool has_note(const Plan& plan, std::string_view text) { return !note_of(plan, text).empty(); }

}  // namespace slimpack::testing
