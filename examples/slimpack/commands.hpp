#pragma once

#include <string>
#include <vector>

namespace slimpack::command {

/// Each runs one subcommand with the arguments after its name and returns the exit code. Bad input throws.
int plan(const std::vector<std::string>& arguments);
int compare(const std::vector<std::string>& arguments);
int check(const std::vector<std::string>& arguments);
int trace(const std::vector<std::string>& arguments);
int presets(const std::vector<std::string>& arguments);

/// The same; these are part of the program slimpack-train alone.
int train(const std::vector<std::string>& arguments);
int profile(const std::vector<std::string>& arguments);

}  // namespace slimpack::command
