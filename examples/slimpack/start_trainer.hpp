#pragma once

#include <string>
#include <vector>

namespace slimpack::command {

/// Becomes the program slimpack-train, which stands next to this one: the process, its environment and its files stay, so that
/// launchers see no difference.
/// @param arguments from the command's name on. @throws InvalidInput saying what to build if the program can't be started.
[[noreturn]] void start_trainer(const std::vector<std::string>& arguments);

}  // namespace slimpack::command
