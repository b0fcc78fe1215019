#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// What lets one source be a GPU's kernel under nvcc and plain C++ elsewhere.
//
// A kernel is a struct of its arguments whose call operator takes a *warp*: the 32 lanes that run in step. It
// says `warp.lanes(f)` for what each lane does, and keeps what a lane holds in `Lanes<T>`. On a GPU f runs
// once, for the thread's own lane, and `Lanes` is that thread's registers; on the host f runs for all lanes
// in turn. So tiling, masks and index arithmetic are the same text in both. Only what `DeviceWarp`
// (device_warp_private.hpp) defines differs: shuffles, copies to shared memory, matrix products, barriers.
#ifdef __CUDACC__
#define SLIMPACK_HOST_DEVICE __host__ __device__
#define SLIMPACK_DEVICE __device__
#define SLIMPACK_UNROLL _Pragma("unroll")
#define SLIMPACK_NO_UNROLL _Pragma("unroll 1")
#else
#define SLIMPACK_HOST_DEVICE
#define SLIMPACK_DEVICE
#define SLIMPACK_UNROLL
#define SLIMPACK_NO_UNROLL
#endif

// The runtime's stream, which its headers define.
struct CUstream_st;

namespace slimpack::kernels::cuda {

/// Work on a GPU goes in order within a stream; it is the runtime's `cudaStream_t`.
using Stream = CUstream_st*;

inline constexpr int warp_lanes = 32;

/// A number of 8 exponent and 7 mantissa bits: the upper half of a float.
struct Bf16 {
  std::uint16_t bits;

  friend bool operator==(const Bf16&, const Bf16&) = default;
};

/// The same bits as another type.
template <class To, class From>
[[nodiscard]] SLIMPACK_HOST_DEVICE inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "the types differ in size");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

[[nodiscard]] SLIMPACK_HOST_DEVICE inline float to_float(Bf16 x) {
  return bits_as<float>(static_cast<std::uint32_t>(x.bits) << 16U);
}

/// The nearest bf16, of two equally near ones the even one; what is no number stays none.
[[nodiscard]] SLIMPACK_HOST_DEVICE inline Bf16 to_bf16(float x) {
#ifdef __CUDA_ARCH__
  Bf16 out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
#else
  const auto bits = bits_as<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {0x7fff};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U)};
#endif
}

/// For code that also knows numbers of the language.
inline void set_number(Bf16& to, float from) { to = to_bf16(from); }

/// Two bf16 in a register, the first in the lower half, as matrix instructions take them.
[[nodiscard]] SLIMPACK_HOST_DEVICE inline std::uint32_t to_bf16_pair(float low, float high) {
#ifdef __CUDA_ARCH__
  std::uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
#else
  return to_bf16(low).bits | static_cast<std::uint32_t>(to_bf16(high).bits) << 16U;
#endif
}

/// One of the two numbers of a pair.
[[nodiscard]] SLIMPACK_HOST_DEVICE inline float pair_element(std::uint32_t pair, int which) {
  return bits_as<float>(which == 0 ? pair << 16U : pair & 0xffff0000U);
}

/// 2^x, on a GPU by its own instruction: about 22 bits are right, and what would be subnormal is 0.
[[nodiscard]] SLIMPACK_HOST_DEVICE inline float power_of_2(float x) {
#ifdef __CUDA_ARCH__
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
#else
  return exp2f(x);
#endif
}

/// What each lane of a warp holds. `Held` is 1 where a thread is one lane, 32 where it plays all.
template <class T, int Held>
struct Lanes {
  T value[Held];

  [[nodiscard]] SLIMPACK_HOST_DEVICE T& operator[](int lane) { return value[Held == 1 ? 0 : lane]; }
  [[nodiscard]] SLIMPACK_HOST_DEVICE const T& operator[](int lane) const {
    return value[Held == 1 ? 0 : lane];
  }
};

/// The same for each lane of a kind of warp.
template <class Warp, class T>
using LanesOf = Lanes<T, Warp::held>;

/// `n` consecutive numbers: with 8 bf16 or 4 float, 16 bytes, which a GPU moves at once.
template <int n>
struct Pack {
  float at[n];
};

namespace detail {

// Numbers may be read and written as these.
struct [[gnu::may_alias]] alignas(16) Words {
  std::uint32_t at[4];
};

struct [[gnu::may_alias]] alignas(4) Word {
  std::uint32_t at;
};

}  // namespace detail

/// Writes two numbers, rounded, that begin at a multiple of 4 bytes.
SLIMPACK_HOST_DEVICE inline void store_pair(Bf16* to, float low, float high) {
  *reinterpret_cast<detail::Word*>(to) = {to_bf16_pair(low, high)};
}

/// Reads n bf16, which must begin at a multiple of n * 2 bytes.
template <int n>
[[nodiscard]] SLIMPACK_HOST_DEVICE inline Pack<n> load(const Bf16* from) {
  static_assert(n == 1 || n == 2 || n == 8, "packs hold 1, 2 or 8 bf16");
  Pack<n> out;
  if constexpr (n == 1) {
    out.at[0] = to_float(*from);
  } else if constexpr (n == 2) {
    const auto word = *reinterpret_cast<const detail::Word*>(from);
    out.at[0] = pair_element(word.at, 0), out.at[1] = pair_element(word.at, 1);
  } else {
    const auto words = *reinterpret_cast<const detail::Words*>(from);
    SLIMPACK_UNROLL
    for (int i = 0; i < n; ++i) out.at[i] = pair_element(words.at[i / 2], i % 2);
  }
  return out;
}

/// Writes n numbers, rounded. With n = 8 they must begin at a multiple of 16 bytes.
template <int n>
SLIMPACK_HOST_DEVICE inline void store(Bf16* to, const Pack<n>& pack) {
  static_assert(n == 1 || n == 8, "packs hold 1 or 8 bf16");
  if constexpr (n == 1) {
    *to = to_bf16(pack.at[0]);
  } else {
    detail::Words words;
    SLIMPACK_UNROLL
    for (int i = 0; i < n / 2; ++i) words.at[i] = to_bf16_pair(pack.at[2 * i], pack.at[2 * i + 1]);
    *reinterpret_cast<detail::Words*>(to) = words;
  }
}

/// Copies n numbers, unchanged: 8 bf16, which must begin at multiples of 16 bytes, or one of any type.
template <int n, class T>
SLIMPACK_HOST_DEVICE inline void copy_numbers(T* to, const T* from) {
  static_assert(n == 1 || (n == 8 && sizeof(T) == sizeof(Bf16)), "one number is copied, or 8 bf16");
  if constexpr (n == 1) {
    *to = *from;
  } else {
    *reinterpret_cast<detail::Words*>(to) = *reinterpret_cast<const detail::Words*>(from);
  }
}

}  // namespace slimpack::kernels::cuda
