#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/transport/meeting_private.hpp"
#include "kernels/transport/rendezvous_private.hpp"
#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"
#include "tests/kernels/processes.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using namespace std::chrono_literals;
using slimpack::testing::Ended, slimpack::testing::free_port, slimpack::testing::launch_on,
    slimpack::testing::Process;

namespace {

Environment environment_of(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

const std::map<std::string, std::string> torchrun{{"RANK", "5"},
                                                  {"WORLD_SIZE", "8"},
                                                  {"LOCAL_RANK", "1"},
                                                  {"MASTER_ADDR", "node3"},
                                                  {"MASTER_PORT", "29500"}};

/// What reading a launch complains about, with one variable changed; left out where `value` is null.
std::string complaint(const std::string& name, const char* value) {
  auto variables = torchrun;
  variables.erase(name);
  if (value != nullptr) variables[name] = value;
  try {
    static_cast<void>(launch_of(Launcher::torchrun, environment_of(variables)));
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "nothing";
}

/// Meets, and says hello on each way for data.
std::string meet_and_greet(const Launch& launch, std::chrono::milliseconds timeout) {
  asio::io_context io;
  Meeting meeting = meet(io, launch, timeout);
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  std::string said;
  for (std::size_t rank = 0; rank < launch.size; ++rank) {
    if (rank == launch.rank) continue;
    const std::array<std::size_t, 2> letter{launch.rank, rank};
    write_all(io, meeting.data[rank], buffer_of(letter), deadline);
  }
  for (std::size_t rank = 0; rank < launch.size; ++rank) {
    if (rank == launch.rank) continue;
    std::array<std::size_t, 2> letter{};
    std::size_t got = 0;
    if (read_all(io, meeting.data[rank], buffer_of(letter), deadline, got)) said += "short ";
    if (letter != std::array{rank, launch.rank}) said += concat("wrong letter of ", rank, " ");
    if (meeting.members[rank].local_rank != rank) said += concat("wrong member ", rank, " ");
    if (meeting.members[rank].host.empty() || meeting.members[rank].address.empty()) said += "no host ";
    const bool star = launch.rank == 0 || rank == 0;
    if (meeting.control[rank].is_open() != star) said += concat("control of ", rank, " ");
  }
  return said + "met";
}

/// Connects without being a rank, and says something.
tcp::socket stranger(asio::io_context& io, std::uint16_t port, asio::const_buffer bytes) {
  std::string error;
  const Deadline soon = std::chrono::steady_clock::now() + 2s;
  tcp::socket socket = connect_to(io, "localhost", port, soon, error);
  if (!socket.is_open()) throw std::runtime_error(error);
  write_all(io, socket, bytes, soon);
  return socket;
}

void expect_all(const std::vector<Ended>& ended, const std::string& text) {
  for (const Ended& rank : ended) {
    CHECK(rank.status == 2);
    CHECK(rank.said == "error: " + text);
  }
}

}  // namespace

TEST_CASE("the innermost launcher is found") {
  CHECK(launcher_of(environment_of({})) == Launcher::none);
  CHECK(launcher_of(environment_of(torchrun)) == Launcher::torchrun);
  CHECK(launcher_of(environment_of({{"RANK", "1"}})) == Launcher::none);
  CHECK(launcher_of(environment_of({{"PMI_SIZE", "2"}})) == Launcher::mpi);
  CHECK(launcher_of(environment_of({{"SLURM_PROCID", "0"}, {"MASTER_ADDR", "n"}})) == Launcher::slurm);
  CHECK(launcher_of(environment_of({{"SLURM_PROCID", "0"}})) == Launcher::none);
  CHECK(launcher_of(environment_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}})) == Launcher::none);
  CHECK(launcher_of(environment_of({{"SLURM_NTASKS", "8"}})) == Launcher::none);
  CHECK_THROWS_WITH(launcher_of(environment_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})),
                    Catch::StartsWith("srun has started 8 processes, but MASTER_ADDR is not set"));
  CHECK(launcher_of(environment_of(
            {{"SLURM_PROCID", "0"}, {"MASTER_ADDR", "n"}, {"OMPI_COMM_WORLD_SIZE", "2"}})) == Launcher::mpi);
  CHECK(launcher_of(environment_of({{"PMIX_RANK", "0"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}})) ==
        Launcher::torchrun);
}

TEST_CASE("a launch is read from the variables of torchrun and Slurm") {
  const Launch expected{.rank = 5, .size = 8, .local_rank = 1, .host = "node3", .port = 29500};
  CHECK(launch_of(Launcher::torchrun, environment_of(torchrun)) == expected);
  CHECK(launch_of(Launcher::slurm, environment_of({{"SLURM_PROCID", "5"},
                                                   {"SLURM_NTASKS", "8"},
                                                   {"SLURM_LOCALID", "1"},
                                                   {"MASTER_ADDR", "node3"},
                                                   {"MASTER_PORT", "29500"}})) == expected);
  auto variables = torchrun;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(launch_of(Launcher::torchrun, environment_of(variables)).port == 29501);
  variables["SLIMPACK_PORT"] = "1234";
  CHECK(launch_of(Launcher::torchrun, environment_of(variables)).port == 1234);
}

TEST_CASE("the rank on its machine is found under every launcher") {
  CHECK(local_rank_of(environment_of({})) == 0);
  CHECK(local_rank_of(environment_of(torchrun)) == 1);
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"}) {
    CHECK(local_rank_of(environment_of({{"PMI_SIZE", "4"}, {name, "3"}})) == 3);
  }
  CHECK_THROWS_WITH(local_rank_of(environment_of({{"PMI_SIZE", "4"}})),
                    Catch::StartsWith("OMPI_COMM_WORLD_LOCAL_RANK is not set, nor "));
  CHECK_THROWS_WITH(local_rank_of(environment_of({{"PMI_SIZE", "4"}, {"PMI_LOCAL_RANK", "x"}})),
                    Catch::StartsWith("PMI_LOCAL_RANK is 'x'; expected the rank among those of its machine"));
}

TEST_CASE("a launch that makes no sense is refused by its variable") {
  CHECK(complaint("RANK", nullptr) == "RANK is not set; expected a rank, 0 to 7");
  CHECK(complaint("WORLD_SIZE", nullptr) ==
        "WORLD_SIZE is not set; expected the number of ranks, 1 to 65536");
  CHECK(complaint("LOCAL_RANK", "") ==
        "LOCAL_RANK is empty; expected the rank among those of its machine, 0 to 7");
  CHECK(complaint("MASTER_ADDR", nullptr) ==
        "MASTER_ADDR is not set; expected the name or address of rank 0's machine");
  CHECK(complaint("RANK", "8") == "RANK is '8'; expected a rank, 0 to 7");
  CHECK(complaint("RANK", "-1") == "RANK is '-1'; expected a rank, 0 to 7");
  CHECK(complaint("RANK", "2x") == "RANK is '2x'; expected a rank, 0 to 7");
  CHECK(complaint("WORLD_SIZE", "0") == "WORLD_SIZE is '0'; expected the number of ranks, 1 to 65536");
  CHECK(complaint("MASTER_PORT", "65536") ==
        "MASTER_PORT is '65536'; expected a free port of rank 0's machine, 1 to 65535");
  CHECK(complaint("SLIMPACK_PORT", "http") ==
        "SLIMPACK_PORT is 'http'; expected a free port of rank 0's machine, 1 to 65535");
  CHECK_THROWS_AS(launch_of(Launcher::mpi, environment_of(torchrun)), InvalidInput);
  asio::io_context io;
  CHECK_THROWS_AS(meet(io, {.rank = 2, .size = 2}, 1s), InvalidInput);
  CHECK_THROWS_AS(meet(io, {.rank = 0, .size = 1, .host = ""}, 1s), InvalidInput);
  CHECK_THROWS_AS(meet(io, {}, 0ms), InvalidInput);
}

TEST_CASE("processes meet in whatever order they start") {
  for (const std::size_t size : {1U, 2U, 4U, 8U}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      INFO(size << " ranks, seed " << seed);
      std::vector<std::size_t> order(size);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::mt19937_64 random(seed);
      std::shuffle(order.begin(), order.end(), random);
      if (seed == 0) std::sort(order.begin(), order.end(), std::greater<>());  // rank 0 last
      const std::uint16_t port = free_port();
      std::vector<Process> processes;
      for (const std::size_t rank : order) {
        processes.emplace_back([&] { return meet_and_greet(launch_on(port, rank, size), 20s); });
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
      }
      for (const Ended& ended : testing::wait_all(processes)) CHECK(ended.said == "met");
    }
  }
}

TEST_CASE("ranks that do not come are named by all that did") {
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  for (const std::size_t rank : {4U, 0U, 1U})
    processes.emplace_back([&] { return meet_and_greet(launch_on(port, rank, 5), 600ms); });
  expect_all(testing::wait_all(processes),
             concat("ranks 2, 3 did not come to localhost:", port, " within 0.6 s; expected 5 ranks"));
}

TEST_CASE("a rank 0 that does not come is named by the others") {
  const std::uint16_t port = free_port();
  const Process process([&] { return meet_and_greet(launch_on(port, 1, 2), 300ms); });
  expect_all({process.wait()}, concat("rank 1 could not reach rank 0 at localhost:", port,
                                      " within 0.3 s: Connection refused; expected rank 0 to listen there"));
}

TEST_CASE("a host that does not exist is named") {
  const Process process([&] {
    return meet_and_greet({.rank = 1, .size = 2, .local_rank = 0, .host = "no.such.host.invalid"}, 200ms);
  });
  CHECK_THAT(
      process.wait().said,
      Catch::StartsWith("error: rank 1 could not reach rank 0 at no.such.host.invalid:29500 within 0.2 s: "));
}

TEST_CASE("a rank that dies while others are awaited is named") {
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  for (const std::size_t rank : {0U, 1U, 2U})
    processes.emplace_back([&] { return meet_and_greet(launch_on(port, rank, 4), 20s); });
  std::this_thread::sleep_for(300ms);
  kill(processes[2].id(), SIGKILL);
  const auto ended = testing::wait_all(processes);
  CHECK(ended[2].signal == SIGKILL);
  for (const std::size_t rank : {0U, 1U}) {
    CHECK_THAT(ended[rank].said, Catch::StartsWith("error: rank 2 (") &&
                                     Catch::EndsWith(") has gone before all 4 ranks had come"));
  }
}

TEST_CASE("two processes of one rank end the run of all") {
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  for (const std::size_t rank : {0U, 1U, 1U})
    processes.emplace_back([&] { return meet_and_greet(launch_on(port, rank, 3), 20s); });
  for (const Ended& ended : testing::wait_all(processes)) {
    CHECK(ended.status == 2);
    CHECK_THAT(ended.said, Catch::StartsWith("error: two processes have rank 1: rank 1 (") &&
                               Catch::EndsWith("; expected each rank below 3 once"));
  }
}

TEST_CASE("a port in use is named") {
  asio::io_context io;
  const tcp::acceptor taken(io, {asio::ip::address_v4::loopback(), 0});
  const std::uint16_t port = taken.local_endpoint().port();
  const Process process([&] { return meet_and_greet(launch_on(port, 0, 2), 20s); });
  expect_all({process.wait()},
             concat("rank 0 can't listen on port ", port, ": Address already in use; expected a free port"));
}

TEST_CASE("ranks that expect other numbers of ranks end the run of all") {
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  processes.emplace_back([&] { return meet_and_greet(launch_on(port, 0, 2), 20s); });
  processes.emplace_back([&] { return meet_and_greet(launch_on(port, 1, 3), 20s); });
  for (const Ended& ended : testing::wait_all(processes)) {
    CHECK_THAT(ended.said, Catch::StartsWith("error: rank 1 (") &&
                               Catch::EndsWith(") is of 3 ranks; expected 2, as rank 0"));
  }
}

TEST_CASE("strangers keep nobody from meeting") {
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  processes.emplace_back([&] { return meet_and_greet(launch_on(port, 0, 2), 20s); });
  std::mt19937_64 random(7);
  asio::io_context io;
  Sockets strangers;
  for (const std::size_t size : {0U, 1U, 7U, 8U, 9U, 40U, 5000U}) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    strangers.push_back(stranger(io, port, asio::buffer(bytes)));
    stranger(io, port, asio::buffer(bytes));  // which hangs up
  }
  const Hello hello;  // a cut one
  Hello data;         // one that has lost its way
  data.for_data = 1;
  strangers.push_back(stranger(io, port, buffer_of(data)));
  strangers.push_back(stranger(io, port, asio::buffer(buffer_of(hello), 11)));
  stranger(io, port, asio::buffer(buffer_of(hello), 11));
  processes.emplace_back([&] { return meet_and_greet(launch_on(port, 1, 2), 20s); });
  for (const Ended& ended : testing::wait_all(processes)) CHECK(ended.said == "met");
}

TEST_CASE("a process of another version is told so, and ends the run") {
  const std::uint16_t port = free_port();
  const Process host([&] { return meet_and_greet(launch_on(port, 0, 2), 20s); });
  Hello hello;
  hello.version = 99;
  asio::io_context io;
  const tcp::socket other = stranger(io, port, buffer_of(hello));
  CHECK_THAT(host.wait().said,
             Catch::StartsWith("error: a process of 127.0.0.1 speaks version 99 of slimpack's protocol"));
}

TEST_CASE("a server that is not rank 0 is told apart") {
  const auto served = [](std::string_view answer) {
    asio::io_context io;
    tcp::acceptor listener(io, {asio::ip::address_v4::loopback(), 0});
    const Process rank(
        [&] { return meet_and_greet(launch_on(listener.local_endpoint().port(), 1, 2), 500ms); });
    tcp::socket guest = listener.accept();
    asio::write(guest, asio::buffer(answer));
    return rank.wait().said;
  };
  CHECK_THAT(served("HTTP/1.1 400 Bad Request\r\n\r\n"),
             Catch::Contains("has answered rank 1 in another protocol"));
  CHECK_THAT(served(""), Catch::Contains("has not answered rank 1 before all ranks had come"));
  Hello other;
  ++other.version;
  const auto* bytes = reinterpret_cast<const char*>(&other);
  CHECK_THAT(served({bytes, sizeof other}),
             Catch::Contains(concat("speaks version ", other.version, " of slimpack's protocol; expected ",
                                    Hello::right_version)));
}
