#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cuda/device/block.hpp"
#include "tests/kernels_cuda/host_group.hpp"
#include "tests/kernels_cuda/host_warp.hpp"

// Runs kernels without a GPU in one thread: warps take turns at barriers. Many times as fast as warps that are threads, for
// whole training steps; races between warps are for the others to find.
namespace slimpack::testing {

/// Functions that take turns.
class Fibers {
 public:
  /// Runs body(0) … body(count - 1), each until it yields, round and round, until all have returned.
  void run(int count, const std::function<void(int)>& body) {
    body_ = &body;
    error_ = nullptr;
    running_ = count;
    while (static_cast<int>(fibers_.size()) < count) fibers_.push_back(std::make_unique<Fiber>());
    for (int i = 0; i < count; ++i) start(i);
    while (running_ > 0) {
      for (int i = 0; i < count; ++i) {
        Fiber& fiber = *fibers_[static_cast<std::size_t>(i)];
        if (fiber.done) continue;
        current_ = i;
        swapcontext(&main_, &fiber.context);
      }
    }
    if (error_) std::rethrow_exception(error_);
  }

  /// Lets the others run up to their next yield.
  void yield() { swapcontext(&fibers_[static_cast<std::size_t>(current_)]->context, &main_); }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10U;

  struct Fiber {
    ucontext_t context{};
    std::vector<char> stack = std::vector<char>(stack_bytes);
    bool done = false;
  };

  void start(int i) {
    Fiber& fiber = *fibers_[static_cast<std::size_t>(i)];
    fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = &main_;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::enter), 3,
                static_cast<unsigned>(self >> 32U), static_cast<unsigned>(self), i);
  }

  static void enter(unsigned high, unsigned low, int i) {
    auto* self = reinterpret_cast<Fibers*>(static_cast<std::uintptr_t>(high) << 32U | low);
    try {
      (*self->body_)(i);
    } catch (...) {
      self->error_ = std::current_exception();
    }
    self->fibers_[static_cast<std::size_t>(i)]->done = true;
    --self->running_;
  }

  ucontext_t main_{};
  std::vector<std::unique_ptr<Fiber>> fibers_;
  const std::function<void(int)>* body_ = nullptr;
  std::exception_ptr error_;
  int current_ = 0, running_ = 0;
};

/// A block's barrier.
class FiberBarrier {
 public:
  /// @param warps that come to it
  FiberBarrier(Fibers& fibers, int warps) : fibers_(fibers), warps_(warps) {}

  void arrive_and_wait() {
    constexpr int most_rounds = 1'000'000;
    if (++arrived_ == warps_) {
      arrived_ = 0;
      ++phase_;
      return;
    }
    const int phase = phase_;
    for (int round = 0; phase_ == phase; ++round) {
      if (round == most_rounds) throw std::runtime_error("a barrier waits for warps that do not come");
      fibers_.yield();
    }
  }
  void yield() { fibers_.yield(); }

 private:
  Fibers& fibers_;
  int warps_, arrived_ = 0, phase_ = 0;
};

/// Lets other warps of a block run.
inline void let_others_run(FiberBarrier& barrier, int /*tries*/) { barrier.yield(); }

/// Starts kernels; blocks run one after another. Used by one thread.
class FiberLauncher {
 public:
  explicit FiberLauncher(Copies copies = Copies::late) : copies_(copies) {}

  template <class Kernel>
  void operator()(const Kernel& kernel, const kernels::cuda::Grid& grid) {
    constexpr std::size_t line = kernels::cuda::tile_alignment;
    memory_.resize(grid.shared + line);
    unsigned char* shared = memory_.data() + line - reinterpret_cast<std::uintptr_t>(memory_.data()) % line;
    FiberBarrier barrier(fibers_, grid.warps);
    HostBlock host_block;
    for (std::size_t block = 0; block < grid.blocks; ++block) {
      std::fill(shared, shared + grid.shared, static_cast<unsigned char>(0xff));
      fibers_.run(grid.warps, [&](int w) {
        auto warp = [&] {
          if constexpr (requires { Kernel::groups; }) {
            return BasicHostGroupWarp<FiberBarrier>(w, grid.warps, grid.blocks, shared, barrier, host_block,
                                                    copies_);
          } else {
            return BasicHostWarp<FiberBarrier>(w, grid.warps, grid.blocks, shared, barrier, copies_);
          }
        }();
        warp.set_block(block);
        kernel(warp);
        if (!warp.is_clean()) throw std::runtime_error("a kernel's copies are not clean");
      });
      if (!host_block.is_done()) throw std::runtime_error("a block has ended before its copies or turns");
    }
  }

 private:
  Copies copies_;
  Fibers fibers_;
  std::vector<unsigned char> memory_;
};

}  // namespace slimpack::testing
