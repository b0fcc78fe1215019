#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/cuda/device/block.hpp"
#include "tests/kernels_cuda_device/host_group.hpp"
#include "tests/kernels_cuda_device/host_warp.hpp"

namespace slimpack::testing {

/// Starts kernels on the host; blocks run one after another.
struct HostLauncher {
  Copies copies = Copies::late;

  template <class Kernel>
  void operator()(const Kernel& kernel, const kernels::cuda::Grid& grid) const {
    constexpr std::size_t line = kernels::cuda::tile_alignment;
    std::vector<unsigned char> memory(grid.shared + line);
    unsigned char* shared = memory.data() + line - reinterpret_cast<std::uintptr_t>(memory.data()) % line;
    std::barrier<> barrier(grid.warps);
    HostBlock block;
    std::atomic<bool> clean = true;  // Catch2's assertions are for one thread
    const auto run = [&](int w) {
      auto warp = [&] {
        if constexpr (requires { Kernel::groups; }) {
          return HostGroupWarp(w, grid.warps, grid.blocks, shared, barrier, block, copies);
        } else {
          return HostWarp(w, grid.warps, grid.blocks, shared, barrier, copies);
        }
      }();
      for (std::size_t b = 0; b < grid.blocks; ++b) {
        barrier.arrive_and_wait();
        if (w == 0) {
          if (!block.is_done()) clean = false;
          std::fill(shared, shared + grid.shared, static_cast<unsigned char>(0xff));
        }
        barrier.arrive_and_wait();
        warp.set_block(b);
        kernel(warp);
        if (!warp.is_clean()) clean = false;
      }
    };
    std::vector<std::jthread> others;
    for (int w = 1; w < grid.warps; ++w) others.emplace_back(run, w);
    run(0);
    others.clear();
    REQUIRE(clean);
    REQUIRE(block.is_done());
  }

  [[nodiscard]] kernels::cuda::TensorMap tensor_map(
      const kernels::MatrixView<const kernels::cuda::Bf16>& matrix, int rows) const {
    return host_tensor_map(matrix, rows);
  }
};

}  // namespace slimpack::testing
