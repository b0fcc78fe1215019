#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <exception>
#include <fstream>
#include <new>
#include <string>

#include "tests/effort.hpp"

namespace slimpack::testing {

namespace limited {

/// Allows this process so many bytes more than it has. Where the system does not say how many it has, and under
/// a sanitizer, which takes as many as it likes, there is no limit.
inline void limit_memory(std::size_t bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  if (pages == 0 || sanitized) return;
  const rlim_t most = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit{most, most};
  setrlimit(RLIMIT_AS, &limit);
}

template <class F>
std::string outcome(F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace limited

/// What a function says in a process of its own that may take so many bytes more than this one: what it returns, the
/// message of what it throws, or "out of memory".
template <class F>
[[nodiscard]] std::string said_within(std::size_t bytes, F&& f) {
  int ends[2] = {};
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    limited::limit_memory(bytes);
    const std::string text = limited::outcome(f);
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t size = write(ends[1], text.data() + done, text.size() - done);
      if (size <= 0) break;
      done += static_cast<std::size_t>(size);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char block[4096];
  for (ssize_t size = 0; (size = read(ends[0], block, sizeof block)) > 0;)
    said.append(block, static_cast<std::size_t>(size));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return said;
}

}  // namespace slimpack::testing
