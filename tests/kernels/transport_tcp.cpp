#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/transport/tcp.hpp"
#include "slimpack/exec/agreement.hpp"
#include "tests/kernels/processes.hpp"
#include "tests/kernels/reshard_buffers.hpp"
#include "tests/kernels/transport_contract.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using namespace std::chrono_literals;
using slimpack::testing::Ended, slimpack::testing::free_port, slimpack::testing::launch_on,
    slimpack::testing::Process;

static_assert(Transport<TcpTransport>);

namespace {

using Body = std::function<void(TcpTransport&)>;

TcpOptions options_of(std::chrono::milliseconds timeout) {
  TcpOptions options;
  options.timeout = timeout;
  options.grace = 2s;
  options.start_timeout = 60s;
  return options;
}

/// One rank: what it has thrown, or "done".
std::string run_rank(const Launch& launch, const TcpOptions& options, const Body& body) try {
  TcpTransport transport(launch, options);
  try {
    body(transport);
    transport.close();
    return "done";
  } catch (const TransportError& error) {
    return concat(error.rank(), ": ", error.what());
  } catch (const std::exception& error) {
    transport.fail(error.what());
    return concat("own: ", error.what());
  }
} catch (const TransportError& error) {
  return concat("did not meet: ", error.what());
}

/// Ranks that are threads of this process: the transport does not mind, and the thread sanitizer sees all.
std::vector<std::string> in_threads(std::size_t ranks, const TcpOptions& options, const Body& body) {
  const std::uint16_t port = free_port();
  std::vector<std::string> said(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { said[rank] = run_rank(launch_on(port, rank, ranks), options, body); });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

std::vector<Process> in_processes(std::size_t ranks, const TcpOptions& options, const Body& body) {
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    processes.emplace_back([&] { return run_rank(launch_on(port, rank, ranks), options, body); });
  }
  return processes;
}

void receive_byte(TcpTransport& transport, std::size_t from, Tag tag = 7) {
  std::byte byte{};
  Request request = transport.irecv(from, tag, {&byte, 1});
  transport.wait(request);
}

/// Everybody waits for one rank, directly or not, while it does something else.
Body all_wait_for(std::size_t fault, std::function<void(TcpTransport&)> instead) {
  return [fault, instead = std::move(instead)](TcpTransport& transport) {
    transport.set_task(concat("F", transport.rank()));
    if (transport.rank() == fault) {
      std::this_thread::sleep_for(300ms);
      return instead(transport);
    }
    const std::size_t next = (transport.rank() + transport.size() - 1) % transport.size();
    receive_byte(transport, next);
  };
}

/// All but the rank at fault say the same.
void expect_others(const std::vector<std::string>& said, std::size_t fault, const std::string& start) {
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (rank == fault) continue;
    INFO("rank " << rank << " of " << said.size());
    CHECK_THAT(said[rank], Catch::StartsWith(start));
    CHECK(said[rank] == said[fault == 0 ? 1 : 0]);
  }
}

std::vector<std::string> words_of(const std::vector<Ended>& ended) {
  std::vector<std::string> said;
  for (const Ended& rank : ended) said.push_back(rank.said);
  return said;
}

}  // namespace

TEST_CASE("TCP keeps the contract of transports", "[threads]") {
  for (const std::size_t ranks : {1U, 2U, 3U, 5U}) {
    const auto said = in_threads(ranks, options_of(60s), [&](TcpTransport& transport) {
      testing::keeps_the_contract(transport, 100 * ranks, 15);
      // Thrown, because Catch's own assertions are for one thread.
      if (transport.members().size() != ranks) throw std::runtime_error("members are missing");
    });
    CHECK(said == std::vector<std::string>(ranks, "done"));
  }
}

TEST_CASE("processes keep the contract of transports over TCP") {
  for (const std::size_t ranks : {2U, 4U, 8U}) {
    const auto said = words_of(testing::wait_all(in_processes(ranks, options_of(60s), [&](TcpTransport& t) {
      testing::keeps_the_contract(t, 100 * ranks, 10);
      Group group(t);
      agree_on_plan(7, t.size(), [&](std::uint64_t own) { return group.all_gather_value(own); });
    })));
    CHECK(said == std::vector<std::string>(ranks, "done"));
  }
}

TEST_CASE("messages beyond what connections hold move while both sides send", "[threads]") {
  const auto said = in_threads(2, options_of(60s), [](TcpTransport& transport) {
    const std::size_t other = 1 - transport.rank();
    std::vector<std::byte> out(std::size_t{64} << 20, static_cast<std::byte>(transport.rank() + 1)),
        in(out.size());
    Request send = transport.isend(other, 3, out);
    transport.set_task("both send first");
    Request receive = transport.irecv(other, 3, in);
    transport.wait(send);
    transport.wait(receive);
    testing::promise(in.front() == static_cast<std::byte>(other + 1) && in.back() == in.front(), "content");
  });
  CHECK(said == std::vector<std::string>(2, "done"));
}

TEST_CASE("a killed rank is named by all others over TCP") {
  for (const std::size_t fault : {0U, 1U, 3U}) {
    INFO("rank " << fault);
    const auto ended = testing::wait_all(
        in_processes(4, options_of(30s), all_wait_for(fault, [](TcpTransport&) { std::raise(SIGKILL); })));
    CHECK(ended[fault].signal == SIGKILL);
    expect_others(words_of(ended), fault,
                  concat(fault, ": rank ", fault, " (F", fault, ") is gone: its connection"));
  }
}

TEST_CASE("a rank killed while others compute ends their next task over TCP") {
  const auto ended = testing::wait_all(in_processes(3, options_of(30s), [](TcpTransport& transport) {
    transport.set_task("F0");
    if (transport.rank() == 2) {
      std::this_thread::sleep_for(300ms);
      std::raise(SIGKILL);
    }
    while (true) {
      std::this_thread::sleep_for(5ms);
      transport.set_task("F1");
    }
  }));
  expect_others(words_of(ended), 2, "2: rank 2 (F0) is gone: its connections have closed");
}

TEST_CASE("a frozen rank is named by all others over TCP") {
  for (const std::size_t fault : {0U, 2U}) {
    INFO("rank " << fault);
    const auto processes =
        in_processes(3, options_of(1500ms), all_wait_for(fault, [](TcpTransport&) { std::raise(SIGSTOP); }));
    std::vector<std::string> said(3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      if (rank != fault) said[rank] = processes[rank].wait().said;
    }
    kill(processes[fault].id(), SIGKILL);
    processes[fault].wait();
    for (std::size_t rank = 0; rank < 3; ++rank) {
      if (rank == fault) continue;
      CHECK_THAT(said[rank],
                 Catch::StartsWith(concat(fault, ": rank ", fault, " (F", fault, ") does not answer: ")));
    }
  }
}

TEST_CASE("a rank that computes for too long is named by all others over TCP", "[threads]") {
  const auto said = in_threads(4, options_of(1s), all_wait_for(1, [](TcpTransport& transport) {
                                 std::this_thread::sleep_for(3s);
                                 transport.set_task("F9");
                               }));
  expect_others(said, 1, "1: rank 1 (F1) does not answer: rank ");
  CHECK(said[1] == said[0]);
}

TEST_CASE("an error of a rank is what all throw over TCP", "[threads]") {
  for (const std::size_t fault : {0U, 2U}) {
    const auto aborts =
        in_threads(4, options_of(30s),
                   all_wait_for(fault, [](TcpTransport& transport) { transport.abort("the loss is NaN"); }));
    const std::string expected = concat(fault, ": rank ", fault, " (F", fault, ") failed: the loss is NaN");
    CHECK(aborts == std::vector<std::string>(4, expected));
    const auto throws = in_threads(
        4, options_of(30s), all_wait_for(fault, [](TcpTransport&) { throw InvalidInput("a wrong plan"); }));
    CHECK(throws[fault] == "own: a wrong plan");
    expect_others(throws, fault, concat(fault, ": rank ", fault, " (F", fault, ") failed: a wrong plan"));
  }
}

TEST_CASE("ranks that wait for each other are told so over TCP", "[threads]") {
  const auto said = in_threads(3, options_of(1s), [](TcpTransport& transport) {
    transport.set_task(concat("F", transport.rank()));
    receive_byte(transport, (transport.rank() + 1) % 3);
  });
  for (const std::string& rank : said) {
    CHECK(rank == said[0]);
    CHECK_THAT(rank, Catch::Contains(" waits in a circle: rank ") && Catch::Contains("(F2)"));
  }
}

TEST_CASE("messages of another size end the run of all over TCP", "[threads]") {
  for (const bool late : {false, true}) {  // whether the receive is posted before the message comes
    const auto said = in_threads(3, options_of(30s), [&](TcpTransport& transport) {
      std::vector<std::byte> bytes(transport.rank() == 1 ? 8 : 16);
      if (transport.rank() == 1) {
        if (!late) std::this_thread::sleep_for(200ms);
        Request request = transport.isend(0, 9, bytes);
        transport.wait(request);
      } else if (transport.rank() == 0) {
        if (late) std::this_thread::sleep_for(200ms);
        Request request = transport.irecv(1, 9, bytes);
        transport.wait(request);
      }
      receive_byte(transport, transport.rank());
    });
    CHECK(said ==
          std::vector<std::string>(3, "1: rank 1 has sent 8 bytes as message 9; expected 16 by rank 0"));
  }
}

TEST_CASE("transfers that nobody waited for end the run of all over TCP", "[threads]") {
  std::byte byte{};
  const auto said = in_threads(2, options_of(30s), [&](TcpTransport& transport) {
    if (transport.rank() == 1) transport.irecv(0, 0, {&byte, 1});
  });
  for (const std::string& rank : said)
    CHECK_THAT(rank,
               Catch::Contains("rank 1 failed: its run ends with 1 transfers that were not waited for"));
}

TEST_CASE("TCP refuses ranks and requests that do not exist", "[threads]") {
  TcpTransport transport({});
  std::byte byte{};
  CHECK_THROWS_AS(transport.isend(1, 0, {}), InvalidInput);
  CHECK_THROWS_AS(transport.irecv(1, 0, {}), InvalidInput);
  Request request = transport.irecv(0, 0, {&byte, 1});
  Request again = request;
  CHECK_FALSE(transport.test(request));
  transport.isend(0, 0, {&byte, 1});
  CHECK(transport.test(request));
  CHECK_THROWS_AS(transport.wait(again), InvalidInput);
  CHECK_THROWS_AS(TcpTransport({}, options_of(0ms)), InvalidInput);
}

TEST_CASE("parameters move to other pipelines over TCP, and gradients back", "[threads]") {
  using slimpack::testing::Buffers, slimpack::testing::buffers, slimpack::testing::spans;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed);
    const auto c = slimpack::testing::reshard_case(seed, true);
    const ReshardPlan plan = plan_reshard(c.from, c.to, c.device, c.options);
    // Small integers, whose sums are exact.
    const auto own = [](std::size_t u, std::int64_t i) {
      return static_cast<float>(static_cast<std::int64_t>(u) * 1000 + i);
    };
    const auto sum = [&](std::size_t u, std::int64_t i) {
      return own(u, i) * static_cast<float>(slimpack::testing::replicas(c.to, u, i));
    };
    const std::size_t ranks = slimpack::testing::ranks_of(c);
    const auto said = in_threads(ranks, options_of(30s), [&](TcpTransport& t) {
      Group<TcpTransport> all(t);
      Buffers first = buffers(c.from, t.rank(), own),
              second = buffers(c.to, t.rank(), [](std::size_t, std::int64_t) { return 9.0F; });
      const auto move = [&](ReshardDirection direction) {
        Resharder<TcpTransport, float>(t, all, plan, direction, spans(first), spans(second)).run();
      };
      move(ReshardDirection::pull);
      require(second == buffers(c.to, t.rank(), own), "other parameters have come");
      move(ReshardDirection::push);
      require(first == buffers(c.from, t.rank(), sum), "other gradients have come");
    });
    CHECK(said == std::vector<std::string>(ranks, "done"));
  }
}
