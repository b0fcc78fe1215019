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

/// Whether tests run few of their random cases: what a sanitizer looks for, a few show as well, at a tenth of the speed; and
/// SLIMPACK_TEST_FEW asks for it.
#ifdef SLIMPACK_TEST_FEW
inline constexpr bool few = true;
#else
inline constexpr bool few = sanitized;
#endif

/// How many of a test's random cases are run, or from which on.
/// @param of_few where `few` are run. @param of_threads under the sanitizer for threads.
[[nodiscard]] constexpr unsigned seeds(unsigned all, unsigned of_few, unsigned of_threads = 1) {
#ifdef SLIMPACK_TEST_THREAD_SANITIZER
  static_cast<void>(all), static_cast<void>(of_few);
  return of_threads;
#else
  static_cast<void>(of_threads);
  return few ? of_few : all;
#endif
}

}  // namespace slimpack::testing
