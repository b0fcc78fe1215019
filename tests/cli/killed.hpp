#pragma once

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

namespace test {

/// How a program ended.
struct Ending {
  std::size_t stops = 0;  ///< entries and exits of system calls before
  std::size_t first = 0;  ///< the stop at which it first made a file; all, if it made none
  int status = 0;         ///< as waitpid gives it

  [[nodiscard]] bool good() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

/// In a new process: becomes the program, which stops at each system call from then on.
[[noreturn]] inline void become_traced(std::vector<std::string>& arguments) {
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  const int nowhere = open("/dev/null", O_RDWR);
  for (const int standard : {0, 1, 2}) dup2(nowhere, standard);
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // looking for them needs ptrace itself
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  raise(SIGSTOP);
  execv(words.front(), words.data());
  _exit(127);
}

/// Whether the process, which has stopped where it enters a system call, is about to make a file.
inline bool makes_file(pid_t process) {
  __ptrace_syscall_info call{};
  void* const size = reinterpret_cast<void*>(sizeof call);
  if (ptrace(PTRACE_GET_SYSCALL_INFO, process, size, &call) <= 0) return false;
  constexpr unsigned long openat_number = 257;  // on x86-64; elsewhere, none is found
  return call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == openat_number &&
         (call.entry.args[2] & O_CREAT) != 0;
}

/// Runs a program, and sends it a signal at one of the stops at its system calls, where each begins and where it ends. It then
/// dies before that call, or right after it. @param stop from 1 on; 0: no signal.
inline Ending run_with_signal(std::vector<std::string> arguments, std::size_t stop, int signal) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) become_traced(arguments);
  Ending ending;
  REQUIRE(waitpid(child, &ending.status, 0) == child);
  REQUIRE(WIFSTOPPED(ending.status));
  const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
  REQUIRE(ptrace(PTRACE_SETOPTIONS, child, nullptr, reinterpret_cast<void*>(options)) == 0);
  for (long passed_on = 0;;) {
    if (ptrace(PTRACE_SYSCALL, child, nullptr, reinterpret_cast<void*>(passed_on)) != 0) break;
    if (waitpid(child, &ending.status, 0) != child) FAIL("the program can't be waited for");
    if (!WIFSTOPPED(ending.status)) break;
    passed_on = 0;
    const int why = WSTOPSIG(ending.status);
    if (why == (SIGTRAP | 0x80)) {
      ++ending.stops;
      if (ending.first == 0 && makes_file(child)) ending.first = ending.stops;
      if (ending.stops == stop) kill(child, signal);
    } else if (why != SIGTRAP) {
      passed_on = why;
    }
  }
  if (WIFSTOPPED(ending.status)) REQUIRE(waitpid(child, &ending.status, 0) == child);
  if (ending.first == 0) ending.first = ending.stops;
  return ending;
}

}  // namespace test
