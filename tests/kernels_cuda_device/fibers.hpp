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
#include "tests/effort.hpp"
#include "tests/kernels_cuda_device/host_group.hpp"
#include "tests/kernels_cuda_device/host_warp.hpp"

// Runs kernels without a GPU in one thread: warps take turns at barriers. Many times as fast as warps that are threads, for
// whole training steps; races between warps are for the others to find.
namespace slimpack::testing {

/// What the thread sanitizer is told of contexts that take turns in one thread, elsewhere nothing.
#ifdef SLIMPACK_TEST_THREAD_SANITIZER
struct ToldFiber {
  ToldFiber() = default;
  ToldFiber(const ToldFiber&) = delete;
  ToldFiber& operator=(const ToldFiber&) = delete;
  ~ToldFiber() {
    if (is_own) __tsan_destroy_fiber(handle);
  }
  void begin() { handle = __tsan_create_fiber(0), is_own = true; }
  void is_current() { handle = __tsan_get_current_fiber(); }
  void comes_next() const { __tsan_switch_to_fiber(handle, 0); }

  void* handle = nullptr;
  bool is_own = false;
};
#else
struct ToldFiber {
  void begin() {}
  void is_current() {}
  void comes_next() const {}
};
#endif

/// Functions that take turns.
class Fibers {
 public:
  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers() = default;

  /// Runs body(0) … body(count - 1), each until it yields, round and round, until all have returned. Not from within itself.
  void run(int count, const std::function<void(int)>& body) {
    body_ = &body;
    error_ = nullptr;
    running_ = count;
    main_.told.is_current();
    while (static_cast<int>(fibers_.size()) < count) begin();
    for (int i = 0; i < count; ++i) fibers_[static_cast<std::size_t>(i)]->done = false;
    while (running_ > 0) {
      for (int i = 0; i < count; ++i) {
        Fiber& fiber = *fibers_[static_cast<std::size_t>(i)];
        if (fiber.done) continue;
        current_ = i;
        change(main_, fiber);
      }
    }
    if (error_) std::rethrow_exception(error_);
  }

  /// Lets the others run up to their next yield.
  void yield() { change(*fibers_[static_cast<std::size_t>(current_)], main_); }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10U;

  struct Context {
    ucontext_t context{};
    ToldFiber told;
  };
  struct Fiber : Context {
    std::vector<char> stack = std::vector<char>(stack_bytes);
    bool done = false;
  };

  static void change(Context& from, Context& to) {
    to.told.comes_next();
    swapcontext(&from.context, &to.context);
  }

  void begin() {
    const auto i = static_cast<int>(fibers_.size());
    Fiber& fiber = *fibers_.emplace_back(std::make_unique<Fiber>());
    fiber.told.begin();
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::enter), 3,
                static_cast<unsigned>(self >> 32U), static_cast<unsigned>(self), i);
  }

  /// A fiber runs one body after another, and never returns.
  static void enter(unsigned high, unsigned low, int i) {
    auto* self = reinterpret_cast<Fibers*>(static_cast<std::uintptr_t>(high) << 32U | low);
    Fiber& fiber = *self->fibers_[static_cast<std::size_t>(i)];
    while (true) {
      try {
        (*self->body_)(i);
      } catch (...) {
        self->error_ = std::current_exception();
      }
      fiber.done = true;
      --self->running_;
      change(fiber, self->main_);
    }
  }

  Context main_;
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
