#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "kernels/cuda/device/block.hpp"
#include "kernels/cuda/device/warp_product.hpp"
#include "kernels/cuda/portable.hpp"
#include "tests/kernels_cuda_device/host_product.hpp"

// Runs kernels without a GPU. A warp is a thread here, which plays its 32 lanes in step, so a barrier that a
// kernel lacks is a data race that a thread sanitizer finds. Shared memory begins as rubbish. A GPU may do a copy
// to it at any time from its start to its wait, and here that is the one or the other: done late, what is read too
// early is wrong; done early, what is overwritten too early is a race.
namespace slimpack::testing {

enum class Copies { early, late };

/// @tparam Barrier of a block's warps; `arrive_and_wait()` is all that it has to have.
template <class Barrier>
class BasicHostWarp {
 public:
  static constexpr int held = kernels::cuda::warp_lanes;

  BasicHostWarp(int warp, int warps, std::size_t blocks, void* shared, Barrier& barrier,
                Copies copies = Copies::late)
      : warp_(warp), warps_(warps), blocks_(blocks), shared_(shared), barrier_(barrier), copies_(copies) {}

  [[nodiscard]] int warp() const { return warp_; }
  [[nodiscard]] int warps() const { return warps_; }
  [[nodiscard]] std::size_t block() const { return block_; }
  [[nodiscard]] std::size_t blocks() const { return blocks_; }
  [[nodiscard]] void* shared() const { return shared_; }
  void set_block(std::size_t block) { block_ = block; }

  template <class F>
  void lanes(const F& f) const {
    for (int lane = 0; lane < held; ++lane) f(lane);
  }

  void sync() const { barrier_.arrive_and_wait(); }

  template <class T>
  [[nodiscard]] kernels::cuda::Lanes<T, held> shuffle_xor(const kernels::cuda::Lanes<T, held>& values,
                                                          int mask) const {
    kernels::cuda::Lanes<T, held> out;
    for (int lane = 0; lane < held; ++lane) out[lane] = values[lane ^ mask];
    return out;
  }

  void copy_chunk(kernels::cuda::Bf16* to, const kernels::cuda::Bf16* from, bool valid) {
    if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0) aligned_ = false;
    if (valid && reinterpret_cast<std::uintptr_t>(from) % 16 != 0) aligned_ = false;
    open_.push_back({to, valid ? from : nullptr});
    if (copies_ == Copies::early) open_.back().run();
  }
  void commit_copies() {
    groups_.push_back(std::move(open_));
    open_.clear();
  }
  template <int pending>
  void wait_copies() {
    for (; groups_.size() > pending; groups_.pop_front()) {
      if (copies_ == Copies::early) continue;
      for (const Copy& copy : groups_.front()) copy.run();
    }
  }
  /// Whether all copies were of whole chunks, and were waited for.
  [[nodiscard]] bool is_clean() const { return aligned_ && open_.empty() && groups_.empty(); }

  template <bool transposed, class RowOf, class To>
  void load_matrices(const RowOf& row_of_lane, const To& to) const {
    for (int lane = 0; lane < held; ++lane) {
      for (int matrix = 0; matrix < 4; ++matrix) {
        std::uint32_t word = 0;
        for (int element = 0; element < 2; ++element) {
          const auto place = kernels::cuda::place_in_loaded(lane, element, transposed);
          const kernels::cuda::Bf16 number = row_of_lane(matrix * 8 + place.row)[place.col];
          word |= static_cast<std::uint32_t>(number.bits) << (16 * element);
        }
        to(lane)[matrix] = word;
      }
    }
  }

  template <class Sum, class A, class B>
  void multiply(const Sum& sum, const A& a, const B& b) const {
    LaneFragments fragments;
    for (int lane = 0; lane < held; ++lane) {
      std::memcpy(fragments.left[lane], &a(lane)[0], sizeof fragments.left[lane]);
      std::memcpy(fragments.right[lane], &b(lane)[0], sizeof fragments.right[lane]);
      std::memcpy(fragments.sums[lane], &sum(lane)[0], sizeof fragments.sums[lane]);
    }
    multiply_fragments(fragments);
    for (int lane = 0; lane < held; ++lane)
      std::memcpy(&sum(lane)[0], fragments.sums[lane], sizeof fragments.sums[lane]);
  }

 protected:
  [[nodiscard]] Barrier& barrier() const { return barrier_; }

 private:
  struct Copy {
    kernels::cuda::Bf16* to;
    const kernels::cuda::Bf16* from;  ///< null for zeros

    void run() const {
      if (from != nullptr) {
        std::memcpy(to, from, 16);
      } else {
        std::memset(to, 0, 16);
      }
    }
  };

  int warp_, warps_;
  std::size_t block_ = 0, blocks_;
  void* shared_;
  Barrier& barrier_;
  Copies copies_;
  bool aligned_ = true;
  std::vector<Copy> open_;
  std::deque<std::vector<Copy>> groups_;
};

using HostWarp = BasicHostWarp<std::barrier<>>;

}  // namespace slimpack::testing
