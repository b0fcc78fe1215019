#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

/// What a rank that waits for a GPU needs of the host's transport: to hear of failures, and to tell of them.
struct HostSide {
  std::function<void()> check;                         ///< throws if the run has failed
  std::function<void(std::string_view reason)> abort;  ///< ends the run of all ranks, and throws
};

/// The host's side of a transport, which has to outlive it.
template <Transport T>
[[nodiscard]] HostSide host_side(T& transport) {
  return {[&transport] { transport.check(); },
          [&transport](std::string_view reason) { transport.abort(reason); }};
}

/// What work that goes on elsewhere says when it is asked.
struct AsyncState {
  bool done = false;
  std::string error;  ///< empty if there is none
};

/// Waits for work that does not signal its end: asks it, and hears whether another rank has failed, until it
/// is done. Its error is often only the echo of another rank's end, so the host is given up to `grace`
/// to name that one.
/// @param what the work, for messages. @param ask returns an AsyncState; called often, so it has to be cheap.
/// @param abandon called before an exception leaves, to stop the work: it must not wait for other ranks.
/// @throws TransportError for an error of the work, when the timeout has passed, or if the run has failed.
template <class Ask, class Abandon>
void wait_for_device(const HostSide& host, const TransportOptions& options, std::string_view what, Ask&& ask,
                     Abandon&& abandon) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto sleep = [&](std::chrono::microseconds most) {
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
    waited < std::chrono::microseconds(200) ? std::this_thread::yield()
                                            : std::this_thread::sleep_for(std::min(waited / 16, most));
  };
  try {
    while (true) {
      const AsyncState state = ask();
      if (!state.error.empty()) {
        const auto end = Clock::now() + options.grace;
        while (Clock::now() < end) {
          host.check();
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        host.abort(concat(what, ": ", state.error));
      }
      if (state.done) return;
      host.check();
      if (Clock::now() >= begin + options.timeout) {
        host.abort(concat(what, " is not done after ", static_cast<double>(options.timeout.count()) / 1e3,
                          " s: another rank does not take part"));
      }
      sleep(std::chrono::microseconds(100));
    }
  } catch (...) {
    abandon();
    throw;
  }
}

}  // namespace slimpack::kernels
