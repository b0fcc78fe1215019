#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/device/wide_tile.hpp"

// What warps of a block wait for on Hopper, without a GPU: barriers that count arrivals and bytes, turns, and
// copies that are under way.
namespace slimpack::testing {

/// A barrier's state in its 8 bytes: arrivals per phase and missing ones, parity of the phase, bytes missing.
class HostBarrier {
 public:
  explicit HostBarrier(kernels::cuda::Mbarrier& barrier) : state_(barrier.state) {}

  void begin(int arrivals) {
    const auto n = static_cast<std::uint64_t>(arrivals);
    state_.store(n << 52U | n << 40U, std::memory_order_release);
  }
  void expect(std::uint32_t bytes) {
    change([&](State& s) { s.bytes += bytes; });
  }
  void complete(std::uint32_t bytes) {
    change([&](State& s) { s.bytes -= bytes; });
  }
  /// Whether there was an arrival to wait for.
  bool arrive() {
    bool expected = true;
    change([&](State& s) {
      expected = s.missing > 0;
      s.missing -= expected ? 1 : 0;
    });
    return expected;
  }
  /// Whether the phase of this parity has ended.
  [[nodiscard]] bool has_ended(std::uint32_t parity) const {
    return State(state_.load(std::memory_order_acquire)).parity != parity;
  }

 private:
  struct State {
    explicit State(std::uint64_t word)
        : arrivals(word >> 52U),
          missing(word >> 40U & 0xfffU),
          parity(word >> 39U & 1U),
          bytes(word & mask) {}
    [[nodiscard]] std::uint64_t word() const {
      return arrivals << 52U | missing << 40U | parity << 39U | (bytes & mask);
    }

    static constexpr std::uint64_t mask = (std::uint64_t{1} << 39U) - 1;
    std::uint64_t arrivals, missing, parity, bytes;
  };

  template <class F>
  void change(const F& f) {
    std::uint64_t word = state_.load(std::memory_order_relaxed), next = 0;
    do {
      State s(word);
      f(s);
      if (s.missing == 0 && (s.bytes & State::mask) == 0) {
        s.missing = s.arrivals;
        s.parity ^= 1U;
      }
      next = s.word();
    } while (!state_.compare_exchange_weak(word, next, std::memory_order_acq_rel));
  }

  std::atomic_ref<std::uint64_t> state_;
};

/// Turns: a barrier of the block at which some warps wait and others only arrive.
class HostTurn {
 public:
  /// @param warps that come. @returns the phase that ends when all have.
  int arrive(int warps) {
    const std::scoped_lock lock(mutex_);
    const int phase = phase_;
    if (++arrived_ == warps) {
      arrived_ = 0;
      ++phase_;
    }
    return phase;
  }
  [[nodiscard]] bool has_ended(int phase) {
    const std::scoped_lock lock(mutex_);
    return phase_ != phase;
  }
  [[nodiscard]] bool is_clean() const { return arrived_ == 0; }

 private:
  std::mutex mutex_;
  int arrived_ = 0, phase_ = 0;
};

/// What the warps of a block share besides its memory.
struct HostBlock {
  std::array<HostTurn, 16> turns;
  std::mutex mutex;
  std::map<kernels::cuda::Mbarrier*, std::vector<std::function<void()>>> copies;  ///< not done yet
  std::atomic<bool> is_clean = true;

  void start(kernels::cuda::Mbarrier& barrier, std::function<void()> copy) {
    const std::scoped_lock lock(mutex);
    copies[&barrier].push_back(std::move(copy));
  }
  void finish(kernels::cuda::Mbarrier& barrier) {
    std::vector<std::function<void()>> due;
    {
      const std::scoped_lock lock(mutex);
      due.swap(copies[&barrier]);
    }
    for (const auto& copy : due) copy();
  }
  [[nodiscard]] bool is_done() {
    bool done = is_clean;
    for (const auto& [barrier, due] : copies) done = done && due.empty();
    for (const HostTurn& turn : turns) done = done && turn.is_clean();
    return done;
  }
};

}  // namespace slimpack::testing
