#pragma once

#include <string>
#include <vector>

namespace slimpack::command {

/// Runs a program of the command: `run` with the arguments after the program's name. What it throws is reported on standard
/// error, as one line.
/// @returns the exit code: that of `run`; 2 for bad input; 1 for any other failure.
int run_program(int argc, char** argv, int (*run)(const std::vector<std::string>& arguments));

}  // namespace slimpack::command
