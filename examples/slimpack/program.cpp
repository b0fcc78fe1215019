#include "program.hpp"

#include <csignal>
#include <exception>
#include <iostream>
#include <new>

#include "output.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::command {

namespace {

constexpr int internal_failure = 1;
constexpr int bad_input = 2;
constexpr int closed_pipe = 128 + SIGPIPE;  // what shells say of programs that SIGPIPE has ended

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

int run_program(int argc, char** argv, int (*run)(const std::vector<std::string>& arguments)) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on files is then an error that can be named
  try {
    const int code = run({argv + (argc > 0 ? 1 : 0), argv + argc});
    flush_standard_output();
    return code;
  } catch (const ClosedPipe&) {
    return closed_pipe;
  } catch (const InvalidInput& error) {
    return complain(error.what(), bad_input);
  } catch (const std::bad_alloc&) {
    return complain("not enough memory for this batch", internal_failure);
  } catch (const std::exception& error) {
    return complain(std::string("internal error: ") + error.what(), internal_failure);
  }
}

}  // namespace slimpack::command
