#pragma once

#ifdef __SANITIZE_THREAD__
#define SLIMPACK_TEST_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLIMPACK_TEST_THREAD_SANITIZER
#endif
#endif

#ifdef SLIMPACK_TEST_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace slimpack::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(SLIMPACK_TEST_THREAD_SANITIZER)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
inline constexpr bool sanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

/// How many of a test's random cases are run, or from which on: what a sanitizer looks for, a few of them show as well, at a
/// tenth of the speed.
/// @param of_memory under the one for memory. @param of_threads under the one for threads.
[[nodiscard]] constexpr unsigned seeds(unsigned all, unsigned of_memory, unsigned of_threads = 1) {
#ifdef SLIMPACK_TEST_THREAD_SANITIZER
  static_cast<void>(all), static_cast<void>(of_memory);
  return of_threads;
#else
  static_cast<void>(of_threads);
  return sanitized ? of_memory : all;
#endif
}

}  // namespace slimpack::testing
