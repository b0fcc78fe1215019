// `slimpack plan --state` killed at each of its system calls, and asked again.
#if defined(SLIMPACK_COMMAND) && defined(__linux__) && defined(__x86_64__)

#include "tests/cli/killed.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/effort.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t batch_size = 30, batches = 4;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Names of the files in a folder.
std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

/// A folder, next to lengths, in which iterations are planned.
class Caller {
 public:
  Caller() : root_(fs::temp_directory_path() / ("slimpack-killed-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(folder());
    std::mt19937 random(7);
    std::lognormal_distribution<double> length(8.0, 1.5);
    std::ofstream file(root_ / "lengths");
    for (std::size_t i = 0; i < batch_size * batches; ++i)
      file << std::clamp(static_cast<long>(length(random)), 1L, 65536L) << "\n";
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() { fs::remove_all(root_); }

  [[nodiscard]] fs::path folder() const { return root_ / "out"; }
  [[nodiscard]] fs::path state() const { return folder() / "state"; }
  [[nodiscard]] fs::path plan() const { return folder() / "plan.json"; }

  /// The call that plans an iteration: a batch, or after the last one what waits.
  [[nodiscard]] std::vector<std::string> call(std::size_t iteration) const {
    std::vector<std::string> words{SLIMPACK_COMMAND,
                                   "plan",
                                   "--quiet",
                                   "--planner",
                                   "wlb",
                                   "--model",
                                   "llama-7b",
                                   "--tp",
                                   "8",
                                   "--cp",
                                   "2",
                                   "--pp",
                                   "4",
                                   "--context",
                                   "64K",
                                   "--queues",
                                   "16000,40000"};
    const auto add = [&](const char* option, const std::string& value) {
      words.insert(words.end(), {option, value});
    };
    add("--lengths", (root_ / "lengths").string());
    add("--count", std::to_string(batch_size));
    add("--first", std::to_string(std::min(iteration, batches - 1) * batch_size));
    add("--iteration", std::to_string(iteration));
    add("--state", state().string());
    add("--output", plan().string());
    if (iteration >= batches) words.emplace_back("--drain");
    return words;
  }

  /// Leaves the folder as a caller finds it before an iteration.
  void begin(const std::string& saved) const {
    fs::remove_all(folder());
    fs::create_directories(folder());
    if (!saved.empty()) write_text(state(), saved);
  }

 private:
  fs::path root_;
};

/// What an iteration leaves that nothing disturbs.
struct Undisturbed {
  std::string before, after, plan;  ///< states, and the plan
  test::Ending ending;
};

Undisturbed undisturbed(const Caller& caller, std::size_t iteration, const std::string& before) {
  caller.begin(before);
  Undisturbed all{.before = before, .after = "", .plan = "", .ending = {}};
  all.ending = test::run_with_signal(caller.call(iteration), 0, 0);
  REQUIRE(all.ending.good());
  all.after = text_of(caller.state());
  all.plan = text_of(caller.plan());
  REQUIRE(names_in(caller.folder()) == std::set<std::string>{"plan.json", "state"});
  return all;
}

/// Whether the files are whole, each as it was before the iteration or as it is after it, the plan's before the state's.
void check_whole(const Caller& caller, const Undisturbed& all) {
  const std::string state = text_of(caller.state()), plan = text_of(caller.plan());
  CHECK((state == all.before || state == all.after));
  CHECK((plan.empty() || plan == all.plan));
  CHECK((state != all.after || plan == all.plan));
}

void check_asked_again(const Caller& caller, std::size_t iteration, const Undisturbed& all) {
  CHECK(test::run_with_signal(caller.call(iteration), 0, 0).good());
  CHECK(text_of(caller.plan()) == all.plan);
  CHECK(text_of(caller.state()) == all.after);
  CHECK(names_in(caller.folder()) == std::set<std::string>{"plan.json", "state"});
}

}  // namespace

TEST_CASE("killed at any system call and asked again, an iteration is planned once") {
  const Caller caller;
  std::size_t before = 0, between = 0, after = 0;
  std::string saved;
  for (std::size_t iteration = 0; iteration <= batches; ++iteration) {
    const Undisturbed all = undisturbed(caller, iteration, saved);
    saved = all.after;
    // The first makes the state, a middle one replaces it, the last has no batch.
    if (iteration != 0 && iteration != 2 && iteration != batches) continue;
    const std::size_t stride = slimpack::testing::seeds(iteration == 2 ? 1 : 3, 7, 7);
    for (std::size_t stop = all.ending.first - 1; stop <= all.ending.stops; stop += stride) {
      INFO("iteration " << iteration << ", killed at stop " << stop << " of " << all.ending.stops);
      caller.begin(all.before);
      const test::Ending ending = test::run_with_signal(caller.call(iteration), stop, SIGKILL);
      REQUIRE((ending.good() || (WIFSIGNALED(ending.status) && WTERMSIG(ending.status) == SIGKILL)));
      check_whole(caller, all);
      before += fs::exists(caller.plan()) ? 0 : 1;
      after += !ending.good() && text_of(caller.state()) == all.after ? 1 : 0;
      between += fs::exists(caller.plan()) && text_of(caller.state()) != all.after ? 1 : 0;
      check_asked_again(caller, iteration, all);
    }
  }
  CHECK(before > 0);
  CHECK(between > 0);
  CHECK(after > 0);
}

TEST_CASE("a signal that ends the command at any system call leaves whole files and no other") {
  const Caller caller;
  const std::string saved = undisturbed(caller, 0, "").after;
  const Undisturbed all = undisturbed(caller, 1, saved);
  constexpr std::array signals{SIGINT, SIGTERM, SIGHUP};
  std::array<std::size_t, signals.size()> died{};
  const std::size_t stride = slimpack::testing::seeds(1, 7, 7);
  for (std::size_t stop = all.ending.first - 1; stop <= all.ending.stops; stop += stride) {
    const int signal = signals[stop % signals.size()];
    INFO("signal " << signal << " at stop " << stop << " of " << all.ending.stops);
    caller.begin(all.before);
    const test::Ending ending = test::run_with_signal(caller.call(1), stop, signal);
    REQUIRE((ending.good() || (WIFSIGNALED(ending.status) && WTERMSIG(ending.status) == signal)));
    died[stop % signals.size()] += ending.good() ? 0 : 1;
    check_whole(caller, all);
    for (const std::string& name : names_in(caller.folder())) CHECK((name == "state" || name == "plan.json"));
    check_asked_again(caller, 1, all);
  }
  for (const std::size_t times : died) CHECK(times > 0);
}

#endif
