#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "examples/slimpack/parallel.hpp"
#include "examples/slimpack/progress.hpp"

using namespace slimpack;

TEST_CASE("every index is worked on once, on any number of threads", "[threads]") {
  for (const std::size_t threads : {1u, 2u, 3u, 8u}) {
    for (const std::size_t count : {0u, 1u, 2u, 7u, 100u}) {
      std::vector<int> done(count, 0);
      command::for_each_index(count, threads, [&](std::size_t i) { done[i] += static_cast<int>(i) + 1; });
      for (std::size_t i = 0; i < count; ++i) CHECK(done[i] == static_cast<int>(i) + 1);
    }
  }
}

TEST_CASE("of several failures the lowest index's is reported", "[threads]") {
  for (int round = 0; round < 20; ++round) {
    const auto work = [](std::size_t i) { require(i < 5 || i % 2 == 0, "index ", i); };
    CHECK_THROWS_WITH(command::for_each_index(50, 4, work), "index 5");
  }
}

TEST_CASE("progress is said once an interval, and never again after its end", "[threads]") {
  std::ostringstream out;
  {
    command::Progress progress(12, &out, std::chrono::milliseconds(2));
    progress.begin("megatron");
    command::for_each_index(12, 3, [&](std::size_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      progress.advance();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::string text = out.str();
  CHECK(text.find("slimpack: 12 of 12 plans made in ") != std::string::npos);
  CHECK(text.find(" 13 of") == std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(out.str() == text);
}

TEST_CASE("progress is silent in its first interval, and where nobody listens") {
  std::ostringstream out;
  {
    command::Progress slow(1, &out, std::chrono::hours(1)), quiet(1, nullptr);
    for (command::Progress* progress : {&slow, &quiet}) {
      progress->begin("slimpack");
      progress->advance();
    }
  }
  CHECK(out.str().empty());
}

#ifdef SLIMPACK_COMMAND
namespace {

/// What a command prints, but for lines with the time that planning took.
std::string figures(const std::string& command) {
  std::string text;
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> line;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
    if (std::string(line.data()).find("planning_seconds") == std::string::npos) text += line.data();
  }
  CHECK(pclose(pipe) == 0);
  return text;
}

}  // namespace

TEST_CASE("batches planned at once are planned as one after another", "[threads]") {
  const std::string compare = std::string(SLIMPACK_COMMAND) + " compare --lengths " + SLIMPACK_SOURCE_DIR +
                              "/examples/data/github.train.txt --count 48 --context 65536 --truncate --dp 4 "
                              "--pp 8 --tp 4 --iterations 8 --json --quiet --threads ";
  const std::string one = figures(compare + "1");
  CHECK(one.find("\"step_seconds\"") != std::string::npos);
  CHECK(figures(compare + "4") == one);
}
#endif
