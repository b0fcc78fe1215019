#include "kernels/transport/device_wait.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kernels/transport/in_process.hpp"
#include "kernels/transport/nccl.hpp"
#include "slimpack/core/error.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using namespace std::chrono_literals;

namespace {

/// How a rank's wait for its GPU has ended.
struct Outcome {
  std::string said;  ///< "done", or the error
  int abandoned = 0;
};

/// All ranks wait for work that answers as `ask` says.
template <class Ask>
std::vector<Outcome> outcomes_of(std::size_t ranks, const TransportOptions& options, Ask&& ask) {
  InProcessOptions in_process;
  in_process.timeout = 30s;
  auto transports = InProcessTransport::create(ranks, in_process);
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      InProcessTransport transport = std::move(transports[rank]);
      try {
        wait_for_device(
            host_side(transport), options, "all_reduce", [&] { return ask(transport); },
            [&] { ++outcomes[rank].abandoned; });
        outcomes[rank].said = "done";
      } catch (const TransportError& error) {
        outcomes[rank].said = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

}  // namespace

TEST_CASE("work on a GPU is waited for until it is done", "[threads]") {
  std::array<int, 3> asked{};
  for (const Outcome& outcome : outcomes_of(3, {}, [&](InProcessTransport& t) -> AsyncState {
         return {.done = ++asked[t.rank()] == 20, .error = {}};
       })) {
    CHECK(outcome.said == "done");
    CHECK(outcome.abandoned == 0);
  }
  CHECK(asked == std::array{20, 20, 20});
}

TEST_CASE("an error on one GPU ends the waits of all ranks, and their work is abandoned", "[threads]") {
  const auto outcomes =
      outcomes_of(3, {.timeout = 30s, .grace = 100ms}, [](InProcessTransport& t) -> AsyncState {
        if (t.rank() == 1) return {.done = true, .error = "NCCL error 2 (unhandled system error)"};
        return {};
      });
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.said == "rank 1 failed: all_reduce: NCCL error 2 (unhandled system error)");
    CHECK(outcome.abandoned == 1);
  }
}

TEST_CASE("the rank that has failed is named, not those whose GPUs echo it", "[threads]") {
  const auto outcomes =
      outcomes_of(3, {.timeout = 30s, .grace = 5s}, [](InProcessTransport& t) -> AsyncState {
        if (t.rank() != 1) return {.done = true, .error = "NCCL error 6 (remote process exited)"};
        std::this_thread::sleep_for(100ms);
        t.abort("out of memory");
        return {};
      });
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.said == "rank 1 failed: out of memory");
    CHECK(outcome.abandoned == 1);
  }
}

TEST_CASE("work on GPUs that never ends is given up", "[threads]") {
  const auto outcomes =
      outcomes_of(2, {.timeout = 300ms, .grace = 1s}, [](InProcessTransport&) { return AsyncState{}; });
  for (const Outcome& outcome : outcomes) {
    CHECK_THAT(outcome.said,
               Catch::EndsWith("all_reduce is not done after 0.3 s: another rank does not take part"));
    CHECK(outcome.said == outcomes[0].said);
    CHECK(outcome.abandoned == 1);
  }
}

TEST_CASE("two rounds of pairs link all neighbouring stages once") {
  for (std::size_t stages = 1; stages < 20; ++stages) {
    std::set<std::size_t> linked;  // the earlier stage of each link
    for (const std::size_t round : {0U, 1U}) {
      for (std::size_t stage = 0; stage < stages; ++stage) {
        const auto pair = neighbours_of(stage, stages, round);
        std::vector<std::size_t> members;
        for (std::size_t other = 0; other < stages; ++other) {
          if (pair && neighbours_of(other, stages, round) == pair) members.push_back(other);
        }
        if (!pair) continue;
        REQUIRE(members.size() == 2);
        CHECK(members[1] == members[0] + 1);
        if (members[0] == stage) CHECK(linked.insert(stage).second);
      }
    }
    CHECK(linked.size() == stages - 1);
  }
}
