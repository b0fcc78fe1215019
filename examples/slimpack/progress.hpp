#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <ostream>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>

#include "signals.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::command {

/// Says how far a long run is, from a thread of its own: nothing in the first interval, then a line in each.
class Progress {
 public:
  /// @param all plans to make. @param out null for silence; nobody else may write to it meanwhile.
  Progress(std::size_t all, std::ostream* out,
           std::chrono::steady_clock::duration interval = std::chrono::seconds(1))
      : all_(all), out_(out), interval_(interval) {
    if (out == nullptr) return;
    const SignalsHeld held;  // they are for the thread that writes files
    try {
      ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
    } catch (const std::system_error&) {
      // The system grants no thread; the work is done without a word.
    }
  }

  /// What is made from now on. Any thread may call it.
  void begin(const std::string& planner) {
    const std::lock_guard lock(mutex_);
    planner_ = planner;
  }

  /// One more plan is made. Any thread may call it.
  void advance() {
    const std::lock_guard lock(mutex_);
    ++done_;
  }

 private:
  void tick(const std::stop_token& stop) {
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    for (auto next = start + interval_;; next += interval_) {
      wake_.wait_until(lock, stop, next, [] { return false; });
      if (stop.stop_requested()) return;
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      *out_ << concat("slimpack: ", done_, " of ", all_, " plans made in ",
                      static_cast<long long>(seconds.count()), " s, now ", planner_, '\n')
            << std::flush;
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::size_t done_ = 0;
  std::size_t all_;
  std::string planner_ = "reading";
  std::ostream* out_;
  std::chrono::steady_clock::duration interval_;
  std::jthread ticker_;  // last: it stops before what it reads is gone
};

}  // namespace slimpack::command
