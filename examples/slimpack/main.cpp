// The slimpack command: plans batches, compares planners, checks, draws and runs plans.
#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "commands.hpp"
#include "output.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/version.hpp"

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

constexpr int internal_failure = 1;
constexpr int bad_input = 2;

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
  if (name == "train") return train(rest);
  if (name == "profile") return profile(rest);
  if (name == "presets") return presets(rest);
  const bool help = name == "--help" || name == "-h";
  slimpack::require(help || name == "--version", "unknown command '", name, "'; ", commands);
  slimpack::require(rest.empty(), "unexpected argument '", rest.empty() ? "" : rest.front(), "' behind ",
                    name);
  if (help) {
    std::cout << usage;
    return 0;
  }
  std::cout << "slimpack " << slimpack::version_major << '.' << slimpack::version_minor << '.'
            << slimpack::version_patch << '\n';
  return 0;
}

/// Prints a message as one line, whatever file names and file contents it quotes.
int complain(std::string message, int code) {
  for (char& c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  std::cerr << "slimpack: " << message << '\n';
  return code;
}

}  // namespace

int main(int argc, char** argv) {
#ifdef SIGPIPE
  std::signal(SIGPIPE, SIG_IGN);
#endif
  try {
    const int code = run({argv + (argc > 0 ? 1 : 0), argv + argc});
    slimpack::command::flush_standard_output();
    return code;
  } catch (const slimpack::InvalidInput& error) {
    return complain(error.what(), bad_input);
  } catch (const std::bad_alloc&) {
    return complain("not enough memory for this batch", internal_failure);
  } catch (const std::exception& error) {
    return complain(std::string("internal error: ") + error.what(), internal_failure);
  }
}
