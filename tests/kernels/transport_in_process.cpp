#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "kernels/transport/in_process.hpp"
#include "slimpack/exec/agreement.hpp"
#include "tests/effort.hpp"
#include "tests/kernels/transport_contract.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using namespace std::chrono_literals;

static_assert(Transport<InProcessTransport>);

namespace {

/// What each rank throws, by rank; empty for nothing. Threads are ended before this returns.
template <class F>
std::vector<std::string> errors_of(std::size_t ranks, const InProcessOptions& options, F&& body) {
  auto transports = InProcessTransport::create(ranks, options);
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      InProcessTransport transport = std::move(transports[rank]);
      try {
        body(transport);
      } catch (const TransportError& error) {
        errors[rank] = error.what();
      } catch (const std::exception& error) {
        errors[rank] = concat("not a TransportError: ", error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void receive_byte(InProcessTransport& transport, std::size_t from, Tag tag) {
  std::byte byte{};
  Request request = transport.irecv(from, tag, {&byte, 1});
  transport.wait(request);
}

void send_byte(InProcessTransport& transport, std::size_t to, Tag tag) {
  const std::byte byte{};
  Request request = transport.isend(to, tag, {&byte, 1});
  transport.wait(request);
}

constexpr InProcessOptions quick{{.timeout = 1s, .grace = 200ms}};

}  // namespace

TEST_CASE("threads keep the contract of transports", "[threads]") {
  const bool rendezvous = GENERATE(false, true);
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    InProcessOptions options;
    options.rendezvous = rendezvous;
    run_in_process(
        ranks,
        [&](InProcessTransport& t) {
          testing::keeps_the_contract(t, 100 * ranks, testing::seeds(40, 20, 10));
        },
        options);
  }
}

TEST_CASE("threads agree on a plan through a group", "[threads]") {
  std::vector<std::string> errors = errors_of(3, {}, [](InProcessTransport& transport) {
    Group group(transport);
    const auto all_gather = [&](std::uint64_t own) { return group.all_gather_value(own); };
    agree_on_plan(7, 3, all_gather);
    agree_on_plan(transport.rank() == 1 ? 8 : 7, 3, all_gather);
  });
  for (const std::string& error : errors) CHECK_THAT(error, Catch::Contains("rank 1 has plan"));
}

TEST_CASE("a thread that freezes is named by all others, however far away", "[threads]") {
  std::atomic<bool> over = false;
  const auto errors = errors_of(5, quick, [&](InProcessTransport& transport) {
    const std::size_t rank = transport.rank();
    transport.set_task(concat("F", rank));
    if (rank == 2) {  // everyone else waits for it, directly or not
      while (!over) std::this_thread::sleep_for(1ms);
      transport.set_task("F99");
      receive_byte(transport, 1, 7);
      return;
    }
    try {
      receive_byte(transport, rank == 4 ? 3 : rank == 3 ? 2 : rank + 1, 7);
    } catch (...) {
      over = true;
      throw;
    }
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::StartsWith("rank 2 (F2) does not answer: rank ") &&
                          Catch::Contains(" for rank 2") && Catch::Contains("message 7"));
    CHECK(error == errors[0]);
  }
}

TEST_CASE("a thread that freezes for good is left behind", "[threads]") {
  static std::atomic<bool> over = false, ended = false;
  const auto body = [](InProcessTransport& transport) {
    transport.set_task("B3");
    if (transport.rank() == 1) {
      while (!over) std::this_thread::sleep_for(1ms);
      ended = true;
      return;
    }
    receive_byte(transport, 1, 0);
  };
  try {
    run_in_process(2, body, quick);
    FAIL("no error");
  } catch (const TransportError& error) {
    CHECK(error.rank() == 1);
    CHECK(error.task() == "B3");
    CHECK(std::string(error.what()).starts_with("rank 1 (B3) does not answer: rank 0 (B3) has waited "));
  }
  CHECK_FALSE(ended);
  over = true;
  while (!ended) std::this_thread::sleep_for(1ms);
}

TEST_CASE("a thread's exception ends the run of all, and is what the caller gets", "[threads]") {
  std::vector<std::string> seen(4), again(4);
  const auto body = [&](InProcessTransport& transport) {
    if (transport.rank() == 1) {
      transport.set_task("F5");
      throw InvalidInput("the loss is NaN");
    }
    try {
      receive_byte(transport, 1, 0);
    } catch (const TransportError& error) {
      seen[transport.rank()] = concat(error.rank(), " ", error.task(), ": ", error.what());
    }
    try {
      transport.isend(transport.rank(), 0, {});
    } catch (const TransportError& error) {
      again[transport.rank()] = error.what();
      throw;
    }
  };
  CHECK_THROWS_AS(run_in_process(4, body), InvalidInput);
  for (const std::size_t rank : {0U, 2U, 3U}) {
    CHECK(seen[rank] == "1 F5: rank 1 (F5) failed: the loss is NaN");
    CHECK(again[rank] == "rank 1 (F5) failed: the loss is NaN");
  }
}

TEST_CASE("abort ends the run of all threads at once", "[threads]") {
  const auto errors = errors_of(4, {}, [](InProcessTransport& transport) {
    transport.set_task("B1");
    if (transport.rank() == 3) transport.abort("out of memory");
    receive_byte(transport, (transport.rank() + 1) % 3, 0);
  });
  CHECK(errors == std::vector<std::string>(4, "rank 3 (B1) failed: out of memory"));
}

TEST_CASE("a stack that unwinds ends the run of all threads", "[threads]") {
  const auto errors = errors_of(2, {}, [](InProcessTransport& transport) {
    if (transport.rank() == 0) {
      const InProcessTransport mine = std::move(transport);
      throw std::runtime_error("gone");
    }
    receive_byte(transport, 0, 0);
  });
  CHECK(errors[0] == "not a TransportError: gone");
  CHECK(errors[1] == "rank 0 failed: an exception");
}

TEST_CASE("a thread that ends without having sent is not waited for", "[threads]") {
  const InProcessOptions patient{{.timeout = 1h}};
  const auto errors = errors_of(2, patient, [](InProcessTransport& transport) {
    if (transport.rank() == 0) return send_byte(transport, 1, 4);
    receive_byte(transport, 0, 4);
    receive_byte(transport, 0, 5);
  });
  CHECK(errors[0].empty());
  CHECK_THAT(errors[1], Catch::StartsWith("rank 0 has ended: rank 1 has waited ") &&
                            Catch::EndsWith("for rank 0 to send message 5"));
}

TEST_CASE("threads that wait for each other are told so", "[threads]") {
  const auto errors = errors_of(3, quick, [](InProcessTransport& transport) {
    transport.set_task(concat("F", transport.rank()));
    receive_byte(transport, (transport.rank() + 1) % 3, 0);
  });
  for (const std::string& error : errors) {
    CHECK(error == errors[0]);
    CHECK_THAT(error, Catch::Contains(" waits in a circle: rank ") && Catch::Contains("rank 0 (F0)") &&
                          Catch::Contains("rank 1 (F1)") && Catch::Contains("rank 2 (F2)"));
  }
}

TEST_CASE("a send that nobody receives ends a run with rendezvous only", "[threads]") {
  InProcessOptions options = quick;
  const auto body = [](InProcessTransport& transport) {
    if (transport.rank() == 0) return send_byte(transport, 1, 4);
    std::this_thread::sleep_for(2s);
  };
  CHECK(errors_of(2, options, body)[0].empty());
  options.rendezvous = true;
  CHECK_THAT(errors_of(2, options, body)[0],
             Catch::StartsWith("rank 1 does not answer: rank 0 has waited ") &&
                 Catch::EndsWith(" for rank 1 to receive message 4"));
}

TEST_CASE("a message of another size ends the run of all threads", "[threads]") {
  const auto errors = errors_of(3, {}, [](InProcessTransport& transport) {
    std::vector<std::byte> bytes(transport.rank() == 0 ? 8 : 16);
    if (transport.rank() == 2) return receive_byte(transport, 1, 1);
    Request request = transport.rank() == 0 ? transport.isend(1, 9, bytes) : transport.irecv(0, 9, bytes);
    transport.wait(request);
    receive_byte(transport, 2, 0);
  });
  CHECK(errors == std::vector<std::string>(3, "rank 0 has sent 8 bytes as message 9; expected 16 by rank 1"));
}

TEST_CASE("collectives of different sizes end the run of all threads", "[threads]") {
  for (std::size_t ranks = 2; ranks <= 5; ++ranks) {
    for (std::size_t n = 0; n < 12; ++n) {
      const auto errors = errors_of(ranks, {}, [&](InProcessTransport& transport) {
        Group group(transport);
        std::vector<double> values(transport.rank() == ranks / 2 ? n + 1 : n);
        group.all_reduce(std::span<double>(values));
      });
      INFO(ranks << " ranks, " << n << " values");
      for (const std::string& error : errors)
        CHECK_THAT(error, Catch::Contains(" as a collective's message"));
    }
  }
}

TEST_CASE("what a transport can't do is said before it is tried", "[threads]") {
  auto ranks = InProcessTransport::create(2);
  std::byte byte{};
  CHECK_THROWS_WITH(ranks[0].isend(2, 0, {}), "there is no rank 2; expected one below 2");
  CHECK_THROWS_WITH(ranks[0].irecv(7, 0, {}), "there is no rank 7; expected one below 2");
  Request request = ranks[0].irecv(0, 0, {&byte, 1});
  Request again = request;
  send_byte(ranks[0], 0, 0);
  ranks[0].wait(request);
  CHECK_THROWS_AS(ranks[0].wait(again), InvalidInput);
  CHECK_NOTHROW(ranks[0].wait(request));
  Request next = ranks[0].irecv(0, 0, {&byte, 1});
  CHECK(next.slot == again.slot);
  CHECK_THROWS_WITH(ranks[0].wait(again), Catch::Contains("is not of an unfinished transfer"));
  CHECK_THROWS_WITH(InProcessTransport::create(0), "there are 0 ranks; expected at least 1");
  CHECK_THROWS_WITH(InProcessTransport::create(1, {{.timeout = 0ms}}),
                    "timeout is 0 ms; expected at least 1 ms");
  CHECK_THROWS_WITH(InProcessTransport::create(1, {{.grace = -1ms}}),
                    "grace is -1 ms; expected at least 0 ms");
}

TEST_CASE("groups that can't work are refused", "[threads]") {
  auto ranks = InProcessTransport::create(3);
  using Ranks = std::vector<std::size_t>;
  CHECK_THROWS_WITH(Group(ranks[0], Ranks{1, 2}), Catch::Contains("do not contain rank 0"));
  CHECK_THROWS_WITH(Group(ranks[0], Ranks{}), Catch::Contains("do not contain rank 0"));
  CHECK_THROWS_WITH(Group(ranks[0], Ranks{0, 3}),
                    Catch::Contains("place 1 is rank 3; expected a rank below 3"));
  CHECK_THROWS_WITH(Group(ranks[0], Ranks{0, 1, 0}), Catch::Contains("place 2 is rank 0 once more"));
  Group group(ranks[0], {0, 1});
  std::vector<float> three(3), two(2);
  CHECK_THROWS_AS(group.all_to_all(std::span<const float>(three), std::span<float>(three)), InvalidInput);
  CHECK_THROWS_AS(group.all_to_all(std::span<const float>(two), std::span<float>(three)), InvalidInput);
  CHECK_THROWS_AS(
      group.all_to_all(std::span<const std::span<const float>>{}, std::span<const std::span<float>>{}),
      InvalidInput);
  Group alone(ranks[0], {0});
  CHECK_THROWS_AS(alone.ring_shift(std::span<const float>(two), std::span<float>(three)), InvalidInput);
}

TEST_CASE("parts of an array cover it and differ by at most one") {
  for (std::size_t n = 0; n < 60; ++n) {
    for (std::size_t parts = 1; parts < 20; ++parts) {
      std::size_t end = 0;
      for (std::size_t i = 0; i < parts; ++i) {
        const Part part = part_of(n, parts, i);
        CHECK(part.begin == end);
        CHECK((part.size() == n / parts || part.size() == n / parts + 1));
        end = part.end;
      }
      CHECK(end == n);
    }
  }
  CHECK(part_of(~std::size_t{0}, 2, 1).end == ~std::size_t{0});
}
