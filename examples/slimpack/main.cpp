// The slimpack command: plans batches, compares planners, checks and draws plans. What runs plans and measures machines is a
// program of its own, slimpack-train, which this one becomes for `train` and `profile`.
#include <iostream>
#include <string>
#include <vector>

#include "commands.hpp"
#include "program.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/version.hpp"
#include "start_trainer.hpp"

namespace {

constexpr const char* usage =
    "usage: slimpack plan|compare|check|trace|train|profile|presets [options]\n"
    "  plan     plans a batch and writes the plan file\n"
    "  compare  plans batches with several planners and compares them\n"
    "  check    checks a plan file against the rules of the format\n"
    "  trace    writes a plan's timeline for chrome://tracing or ui.perfetto.dev\n"
    "  train    runs plans for real: trains a small model on this machine's processors\n"
    "  profile  measures a model's tasks on this machine, for plan, compare and train\n"
    "  presets  lists models and devices\n"
    "`slimpack COMMAND --help` lists a command's options.\n";

int run(const std::vector<std::string>& arguments) {
  using namespace slimpack::command;
  const char* const commands =
      "expected plan, compare, check, trace, train, profile or presets (or --help, --version)";
  slimpack::require(!arguments.empty(), "no command; ", commands);
  const std::string& name = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (name == "plan") return plan(rest);
  if (name == "compare") return compare(rest);
  if (name == "check") return check(rest);
  if (name == "trace") return trace(rest);
  if (name == "train" || name == "profile") start_trainer(arguments);
  if (name == "presets") return presets(rest);
  const bool help = name == "--help" || name == "-h";
  slimpack::require(help || name == "--version", "unknown command '", name, "'; ", commands);
  slimpack::require(rest.empty(), "unexpected argument '", rest.empty() ? "" : rest.front(), "' after ",
                    name);
  if (help) {
    std::cout << usage;
    return 0;
  }
  std::cout << "slimpack " << slimpack::version_major << '.' << slimpack::version_minor << '.'
            << slimpack::version_patch << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return slimpack::command::run_program(argc, argv, run); }
