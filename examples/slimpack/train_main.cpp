// slimpack-train: `slimpack train` and `slimpack profile`, which need the executor and all that it links.
#include <string>
#include <vector>

#include "commands.hpp"
#include "program.hpp"
#include "slimpack/core/error.hpp"

namespace {

int run(const std::vector<std::string>& arguments) {
  const std::string name = arguments.empty() ? "" : arguments.front();
  slimpack::require(name == "train" || name == "profile", "slimpack-train is called with '", name,
                    "'; expected train or profile; `slimpack train` and `slimpack profile` call it");
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  return name == "train" ? slimpack::command::train(rest) : slimpack::command::profile(rest);
}

}  // namespace

int main(int argc, char** argv) { return slimpack::command::run_program(argc, argv, run); }
