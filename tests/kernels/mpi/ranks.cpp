// One rank of an MPI run, for tests/kernels/mpi/run.sh. Usage: ranks CASE [SEED] [shared|messages]
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "kernels/transport/mpi.hpp"
#include "slimpack/exec/agreement.hpp"
#include "tests/kernels/transport_contract.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using namespace std::chrono_literals;

static_assert(Transport<MpiTransport>);

namespace {

void receive_byte(MpiTransport& transport, std::size_t from, Tag tag = 7) {
  std::byte byte{};
  Request request = transport.irecv(from, tag, {&byte, 1});
  transport.wait(request);
}

/// What InvalidInput says; empty if there is none.
template <class F>
std::string complaint(F&& call) {
  try {
    call();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return {};
}

/// All is well.
void contract(MpiTransport& transport, std::uint64_t seed) {
  testing::keeps_the_contract(transport, seed, 20);
  Group group(transport);
  const auto all_gather = [&](std::uint64_t own) { return group.all_gather_value(own); };
  agree_on_plan(7, transport.size(), all_gather);
}

void refusals(MpiTransport& transport) {
  using testing::promise;
  std::byte byte{};
  promise(complaint([&] { transport.isend(transport.size(), 0, {}); }).starts_with("there is no rank "),
          "rank");
  promise(
      complaint([&] { transport.irecv(0, (Tag{1} << 63) - 1, {}); }).starts_with("tag 9223372036854775807 "),
      "tag");
  Request request = transport.irecv(transport.rank(), 0, {&byte, 1});
  Request again = request;
  promise(!transport.test(request), "complete before it was sent");
  Request send = transport.isend(transport.rank(), 0, {&byte, 1});
  transport.wait(request);
  transport.wait(send);
  promise(!complaint([&] { transport.wait(again); }).empty(), "a request was used twice");
  promise(complaint([] { MpiTransport({{.timeout = 0ms}}); }).starts_with("timeout is 0 ms"), "timeout");
}

/// Everybody waits for rank 1, directly or not, while it does something else.
template <class F>
void all_wait_for_one(MpiTransport& transport, F&& instead) {
  transport.set_task(concat("F", transport.rank()));
  if (transport.rank() == 1) {
    std::this_thread::sleep_for(100ms);
    instead();
  } else {
    receive_byte(transport, transport.rank() == 0 ? 1 : transport.rank() - 1);
  }
}

/// Rank 1 is stopped while it waits for rank 0, which then waits for it: no circle.
void stopped(MpiTransport& transport) {
  const auto processes = Group(transport).all_gather_value(getpid());
  transport.set_task(concat("F", transport.rank()));
  if (transport.rank() == 0) {
    std::this_thread::sleep_for(100ms);
    kill(processes[1], SIGSTOP);
  }
  receive_byte(transport, transport.rank() == 1 ? 0 : 1);
}

void wrong_size(MpiTransport& transport, std::size_t sent, std::size_t expected) {
  std::vector<std::byte> bytes(transport.rank() == 1 ? sent : expected);
  if (transport.rank() == 1) {
    Request request = transport.isend(0, 9, bytes);
    transport.wait(request);
    std::this_thread::sleep_for(300ms);  // it learns of its fault later than all others
  } else if (transport.rank() == 0) {
    Request request = transport.irecv(1, 9, bytes);
    transport.wait(request);
  }
  receive_byte(transport, transport.rank());
}

void run(const std::string& name, std::uint64_t seed, MpiTransport& transport) {
  if (name == "contract") {
    contract(transport, seed);
  } else if (name == "refusals") {
    refusals(transport);
  } else if (name == "killed") {
    all_wait_for_one(transport, [] { std::raise(SIGKILL); });
  } else if (name == "frozen") {
    all_wait_for_one(transport, [] { std::raise(SIGSTOP); });
  } else if (name == "stopped") {
    stopped(transport);
  } else if (name == "leaves") {
    all_wait_for_one(transport, [] {});
  } else if (name == "aborts") {
    all_wait_for_one(transport, [&] { transport.abort("the loss is NaN"); });
  } else if (name == "throws") {
    all_wait_for_one(transport, [] { throw InvalidInput("the plan is for another model"); });
  } else if (name == "computes") {  // a rank that computes on learns of the failure at its next task
    if (transport.rank() == 1) transport.abort("the loss is NaN");
    while (true) {
      std::this_thread::sleep_for(10ms);
      transport.set_task("F1");
    }
  } else if (name == "circle") {
    transport.set_task(concat("F", transport.rank()));
    receive_byte(transport, (transport.rank() + 1) % transport.size());
  } else if (name == "larger") {
    wrong_size(transport, 16, 8);
  } else if (name == "smaller") {
    wrong_size(transport, 8, 16);
  } else if (name == "collectives") {  // whose sizes differ
    Group group(transport);
    std::vector<float> values(transport.rank() == 1 ? 1000 : 999);
    group.all_reduce(std::span<float>(values));
  } else if (name == "polls") {  // waits by tests alone
    if (transport.rank() == 1) transport.abort("the loss is NaN");
    std::byte byte{};
    Request request = transport.irecv(transport.rank(), 0, {&byte, 1});
    while (!transport.test(request)) std::this_thread::sleep_for(10ms);
  } else if (name == "forgets") {
    static std::byte byte{};
    if (transport.rank() == 1) transport.irecv(0, 0, {&byte, 1});
  } else {
    throw InvalidInput("there is no case " + name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string name = arguments.empty() ? "" : arguments[0];
  const bool well = name == "contract" || name == "refusals";
  MpiOptions options{{.timeout = well ? 60'000ms : 2'000ms, .grace = 3'000ms}};
  options.shared_memory = arguments.size() < 3 || arguments[2] == "shared";
  options.largest_count = 1000;  // so that long messages are tested
  const std::uint64_t seed = arguments.size() > 1 ? std::stoull(arguments[1]) : 1;
  return run_mpi([&](MpiTransport& transport) { run(name, seed, transport); }, options);
}
