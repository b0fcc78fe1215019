#pragma once

namespace slimpack::testing {

/// Runs a binary's test cases as Catch2's options on the command line say. @returns 0 if all pass.
[[nodiscard]] int run_tests(int argc, char** argv);

}  // namespace slimpack::testing
