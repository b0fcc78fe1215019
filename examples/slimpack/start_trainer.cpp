#include "start_trainer.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "slimpack/core/error.hpp"

namespace slimpack::command {

namespace {

/// Next to this program's own file, whatever links it was called by. Where the system does not say which file that is, the
/// name alone, which is looked for in PATH.
std::string trainer_path() {
  constexpr const char* name = "slimpack-train";
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? name : (self.parent_path() / name).string();
}

}  // namespace

void start_trainer(const std::vector<std::string>& arguments) {
  std::string path = trainer_path();
  std::vector<std::string> words = arguments;
  std::vector<char*> pointers{path.data()};
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(path.c_str(), pointers.data());
  const std::error_code reason(errno, std::generic_category());
  throw InvalidInput(
      concat("slimpack ", arguments.front(), " can't start '", path, "': ", reason.message(),
             "; expected the program that `cmake --build` makes of the target slimpack_train where "
             "Eigen 3.4 is found"));
}

}  // namespace slimpack::command
