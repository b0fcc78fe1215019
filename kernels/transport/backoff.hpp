#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
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

/// Sleeps longer the longer one waits, and not at all at first. For what nobody wakes a rank for.
class Backoff {
 public:
  void pause() {
    if (looks_.pause()) return;
    constexpr std::int64_t first = 10, most = 100;
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(first + ++pauses_ / 20, most)));
  }

 private:
  QuickLooks looks_;
  std::int64_t pauses_ = 0;
};

}  // namespace slimpack::kernels
