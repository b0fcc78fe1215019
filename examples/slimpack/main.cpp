// The slimpack command: plans batches, compares planners, checks and draws plans.
#include <boost/program_options/errors.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "commands.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/version.hpp"

namespace {

constexpr const char* usage =
    "usage: slimpack plan|compare|check|trace|presets [options]\n"
    "  plan     plans a batch and writes the plan file\n"
    "  compare  plans batches with several planners and compares them\n"
    "  check    checks a plan file against the rules of the format\n"
    "  trace    writes a plan's timeline for chrome://tracing or ui.perfetto.dev\n"
    "  presets  lists models and devices\n"
    "`slimpack COMMAND --help` lists a command's options.\n";

constexpr int bad_input = 2;

int run(const std::string& name, const std::vector<std::string>& arguments) {
  using namespace slimpack::command;
  if (name == "plan") return plan(arguments);
  if (name == "compare") return compare(arguments);
  if (name == "check") return check(arguments);
  if (name == "trace") return trace(arguments);
  if (name == "presets") return presets(arguments);
  throw slimpack::InvalidInput("unknown command '" + name +
                               "'; expected plan, compare, check, trace or presets");
}

}  // namespace

int main(int argc, char** argv) {
#ifdef SIGPIPE
  std::signal(SIGPIPE, SIG_IGN);
#endif
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    std::cerr << usage;
    return bad_input;
  }
  try {
    if (arguments[0] == "--help" || arguments[0] == "-h") {
      std::cout << usage;
      return 0;
    }
    if (arguments[0] == "--version") {
      std::cout << "slimpack " << slimpack::version_major << '.' << slimpack::version_minor << '.'
                << slimpack::version_patch << '\n';
      return 0;
    }
    return run(arguments[0], {arguments.begin() + 1, arguments.end()});
  } catch (const slimpack::InvalidInput& error) {
    std::cerr << "slimpack: " << error.what() << '\n';
    return bad_input;
  } catch (const boost::program_options::error& error) {
    std::cerr << "slimpack: " << error.what() << '\n';
    return bad_input;
  } catch (const std::exception& error) {
    std::cerr << "slimpack: internal error: " << error.what() << '\n';
    return 1;
  }
}
