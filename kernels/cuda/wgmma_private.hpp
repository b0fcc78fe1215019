#pragma once

// Included by device_group_private.hpp: the instructions themselves, for each number of columns.
namespace slimpack::kernels::cuda {

// A row of eight columns is four registers of a lane.
#define SLIMPACK_SUMS_4(n) "+f"(s[n][0]), "+f"(s[n][1]), "+f"(s[n][2]), "+f"(s[n][3])
#define SLIMPACK_SUMS_16(n) \
  SLIMPACK_SUMS_4(n), SLIMPACK_SUMS_4(n + 1), SLIMPACK_SUMS_4(n + 2), SLIMPACK_SUMS_4(n + 3)
#define SLIMPACK_SUMS_32 SLIMPACK_SUMS_16(0), SLIMPACK_SUMS_16(4)
#define SLIMPACK_SUMS_48 SLIMPACK_SUMS_32, SLIMPACK_SUMS_16(8)
#define SLIMPACK_SUMS_64 SLIMPACK_SUMS_32, SLIMPACK_SUMS_16(8), SLIMPACK_SUMS_16(12)

template <>
__device__ inline void DeviceGroupWarp::multiply_tiles<64>(Lanes<Sums<64>, 1>& sums, std::uint64_t a,
                                                           std::uint64_t b, bool add) const {
  auto& s = sums.value[0].at;
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1, 0, 0;\n}\n"
      : SLIMPACK_SUMS_32
      : "l"(a), "l"(b), "r"(static_cast<int>(add))
      : "memory");
}

template <>
__device__ inline void DeviceGroupWarp::multiply_tiles<96>(Lanes<Sums<96>, 1>& sums, std::uint64_t a,
                                                           std::uint64_t b, bool add) const {
  auto& s = sums.value[0].at;
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47}, "
      "%48, %49, add, 1, 1, 0, 0;\n}\n"
      : SLIMPACK_SUMS_48
      : "l"(a), "l"(b), "r"(static_cast<int>(add))
      : "memory");
}

template <>
__device__ inline void DeviceGroupWarp::multiply_tiles<128>(Lanes<Sums<128>, 1>& sums, std::uint64_t a,
                                                            std::uint64_t b, bool add) const {
  auto& s = sums.value[0].at;
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1, 0, 0;\n}\n"
      : SLIMPACK_SUMS_64
      : "l"(a), "l"(b), "r"(static_cast<int>(add))
      : "memory");
}

template <>
__device__ inline void DeviceGroupWarp::multiply_rows<64>(Lanes<Sums<64>, 1>& sums,
                                                          const Lanes<Fragment, 1>& a,
                                                          std::uint64_t b) const {
  auto& s = sums.value[0].at;
  const std::uint32_t* x = a.value[0].at;
  asm volatile(
      "{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}\n"
      : SLIMPACK_SUMS_32
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(b)
      : "memory");
}

template <>
__device__ inline void DeviceGroupWarp::multiply_rows<128>(Lanes<Sums<128>, 1>& sums,
                                                           const Lanes<Fragment, 1>& a,
                                                           std::uint64_t b) const {
  auto& s = sums.value[0].at;
  const std::uint32_t* x = a.value[0].at;
  asm volatile(
      "{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}\n"
      : SLIMPACK_SUMS_64
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(b)
      : "memory");
}

#undef SLIMPACK_SUMS_4
#undef SLIMPACK_SUMS_16
#undef SLIMPACK_SUMS_32
#undef SLIMPACK_SUMS_48
#undef SLIMPACK_SUMS_64

}  // namespace slimpack::kernels::cuda
