#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/attention_tiles.hpp"
#include "kernels/cuda/device/group_product.hpp"
#include "kernels/cuda/device/wide_tile.hpp"
#include "kernels/cuda/device_warp_private.hpp"

namespace slimpack::kernels::cuda {

/// A warp of a Hopper kernel, whose blocks are groups of four: what `wgmma` and the copy engine add. The
/// host's counterpart is in the tests.
class DeviceGroupWarp : public DeviceWarp {
 public:
  [[nodiscard]] __device__ int warp() const { return warp_; }
  [[nodiscard]] __device__ int group() const { return warp_ / group_warps; }
  [[nodiscard]] __device__ int warp_of_group() const { return warp_ % group_warps; }
  [[nodiscard]] __device__ void* shared() const {
    extern __shared__ __align__(1024) unsigned char tiles_memory[];
    return tiles_memory;
  }
  /// Where something lies in shared memory, as instructions take it.
  [[nodiscard]] __device__ static std::uint32_t shared_place(const void* p) { return shared_address(p); }

  /// Gives registers back, or takes them, for all warps of the group.
  template <int registers>
  __device__ void lower_registers() const {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(registers));
  }
  template <int registers>
  __device__ void raise_registers() const {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(registers));
  }

  /// A barrier for that many arrivals. After the last one comes `show_barriers`, then a barrier of the block.
  __device__ void begin_barrier(Mbarrier& barrier, int arrivals) const {
    if (lane() == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_place(&barrier)), "r"(arrivals)
                   : "memory");
    }
  }
  __device__ void show_barriers() const {
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  }
  /// The phase ends only after that many more bytes were copied. It is meant for those that arrive later.
  __device__ void expect_bytes(Mbarrier& barrier, std::uint32_t bytes) const {
    if (lane() == 0) {
      asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;\n" ::"r"(shared_place(&barrier)),
                   "r"(bytes)
                   : "memory");
    }
  }
  /// One arrival, after what all lanes of the warp did.
  __device__ void arrive(Mbarrier& barrier) const {
    __syncwarp();
    if (lane() == 0) {
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_place(&barrier)) : "memory");
    }
  }
  /// Waits until the phase of that parity has ended. With SLIMPACK_CUDA_BOUNDED_WAITS, kernels whose consuming groups wait
  /// for seconds, or a minute at most, end with an error: whatever hangs, they wait. Tries are counted, since a clock
  /// would take registers, and the group that brings tiles has none left.
  __device__ void wait(Mbarrier& barrier, std::uint32_t parity) const {
#ifdef SLIMPACK_CUDA_BOUNDED_WAITS
    if (group() > 0) return wait_or_trap(barrier, parity);
#endif
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_place(&barrier)),
        "r"(parity)
        : "memory");
  }

  /// Starts to copy a map's box to a tile; the barrier gets the bytes. Rows after the matrix become zeros.
  __device__ void copy_box(const TensorMap& map, int column, std::int32_t row, int /*rows*/, Bf16* to,
                           Mbarrier& barrier) const {
    if (lane() == 0) {
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
          "%4}], [%2];\n" ::"r"(shared_place(to)),
          "l"(&map), "r"(shared_place(&barrier)), "r"(column), "r"(row)
          : "memory");
    }
  }
  /// What this thread wrote to shared memory is seen by matrix instructions and the copy engine.
  __device__ void show_to_engines() const { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

  /// Turns among groups, on barriers of the block: whose turn it is waits until the others have arrived.
  /// @param warps that arrive or wait
  __device__ void wait_for_turn(int turn, int warps) const {
    asm volatile("bar.sync %0, %1;\n" ::"r"(turn + 1), "r"(warps * warp_lanes) : "memory");
  }
  __device__ void arrive_at_turn(int turn, int warps) const {
    asm volatile("bar.arrive %0, %1;\n" ::"r"(turn + 1), "r"(warps * warp_lanes) : "memory");
  }

  /// Before products that use these sums and factors, which other instructions have written.
  template <class... Registers>
  __device__ void fence_products(Registers&... registers) const {
    (settle(registers), ...);
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
  }
  /// Ends a group of products.
  __device__ void commit_products() const { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
  /// What these sums of probabilities depend on is computed before any later wait. The assembler moves waits
  /// up: what should run during a product would come after it. It does not move them over a store, and this
  /// one, for sums below `never`, which is a negative number that it can't know, does not happen.
  __device__ void compute_now(const Lanes<TwoRows, 1>& sums, float never) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      asm volatile(
          "{\n.reg .pred below;\nsetp.lt.f32 below, %0, %2;\n@below st.volatile.shared.f32 [%1], %0;\n}\n" ::
              "f"(sums.value[0].at[i]),
          "r"(shared_place(shared())), "f"(never)
          : "memory");
    }
  }
  /// Waits until at most `pending` groups are under way. @param registers that the others worked on
  template <int pending, class... Registers>
  __device__ void wait_products(Registers&... registers) const {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(pending) : "memory");
    (settle(registers), ...);
  }

  /// sums [64 x columns] = or += a [64 x 16] b [16 x columns]; descriptors of tiles whose depth lies in
  /// lines.
  template <int columns>
  __device__ void multiply_tiles(Lanes<Sums<columns>, 1>& sums, std::uint64_t a, std::uint64_t b,
                                 bool add) const;
  /// sums [64 x columns] += a [64 x 16] b [16 x columns]; b's columns lie in lines.
  template <int columns>
  __device__ void multiply_rows(Lanes<Sums<columns>, 1>& sums, const Lanes<Fragment, 1>& a,
                                std::uint64_t b) const;

 private:
  __device__ static void wait_or_trap(Mbarrier& barrier, std::uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        ".reg .u32 left;\n"
        "mov.u32 left, 67108864;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra ended;\n"
        "sub.u32 left, left, 1;\n"
        "setp.ne.u32 done, left, 0;\n"
        "@done bra again;\n"
        "trap;\n"
        "ended:\n"
        "}\n" ::"r"(shared_place(&barrier)),
        "r"(parity)
        : "memory");
  }

  [[nodiscard]] __device__ static int lane() { return static_cast<int>(threadIdx.x) % warp_lanes; }

  // By a shuffle the compiler knows that the lanes agree: groups of warps take branches as one.
  int warp_ = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / warp_lanes, 0);

  // The compiler does not know that products continue after the instruction that starts them: these keep it
  // from moving what reads or writes their registers.
  template <int columns>
  __device__ static void settle(Lanes<Sums<columns>, 1>& sums) {
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(sums.value[0].at[n][i])::"memory");
    }
  }
  template <int n>
  __device__ static void settle(Lanes<Fragment, 1> (&fragments)[n]) {
#pragma unroll
    for (int f = 0; f < n; ++f) {
#pragma unroll
      for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(fragments[f].value[0].at[i])::"memory");
    }
  }
};

}  // namespace slimpack::kernels::cuda

#include "kernels/cuda/wgmma_private.hpp"
