#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "kernels/transport/in_process.hpp"
#include "kernels/transport/nccl.hpp"
#include "slimpack/core/error.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using namespace std::chrono_literals;

// What NCCL does between GPUs is checked by examples/nccl_check.cpp, where there are some. This is what holds on any
// machine: two ranks of one process have one GPU or none, and NCCL takes neither.
TEST_CASE("ranks that have no GPU of their own are all told why there is no group") {
  InProcessOptions options;
  options.timeout = 20s;
  auto transports = InProcessTransport::create(2, options);
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      InProcessTransport transport = std::move(transports[rank]);
      try {
        const NcclGroup group(transport, {.timeout = 20s, .grace = 200ms});
      } catch (const TransportError& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_THAT(errors[0], Catch::Contains(" failed: ") && Catch::Contains("NCCL error "));
  CHECK(errors[1] == errors[0]);
}

TEST_CASE("a group of GPUs refuses a timeout that makes no sense") {
  auto transports = InProcessTransport::create(1);
  CHECK_THROWS_AS(NcclGroup(transports[0], {.timeout = 0ms}), InvalidInput);
}
