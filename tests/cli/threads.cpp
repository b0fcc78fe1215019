#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "examples/slimpack/progress.hpp"
#include "slimpack/core/parallel.hpp"

using namespace slimpack;

namespace {

/// A stream's buffer that tells one thread what another has flushed.
class Heard : public std::stringbuf {
 public:
  /// What was flushed up to now, once it holds `part`.
  [[nodiscard]] std::string until(const std::string& part) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return text_.find(part) != std::string::npos; });
    return text_;
  }

 protected:
  int sync() override {
    const std::lock_guard lock(mutex_);
    text_ = str();
    changed_.notify_all();
    return 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

}  // namespace

TEST_CASE("progress is said once an interval, and never again after its end", "[threads]") {
  Heard heard;
  std::ostream out(&heard);
  {
    command::Progress progress(12, &out, std::chrono::milliseconds(2));
    progress.begin("megatron");
    for_each_index(12, 3, [&](std::size_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      progress.advance();
    });
    static_cast<void>(heard.until("slimpack: 12 of 12 plans made in "));
  }
  const std::string text = heard.str();
  CHECK(text.find(" 13 of") == std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(heard.str() == text);
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
