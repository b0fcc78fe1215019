#pragma once

#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/device/group_product.hpp"
#include "kernels/cuda/device/wide_tile.hpp"
#include "tests/kernels_cuda_device/host_block.hpp"
#include "tests/kernels_cuda_device/host_product.hpp"
#include "tests/kernels_cuda_device/host_warp.hpp"

// What Hopper adds to a warp, without a GPU: barriers that count arrivals and bytes, the copy engine with the
// 128-byte swizzle, and `wgmma`, which finds its matrices by descriptors of shared memory. Both work behind the
// warp's back: a copy is done at once, or when somebody waits for its barrier; a product at once, or when its group
// is waited for. So who reads or overwrites too early, gets other numbers in the one or the other.
namespace slimpack::testing {

/// What the copy engine of the host knows of a matrix.
struct HostMap {
  const kernels::cuda::Bf16* data;
  std::size_t rows, cols, stride;
  int box_rows;
};

[[nodiscard]] inline kernels::cuda::TensorMap host_tensor_map(
    const kernels::MatrixView<const kernels::cuda::Bf16>& m, int box_rows) {
  const HostMap map{m.data, m.rows, m.cols, m.stride, box_rows};
  kernels::cuda::TensorMap out{};
  static_assert(sizeof map <= sizeof out);
  std::memcpy(&out, &map, sizeof map);
  return out;
}

/// Where the 128-byte swizzle puts a byte of shared memory: bits 4 to 6 of its place with bits 7 to 9.
[[nodiscard]] constexpr std::uint32_t swizzled(std::uint32_t place) {
  return place ^ ((place >> 7U & 7U) << 4U);
}

/// A matrix that a descriptor names (PTX ISA, "Shared Memory Matrix Layout" of `wgmma`).
struct DescribedMatrix {
  explicit DescribedMatrix(std::uint64_t descriptor)
      : start(static_cast<std::uint32_t>(descriptor & 0x3fffU) * 16),
        leading(static_cast<std::uint32_t>(descriptor >> 16U & 0x3fffU) * 16),
        stride(static_cast<std::uint32_t>(descriptor >> 32U & 0x3fffU) * 16),
        is_swizzled_by_128(descriptor >> 62U == 1 && (descriptor >> 49U & 7U) == 0) {}

  /// Place of a number whose depth lies within lines; `row` counts rows of A, or columns of B.
  [[nodiscard]] std::uint32_t place(int row, int depth) const {
    return swizzled(start + static_cast<std::uint32_t>(row / 8) * stride +
                    static_cast<std::uint32_t>(row % 8 * 128 + depth * 2));
  }
  /// The same where lines hold rows of A, or columns of B.
  [[nodiscard]] std::uint32_t transposed_place(int row, int depth) const {
    return swizzled(start + static_cast<std::uint32_t>(row / 64) * leading +
                    static_cast<std::uint32_t>(depth / 8) * stride +
                    static_cast<std::uint32_t>(depth % 8 * 128 + row % 64 * 2));
  }

  std::uint32_t start, leading, stride;
  bool is_swizzled_by_128;
};

/// Lets other warps of a block run, which are threads. @param tries how often somebody has waited so far
inline void let_others_run(std::barrier<>&, int tries) {
  if (tries < 8) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

/// @tparam Barrier of a block's warps, as BasicHostWarp's; `let_others_run` takes it.
template <class Barrier>
class BasicHostGroupWarp : public BasicHostWarp<Barrier> {
  using Base = BasicHostWarp<Barrier>;
  template <class T>
  using Lanes = kernels::cuda::Lanes<T, Base::held>;

 public:
  using Base::block, Base::held, Base::shared, Base::warp;

  /// @param place of the warp in its block
  BasicHostGroupWarp(int place, int warps, std::size_t blocks, void* memory, Barrier& barrier,
                     HostBlock& host_block, Copies copies)
      : Base(place, warps, blocks, memory, barrier, copies), block_(host_block), copies_(copies) {}

  [[nodiscard]] int group() const { return warp() / kernels::cuda::group_warps; }
  [[nodiscard]] int warp_of_group() const { return warp() % kernels::cuda::group_warps; }
  /// Shared memory begins at 1024, as on a GPU.
  [[nodiscard]] std::uint32_t shared_place(const void* p) const {
    return 1024 + static_cast<std::uint32_t>(static_cast<const unsigned char*>(p) -
                                             static_cast<const unsigned char*>(shared()));
  }

  template <int registers>
  void lower_registers() const {
    static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256);
  }
  template <int registers>
  void raise_registers() const {
    static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256);
  }

  void begin_barrier(kernels::cuda::Mbarrier& barrier, int arrivals) const {
    HostBarrier(barrier).begin(arrivals);
  }
  void show_barriers() const {}
  void show_to_engines() const {}
  void expect_bytes(kernels::cuda::Mbarrier& barrier, std::uint32_t bytes) const {
    HostBarrier(barrier).expect(bytes);
  }
  void arrive(kernels::cuda::Mbarrier& barrier) const {
    if (!HostBarrier(barrier).arrive()) block_.is_clean = false;
  }
  void wait(kernels::cuda::Mbarrier& barrier, std::uint32_t parity) const {
    wait_until("the barrier at", shared_place(&barrier), parity, [&] {
      if (HostBarrier(barrier).has_ended(parity)) return true;
      block_.finish(barrier);
      return HostBarrier(barrier).has_ended(parity);
    });
  }

  void copy_box(const kernels::cuda::TensorMap& map, int column, std::int32_t row, int rows,
                kernels::cuda::Bf16* to, kernels::cuda::Mbarrier& barrier) const {
    HostMap m{};
    std::memcpy(&m, &map, sizeof m);
    if (m.box_rows != rows || shared_place(to) % 128 != 0) block_.is_clean = false;
    // The warp that started a copy may be done before it is.
    const auto copy = [m, column, row, memory = static_cast<unsigned char*>(shared()),
                       place = shared_place(to), &barrier] {
      copy_lines(m, column, row, memory, place);
      HostBarrier(barrier).complete(static_cast<std::uint32_t>(m.box_rows) * 128);
    };
    if (copies_ == Copies::early) {
      copy();
    } else {
      block_.start(barrier, copy);
    }
  }

  void wait_for_turn(int turn, int warps) const {
    const int phase = turn_of(turn).arrive(warps);
    wait_until("turn", static_cast<std::uint32_t>(turn), static_cast<std::uint32_t>(phase),
               [&] { return turn_of(turn).has_ended(phase); });
  }
  void arrive_at_turn(int turn, int warps) const { turn_of(turn).arrive(warps); }

  template <class... Registers>
  void fence_products(const Registers&... /*unused*/) const {}
  template <class T>
  void compute_now(const Lanes<T>& /*unused*/, float /*unused*/) const {}
  void commit_products() {
    groups_.push_back(std::move(products_));
    products_.clear();
  }
  template <int pending, class... Registers>
  void wait_products(const Registers&... /*unused*/) {
    for (; groups_.size() > pending; groups_.pop_front()) {
      for (const auto& product : groups_.front()) product();
    }
  }

  template <int columns>
  void multiply_tiles(Lanes<kernels::cuda::Sums<columns>>& sums, std::uint64_t a, std::uint64_t b, bool add) {
    start([this, &sums, a, b, add] {
      const DescribedMatrix left(a), right(b);
      if (!left.is_swizzled_by_128 || !right.is_swizzled_by_128) block_.is_clean = false;
      float rows[16][16];
      for (int r = 0; r < 16; ++r) {
        for (int k = 0; k < 16; ++k) rows[r][k] = number_at(left.place(warp_of_group() * 16 + r, k));
      }
      multiply_rows_by<columns>(sums, rows, add, [&](int k, int c) { return right.place(c, k); });
    });
  }

  template <int columns>
  void multiply_rows(Lanes<kernels::cuda::Sums<columns>>& sums, const Lanes<kernels::cuda::Fragment>& a,
                     std::uint64_t b) {
    start([this, &sums, &a, b] {
      const DescribedMatrix right(b);
      if (!right.is_swizzled_by_128) block_.is_clean = false;
      float rows[16][16];
      for (int lane = 0; lane < held; ++lane) {
        for (int i = 0; i < 8; ++i) {
          const auto at = kernels::cuda::place_in_a(lane, i / 2, i % 2);
          rows[at.row][at.col] = kernels::cuda::pair_element(a[lane].at[i / 2], i % 2);
        }
      }
      multiply_rows_by<columns>(sums, rows, true, [&](int k, int c) { return right.transposed_place(c, k); });
    });
  }

  /// Whether all products and copies were waited for.
  [[nodiscard]] bool is_clean() const { return Base::is_clean() && products_.empty() && groups_.empty(); }

 private:
  /// Lets others run until something is so; what never becomes so is named.
  template <class Done>
  void wait_until(const char* what, std::uint32_t number, std::uint32_t phase, const Done& done) const {
    const auto begin = std::chrono::steady_clock::now();
    for (int tries = 0; !done(); ++tries) {
      let_others_run(this->barrier(), tries);
      if (std::chrono::steady_clock::now() - begin < std::chrono::minutes(2)) continue;
      std::fprintf(stderr, "warp %d of block %zu waits for %s %u, phase %u\n", warp(), block(), what, number,
                   phase);
      std::abort();
    }
  }

  [[nodiscard]] HostTurn& turn_of(int turn) const {
    return block_.turns.at(static_cast<std::size_t>(turn) + 1);
  }

  /// Brings lines of 64 columns to a place of shared memory, with zeros after the matrix.
  static void copy_lines(const HostMap& m, int column, std::int32_t row, unsigned char* memory,
                         std::uint32_t place) {
    for (int r = 0; r < m.box_rows; ++r) {
      const auto from = static_cast<std::size_t>(row) + static_cast<std::size_t>(r);
      for (int c = 0; c < kernels::cuda::line_numbers; ++c) {
        const auto col = static_cast<std::size_t>(column) + static_cast<std::size_t>(c);
        const bool is_there = from < m.rows && col < m.cols;
        const kernels::cuda::Bf16 number = is_there ? m.data[from * m.stride + col] : kernels::cuda::Bf16{0};
        const auto at = swizzled(place + static_cast<std::uint32_t>(r * 128 + c * 2)) - 1024;
        std::memcpy(memory + at, &number, sizeof number);
      }
    }
  }

  void start(std::function<void()> product) {
    if (copies_ == Copies::early) {
      product();
      product = [] {};
    }
    products_.push_back(std::move(product));
  }

  [[nodiscard]] float number_at(std::uint32_t place) const {
    kernels::cuda::Bf16 number{};
    std::memcpy(&number, static_cast<const unsigned char*>(shared()) + place - 1024, sizeof number);
    return kernels::cuda::to_float(number);
  }

  /// @param place_of gives where row k's column c lies
  template <int columns, class PlaceOf>
  void multiply_rows_by(Lanes<kernels::cuda::Sums<columns>>& sums, const float (&rows)[16][16], bool add,
                        const PlaceOf& place_of) const {
    float right[16][columns], result[16][columns] = {};
    for (int k = 0; k < 16; ++k) {
      for (int c = 0; c < columns; ++c) right[k][c] = number_at(place_of(k, c));
    }
    for (int r = 0; r < 16; ++r) {
      for (int k = 0; k < 16; ++k) add_scaled(rows[r][k], right[k], result[r], columns);
    }
    for (int lane = 0; lane < held; ++lane) {
      for (int n = 0; n < columns / 8; ++n) {
        for (int i = 0; i < 4; ++i) {
          const auto at = kernels::cuda::place_in_sum(lane, i);
          float& sum = sums[lane].at[n][i];
          sum = (add ? sum : 0) + result[at.row][n * 8 + at.col];
        }
      }
    }
  }

  HostBlock& block_;
  Copies copies_;
  std::vector<std::function<void()>> products_;
  std::deque<std::vector<std::function<void()>>> groups_;
};

using HostGroupWarp = BasicHostGroupWarp<std::barrier<>>;

}  // namespace slimpack::testing
