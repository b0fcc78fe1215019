#pragma once

#include <chrono>
#include <thread>

namespace slimpack::kernels {

/// Pauses of a rank that waits, while it looks for what comes soon: going to sleep takes longer than most messages. They are
/// over once the rank has looked often, or for long: then others had the processor, and get it again each time the rank gives
/// it up.
class QuickLooks {
 public:
  /// Lets other threads run. @returns false, without doing so, if it is time to go to sleep.
  [[nodiscard]] bool pause() {
    constexpr int most = 100;
    constexpr auto long_time = std::chrono::microseconds(100);
    if (++pauses_ > most || Clock::now() - begin_ > long_time) return false;
    std::this_thread::yield();
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;

  int pauses_ = 0;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace slimpack::kernels
