#include "slimpack/stream/state_file.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "slimpack/stream/outlier_delay.hpp"
#include "tests/stream/streams.hpp"

using namespace slimpack;
using test::running_stream;
using test::some_batches;
using test::some_options;
using test::Stream;
using test::work_of;

namespace {

namespace fs = std::filesystem;

fs::path own_folder(const std::string& name) {
  fs::path folder = fs::temp_directory_path() / ("slimpack-" + name + "-" + std::to_string(::getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string text_in(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string text_of(const PackedIteration& packed) {
  std::string text = std::to_string(packed.iteration) + ":";
  for (std::size_t m = 0; m < packed.micro_batches(); ++m) {
    for (const PackedDocument& d : packed.micro_batch(m))
      text += " " + std::to_string(d.id) + "/" + std::to_string(d.length) + "/" + std::to_string(d.delay);
    text += " |";
  }
  return text;
}

/// A trainer: continues from the state file, records every iteration, saves; kills itself at one of four
/// points of some iteration, one of them in the middle of writing the state.
[[noreturn]] void train(const fs::path& folder, unsigned seed, unsigned life) {
  Stream stream(some_options(seed), work_of);
  const fs::path state = folder / "state";
  if (fs::exists(state)) stream.restore(read_state_file(state));
  const auto batches = some_batches(seed);
  std::mt19937_64 random(seed + 1000 * life);
  for (;;) {
    const auto i = static_cast<std::size_t>(stream.state().iteration);
    if (i >= batches.size() && stream.empty()) ::_exit(0);
    const std::uint64_t fate = random() % 24;
    if (fate == 0) ::raise(SIGKILL);
    const PackedIteration packed = i < batches.size() ? stream.push(batches[i]) : stream.drain();
    if (fate == 1) ::raise(SIGKILL);
    write_state_file(folder / ("iteration-" + std::to_string(i)), text_of(packed));
    if (fate == 2) {
      const std::string saved = stream.save();
      std::ofstream(folder / "state.new", std::ios::binary) << saved.substr(0, saved.size() / 2);
      ::raise(SIGKILL);
    }
    write_state_file(state, stream.save());
    if (fate == 3) ::raise(SIGKILL);
  }
}

}  // namespace

TEST_CASE("a process that is killed repeatedly trains what an undisturbed one does") {
  unsigned deaths = 0;
  for (unsigned seed = 0; seed < 6; ++seed) {
    INFO("seed " << seed);
    const fs::path folder = own_folder("crash");
    int status = -1;
    for (unsigned life = 0; life < 500 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0); ++life) {
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) train(folder, seed, life);
      REQUIRE(::waitpid(child, &status, 0) == child);
      deaths += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 1 : 0;
    }
    REQUIRE(WIFEXITED(status));
    Stream undisturbed(some_options(seed), work_of);
    std::vector<std::string> expected;
    for (const auto& batch : some_batches(seed)) expected.push_back(text_of(undisturbed.push(batch)));
    for (const auto& rest : undisturbed.flush()) expected.push_back(text_of(rest));
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(text_in(folder / ("iteration-" + std::to_string(i))) == expected[i]);
    CHECK_FALSE(fs::exists(folder / ("iteration-" + std::to_string(expected.size()))));
    fs::remove_all(folder);
  }
  CHECK(deaths >= 10);
}

TEST_CASE("a state file holds the old state until it holds the new one") {
  const fs::path folder = own_folder("state");
  const fs::path path = folder / "state";
  const std::string first = running_stream(1).save(), second = running_stream(2).save();
  write_state_file(path, first);
  CHECK(read_state_file(path) == first);
  std::vector<fs::path> synced;
  write_state_file(path, second, [&](const fs::path& written) {
    synced.push_back(written);
    // The file is whole before it takes the name, and has it when the folder is synced.
    CHECK(read_state_file(synced.size() == 1 ? written : path) == second);
    CHECK((synced.size() == 2 || read_state_file(path) == first));
  });
  CHECK(synced == std::vector<fs::path>{folder / "state.new", folder});
  CHECK(read_state_file(path) == second);
  // A process that died while writing leaves half of a new file, which does not disturb the next one.
  write_state_file(folder / "state.new", first.substr(0, 20));
  CHECK(read_state_file(path) == second);
  write_state_file(path, first);
  CHECK(read_state_file(path) == first);
  CHECK_FALSE(fs::exists(folder / "state.new"));
  CHECK_THROWS_WITH(read_state_file(folder / "none"), Catch::Contains("none: No such file or directory"));
  CHECK_THROWS_WITH(write_state_file(folder / "none" / "state", first),
                    Catch::Contains("No such file or directory"));
  fs::create_directory(folder / "folder.new");
  CHECK_THROWS_WITH(write_state_file(folder / "folder", first),
                    Catch::Contains("folder.new: Is a directory"));
  CHECK(fs::is_directory(folder / "folder.new"));
  CHECK_THROWS_AS(read_state_file(folder), std::system_error);
  fs::remove_all(folder);
}

TEST_CASE("of a file that is no state, or more than one, only the beginning is read") {
  const fs::path folder = own_folder("strange"), path = folder / "state";
  const std::string saved = running_stream(1).save();
  const auto holding = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  };
  CHECK(read_state_file(holding("")).empty());
  CHECK_THROWS_WITH(read_state_file(holding("slim")), Catch::Contains("no saved state of a stream"));
  CHECK_THROWS_WITH(read_state_file(holding(saved.substr(0, 20))), Catch::Contains("ends in the middle"));
  CHECK(read_state_file(holding(saved.substr(0, 100))).size() == 100);  // its user says what is missing
  CHECK_THROWS_WITH(read_state_file(holding(saved + "1")), Catch::Contains("goes on after the"));
  CHECK_THROWS_WITH(read_state_file(holding(std::string(100, ' '))), Catch::Contains("no saved state"));
  // These have no end.
  if (fs::exists("/dev/zero"))
    CHECK_THROWS_WITH(read_state_file("/dev/zero"), Catch::Contains("no saved state of a stream"));
  fs::remove_all(folder);
}
