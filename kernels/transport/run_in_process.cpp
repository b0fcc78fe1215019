#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/transport/in_process.hpp"

namespace slimpack::kernels {

namespace {

/// The threads of a run, and how they ended. Shared with them, so that it outlives an abandoned one.
struct Run {
  std::function<void(InProcessTransport&)> body;
  std::vector<std::optional<InProcessTransport>> ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> ended;
  std::size_t running = 0;
  std::exception_ptr cause;        ///< what ended the run, if it was an exception of the body itself
  std::exception_ptr consequence;  ///< the first TransportError
};

void run_rank(Run& run, std::size_t rank) {
  std::exception_ptr cause, consequence;
  const auto failed = [&](const char* what) {
    if (run.ranks[rank]->fail(what)) cause = std::current_exception();
  };
  try {
    run.body(*run.ranks[rank]);
  } catch (const TransportError&) {
    consequence = std::current_exception();
  } catch (const std::exception& error) {
    failed(error.what());
  } catch (...) {
    failed("an exception of unknown type");
  }
  run.ranks[rank].reset();
  const std::lock_guard lock(run.mutex);
  // Moved, so that an abandoned thread shares no exception with the caller.
  if (cause) run.cause = std::move(cause);
  if (!run.consequence) run.consequence = std::move(consequence);
  run.ended[rank] = true;
  --run.running;
  run.changed.notify_one();
}

}  // namespace

void run_in_process(std::size_t ranks, std::function<void(InProcessTransport&)> body,
                    const InProcessOptions& options) {
  const auto run = std::make_shared<Run>();
  run->body = std::move(body);
  for (InProcessTransport& rank : InProcessTransport::create(ranks, options)) {
    run->ranks.emplace_back(std::move(rank));
  }
  run->ended.resize(ranks);
  run->running = ranks;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([run, rank] { run_rank(*run, rank); });

  std::unique_lock lock(run->mutex);
  const auto failed = [&] { return run->cause || run->consequence; };
  run->changed.wait(lock, [&] { return run->running == 0 || failed(); });
  run->changed.wait_for(lock, options.timeout + options.grace, [&] { return run->running == 0; });
  const std::vector<bool> ended = run->ended;
  const std::exception_ptr error = std::exchange(run->cause ? run->cause : run->consequence, nullptr);
  lock.unlock();
  for (std::size_t rank = 0; rank < ranks; ++rank)
    ended[rank] ? threads[rank].join() : threads[rank].detach();
  if (error) std::rethrow_exception(error);
}

}  // namespace slimpack::kernels
