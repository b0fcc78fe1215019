#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/block.hpp"
#include "kernels/cuda/runtime_private.hpp"

namespace slimpack::kernels::cuda {

/// The warp of a kernel on a GPU; see portable.hpp. The host's counterpart is in the tests.
class DeviceWarp {
 public:
  static constexpr int held = 1;

  [[nodiscard]] __device__ int warp() const { return static_cast<int>(threadIdx.x) / warp_lanes; }
  [[nodiscard]] __device__ int warps() const { return static_cast<int>(blockDim.x) / warp_lanes; }
  [[nodiscard]] __device__ std::size_t block() const { return blockIdx.x; }
  [[nodiscard]] __device__ std::size_t blocks() const { return gridDim.x; }
  [[nodiscard]] __device__ void* shared() const {
    extern __shared__ __align__(128) unsigned char memory[];
    return memory;
  }

  template <class F>
  __device__ void lanes(const F& f) const {
    f(static_cast<int>(threadIdx.x) % warp_lanes);
  }

  __device__ void sync() const { __syncthreads(); }

  /// What the lanes hold whose numbers differ in the bits of `mask`.
  template <class T>
  [[nodiscard]] __device__ Lanes<T, 1> shuffle_xor(const Lanes<T, 1>& values, int mask) const {
    static_assert(sizeof(T) % 4 == 0, "shuffles move words");
    constexpr int words = sizeof(T) / 4;
    std::uint32_t moved[words];
    memcpy(moved, &values.value[0], sizeof moved);
#pragma unroll
    for (int i = 0; i < words; ++i) moved[i] = __shfl_xor_sync(0xffffffffU, moved[i], mask);
    Lanes<T, 1> out;
    memcpy(&out.value[0], moved, sizeof moved);
    return out;
  }

  /// Starts to copy 16 bytes to shared memory; zeros if `valid` does not hold. Called by each lane.
  __device__ void copy_chunk(Bf16* to, const Bf16* from, bool valid) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
  }

  /// Ends a group of copies.
  __device__ void commit_copies() const { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

  /// Waits until at most `pending` groups of this thread's copies are still under way.
  template <int pending>
  __device__ void wait_copies() const {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(pending) : "memory");
  }

  /// Loads four 8 x 8 matrices; matrix i's rows are named by lanes 8i to 8i + 7.
  template <bool transposed, class RowOf, class To>
  __device__ void load_matrices(const RowOf& row_of_lane, const To& to) const {
    const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
    std::uint32_t* out = to(lane);
    const std::uint32_t address = shared_address(row_of_lane(lane));
    if constexpr (transposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                   : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                   : "r"(address)
                   : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                   : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                   : "r"(address)
                   : "memory");
    }
  }

  /// sum [16 x 8] += a [16 x 16] b [16 x 8]; each function gives a lane's registers.
  template <class Sum, class A, class B>
  __device__ void multiply(const Sum& sum, const A& a, const B& b) const {
    const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
    float* c = sum(lane);
    const std::uint32_t *x = a(lane), *y = b(lane);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  }

 protected:
  [[nodiscard]] __device__ static std::uint32_t shared_address(const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
  }
};

}  // namespace slimpack::kernels::cuda
