#pragma once

/// The library's version; CMake reads it from here, so that it stands in one place.
namespace slimpack {

inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

}  // namespace slimpack
