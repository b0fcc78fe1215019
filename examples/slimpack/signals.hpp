#pragma once

#include <pthread.h>

#include <csignal>

namespace slimpack::command {

/// Keeps the signals by which users end programs (SIGINT, SIGTERM, SIGHUP) waiting, for this thread and for those that it
/// starts meanwhile, as long as this lives.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, signal);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace slimpack::command
