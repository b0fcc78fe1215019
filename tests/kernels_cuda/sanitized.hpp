#pragma once

namespace slimpack::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
inline constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

/// How many of a test's random cases are run: what a sanitizer looks for, a few of them show as well, at a tenth of the speed.
[[nodiscard]] constexpr unsigned seeds(unsigned all, unsigned under_sanitizer) {
  return sanitized ? under_sanitizer : all;
}

}  // namespace slimpack::testing
