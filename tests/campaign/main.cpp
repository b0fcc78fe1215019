// A random campaign over the planners: see `usage`.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "judge.hpp"
#include "plan_files.hpp"
#include "report.hpp"
#include "settings.hpp"
#include "tests/effort.hpp"

namespace campaign {

namespace {

constexpr const char* usage = R"(Usage: campaign [OPTION]...
Plans random settings with slimpack and other planners, and checks the plans. Exits with 1 if a check fails.

  --seed S         of the random settings (default 1)
  --settings N     how many (default 50; 5 with SLIMPACK_TEST_FEW or a sanitizer)
  --first I        number of the first one (default 0)
  --only I         one setting alone, with the result of each of its plans
  --idle           random settings of fewer samples than pipelines
  --named          settings that earlier versions planned badly instead of random ones
  --checks A,B,…   only these checks; `--checks help` lists them
  --seconds T      start no setting after this time
  --patience T     give a setting up that takes longer (default 120, 1200 under a sanitizer)
  --threads N      default: as many as there are cores; results do not depend on it
  --worst N        cases to list for each check (default 5)
  --table FILE     write a line for each setting
  --write DIR      write the settings' plans as plan files, and check nothing
  --against DIR    compare with plans that `--write` of another version has written, under this version's prices
  --lengths FILE   real lengths (default: examples/data/github.train.txt)
)";

struct Options {
  std::uint64_t seed = 1;
  std::size_t settings = slimpack::testing::seeds(50, 5), first = 0, worst = 5;
  std::optional<std::size_t> only;
  bool named = false, idle = false;
  double seconds = 1e300, patience = slimpack::testing::sanitized ? 1200.0 : 120.0;
  unsigned threads = 0;
  Checks checks;
  std::string table, write, against, lengths = SLIMPACK_SOURCE_DIR "/examples/data/github.train.txt";
};

Checks parse_checks(const std::string& text) {
  Checks checks{};
  std::istringstream list(text);
  for (std::string name; std::getline(list, name, ',');) {
    const auto found = std::find_if(check_texts.begin(), check_texts.end(),
                                    [&](const CheckText& check) { return name == check.name; });
    if (found == check_texts.end()) {
      std::string all;
      for (const CheckText& check : check_texts) all += concat("\n  ", check.name, ": ", check.says);
      throw std::invalid_argument(concat("unknown check '", name, "'; expected some of", all));
    }
    checks[static_cast<std::size_t>(found - check_texts.begin())] = true;
  }
  return checks;
}

Options parse(int argc, char** argv) {
  Options o;
  o.checks.fill(true);
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string {
      if (++i >= argc) throw std::invalid_argument(name + " needs a value");
      return argv[i];
    };
    if (name == "--seed") {
      o.seed = std::stoull(value());
    } else if (name == "--settings") {
      o.settings = std::stoull(value());
    } else if (name == "--first") {
      o.first = std::stoull(value());
    } else if (name == "--only") {
      o.only = std::stoull(value());
    } else if (name == "--idle") {
      o.idle = true;
    } else if (name == "--named") {
      o.named = true;
    } else if (name == "--checks") {
      o.checks = parse_checks(value());
    } else if (name == "--seconds") {
      o.seconds = std::stod(value());
    } else if (name == "--patience") {
      o.patience = std::stod(value());
    } else if (name == "--threads") {
      o.threads = static_cast<unsigned>(std::stoul(value()));
    } else if (name == "--worst") {
      o.worst = std::stoull(value());
    } else if (name == "--table") {
      o.table = value();
    } else if (name == "--write") {
      o.write = value();
    } else if (name == "--against") {
      o.against = value();
    } else if (name == "--lengths") {
      o.lengths = value();
    } else {
      throw std::invalid_argument(concat("unknown option '", name, "'\n", usage));
    }
  }
  return o;
}

std::vector<Tokens> read_lengths(const std::string& name) {
  std::ifstream file(name);
  std::vector<Tokens> lengths;
  for (Tokens length = 0; file >> length;) lengths.push_back(length);
  if (lengths.empty()) throw std::runtime_error(name + " holds no lengths");
  return lengths;
}

/// The settings that were asked for, made when they are needed.
class Settings {
 public:
  explicit Settings(const Options& o) : options_(o), github_(read_lengths(o.lengths)) {
    if (o.named) named_ = named_settings(github_);
  }

  [[nodiscard]] std::size_t first() const {
    return options_.only.value_or(options_.named ? 0 : options_.first);
  }
  [[nodiscard]] std::size_t size() const {
    if (options_.only) return 1;
    return options_.named ? named_.size() : options_.settings;
  }
  /// The i-th of those that were asked for.
  [[nodiscard]] Setting operator[](std::size_t i) const {
    const std::size_t number = first() + i;
    if (options_.idle) return idle_setting(options_.seed, number, github_);
    if (!options_.named) return random_setting(options_.seed, number, github_);
    if (number >= named_.size())
      throw std::out_of_range(concat("there are ", named_.size(), " named settings"));
    return named_[number];
  }

 private:
  const Options& options_;
  std::vector<Tokens> github_;
  std::vector<Setting> named_;
};

/// What several threads make of the settings. A setting that takes longer than the patience is given up: its thread goes
/// on in vain, and another one takes its place.
template <class R>
class Workers {
 public:
  using Make = std::function<R(const Setting&, std::size_t number)>;

  Workers(const Settings& settings, const Options& options, Make make)
      : settings_(settings), options_(options), make_(std::move(make)), results_(settings.size()) {}

  /// Results by setting; none where it was given up or not begun. Those after the last one begun are left out.
  /// @throws what the first call throws that throws.
  std::vector<std::optional<R>> operator()() {
    std::unique_lock lock(mutex_);
    const unsigned wanted =
        options_.threads > 0 ? options_.threads : std::max(1U, std::thread::hardware_concurrency());
    for (unsigned t = 0; t < wanted; ++t) start();
    while (busy_ > 0) {
      changed_.wait_for(lock, std::chrono::seconds(1));
      give_up_late_ones();
    }
    if (error_) std::rethrow_exception(error_);
    results_.resize(std::min(next_, settings_.size()));
    return std::move(results_);
  }

  /// Whether threads are left that go on in vain, so that the program can only be left by `std::_Exit`.
  [[nodiscard]] bool stuck() const { return !given_up_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;

  void start() {
    ++busy_;
    std::thread([this] { work(); }).detach();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (next_ < settings_.size() && seconds_since(begin_) < options_.seconds && !error_) {
      const std::size_t i = next_++;
      running_[i] = Clock::now();
      lock.unlock();
      std::optional<R> result;
      std::exception_ptr error;
      try {
        result = make_(settings_[i], settings_.first() + i);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (given_up_.count(i) > 0) return;
      running_.erase(i);
      results_[i] = std::move(result);
      if (error && !error_) error_ = error;
    }
    --busy_;
    changed_.notify_all();
  }

  void give_up_late_ones() {
    for (auto late = running_.begin(); late != running_.end();) {
      if (seconds_since(late->second) < options_.patience) {
        ++late;
        continue;
      }
      std::cerr << "given up after " << options_.patience << " s: campaign "
                << settings_[late->first].reproduction << "  # " << settings_[late->first].name << "\n";
      given_up_.insert(late->first);
      late = running_.erase(late);
      --busy_;
      start();
    }
  }

  [[nodiscard]] static double seconds_since(Clock::time_point moment) {
    return std::chrono::duration<double>(Clock::now() - moment).count();
  }

  const Settings& settings_;
  const Options& options_;
  Make make_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0, busy_ = 0;
  std::map<std::size_t, Clock::time_point> running_;
  std::set<std::size_t> given_up_;
  std::vector<std::optional<R>> results_;
  std::exception_ptr error_;
};

void print_log(const Judged& judged) {
  std::cout << judged.name << "\n";
  for (const std::string& line : judged.result.log) std::cout << "  " << line << "\n";
  for (std::size_t c = 0; c < number_of_checks; ++c) {
    const Finding& finding = judged.result.findings[c];
    if (finding.looked_at)
      std::cout << "  " << check_texts[c].name << ": " << finding.worst << "  " << finding.detail << "\n";
  }
  std::cout << "\n";
}

bool judge_all(const Options& o, const Settings& settings, Workers<Judged>& workers) {
  std::vector<Judged> judged;
  std::size_t late = 0;
  for (std::optional<Judged>& one : workers()) {
    late += one ? 0 : 1;
    if (one) judged.push_back(std::move(*one));
  }
  if (o.only && !judged.empty()) print_log(judged.front());
  if (!o.table.empty()) {
    std::ofstream file(o.table);
    write_table(file, judged);
  }
  if (!o.named && !o.only)
    std::cout << "seed " << o.seed << ", settings from " << settings.first() << " on\n";
  const bool good = report(std::cout, judged, o.checks, o.worst);
  if (late > 0) std::cout << late << " settings given up after " << o.patience << " s: FAILED\n";
  return good && late == 0;
}

void compare_all(const Options& o, Workers<Compared>& workers) {
  std::vector<Pair> all, fitting;
  std::size_t only_ours = 0, only_theirs = 0, count = 0;
  double planning = 0.0;
  for (const std::optional<Compared>& one : workers()) {
    if (!one) continue;
    const Compared& c = *one;
    ++count;
    planning += c.planning_seconds;
    only_ours += c.ours && !c.theirs ? 1 : 0;
    only_theirs += c.theirs && !c.ours ? 1 : 0;
    if (c.theirs && !c.ours)
      std::cout << "only theirs: campaign " << c.pair.reproduction << "  # " << c.pair.name << "\n";
    if (!c.ours || !c.theirs) continue;
    all.push_back(c.pair);
    if (c.fits) fitting.push_back(c.pair);
  }
  std::cout << count << " settings; only ours " << only_ours << ", only theirs " << only_theirs
            << "; seconds of planning " << planning << "\n\nall plans: ";
  report_ratios(std::cout, all, o.worst);
  std::cout << "\nwhere theirs fit into memory: ";
  report_ratios(std::cout, fitting, o.worst);
}

/// Leaves the program, also where threads go on in vain.
int leave(int code, bool stuck) {
  if (!stuck) return code;
  std::cout.flush();
  std::cerr.flush();
  std::_Exit(code);
}

int run(const Options& o) {
  const Settings settings(o);
  if (!o.against.empty()) {
    Workers<Compared> workers(settings, o, [&](const Setting& setting, std::size_t number) {
      return compare_with_file(setting, o.against, number);
    });
    compare_all(o, workers);
    return leave(0, workers.stuck());
  }
  if (!o.write.empty()) {
    std::filesystem::create_directories(o.write);
    Workers<bool> workers(settings, o, [&](const Setting& setting, std::size_t number) {
      write_plan(setting, o.write, number);
      return true;
    });
    workers();
    return leave(0, workers.stuck());
  }
  Workers<Judged> workers(settings, o, [&](const Setting& setting, std::size_t) {
    return Judged{setting.name, setting.reproduction, judge(setting, o.checks)};
  });
  const bool good = judge_all(o, settings, workers);
  return leave(good ? 0 : 1, workers.stuck());
}

}  // namespace

}  // namespace campaign

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--help") {
      std::cout << campaign::usage;
      return 0;
    }
  }
  try {
    return campaign::run(campaign::parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "campaign: " << error.what() << "\n";
    std::_Exit(2);  // threads may be left
  }
}
