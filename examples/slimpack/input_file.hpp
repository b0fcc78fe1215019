#pragma once

#include <cstdio>
#include <fstream>
#include <ios>
#include <iostream>
#include <string>
#include <string_view>

#include "slimpack/core/error.hpp"

namespace slimpack::command {

/// Whether a path stands for standard input.
inline bool is_standard_input(std::string_view path) { return path == "-"; }

/// How messages name a file that may be standard input.
inline std::string input_name(const std::string& path) {
  return is_standard_input(path) ? "standard input" : path;
}

/// What `read(stream)` makes of a file. @param standard whether it is standard input. @param what begins the message, such as
/// "the plan", and @param expected ends it, where the file can't be opened or read to its end.
/// @throws InvalidInput for these, or as `read`.
template <class Read>
auto read_input(const std::string& path, bool standard, std::string_view what, std::string_view expected,
                const Read& read) {
  const auto unreadable = [&] {
    return InvalidInput(
        concat("can't read ", what, " '", standard ? input_name(path) : path, "'; expected ", expected));
  };
  std::ifstream file;
  if (!standard) file.open(path);
  if (!standard && !file.is_open()) throw unreadable();
  // What comes of half a file is no answer. Of standard input, only C's stream tells why it has ended.
  const auto broken = [&] { return standard && std::ferror(stdin) != 0; };
  try {
    auto result = read(standard ? std::cin : file);
    if (broken()) throw unreadable();
    return result;
  } catch (const std::ios_base::failure&) {  // a folder opens, but can't be read
    throw unreadable();
  } catch (const InvalidInput&) {
    if (broken()) throw unreadable();
    throw;
  }
}

}  // namespace slimpack::command
