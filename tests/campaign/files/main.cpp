// Changed files, which have to be refused in few words or be as good as others: see `usage`.

#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "mutate.hpp"
#include "originals.hpp"
#include "parsers.hpp"
#include "slimpack/core/error.hpp"
#include "tests/effort.hpp"

namespace campaign::files {

namespace {

using slimpack::concat;

constexpr const char* usage = R"(Usage: mutations [OPTION]...
Changes files at random, reads them, and checks what comes of it. Exits with 1 if a check fails.

  --seed S         of the random changes (default 1)
  --count N        files of each format (default 2000; 200 with SLIMPACK_TEST_FEW or a sanitizer)
  --first I        number of the first one (default 0)
  --format NAME    plan, profile, state, lengths or documents alone
  --say            what was changed, and with what result
  --write FOLDER   write files as they are before they are changed, with which fuzzers can begin, and check nothing
)";

struct Options {
  std::uint64_t seed = 1, count = slimpack::testing::seeds(2000, 200), first = 0;
  std::optional<Format> format;
  bool say = false;
  std::string write;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string {
      if (++i >= argc) throw std::invalid_argument(name + " needs a value");
      return argv[i];
    };
    if (name == "--seed") {
      o.seed = std::stoull(value());
    } else if (name == "--count") {
      o.count = std::stoull(value());
    } else if (name == "--first") {
      o.first = std::stoull(value());
    } else if (name == "--format") {
      o.format = format_named(value());
    } else if (name == "--say") {
      o.say = true;
    } else if (name == "--write") {
      o.write = value();
    } else {
      throw std::invalid_argument(concat("unknown option '", name, "'\n", usage));
    }
  }
  return o;
}

/// What came of one format's files.
struct Tally {
  std::uint64_t refused = 0, accepted = 0, failed = 0;
};

/// Reads changed file number `i`. @returns what is wrong with what came of it; empty if nothing is.
std::string try_one(Format format, const Mutated& file, Tally& tally) {
  try {
    const std::optional<std::string> refused = examine(format, file.bytes);
    refused ? ++tally.refused : ++tally.accepted;
    return refused || !file.must_be_refused ? "" : "it was accepted";
  } catch (const std::exception& error) {
    return error.what();
  }
}

Tally try_all(Format format, const Options& o) {
  Tally tally;
  const std::string_view name = format_names[static_cast<std::size_t>(format)];
  for (std::uint64_t i = o.first; i < o.first + o.count; ++i) {
    Draw draw(o.seed, i);
    const Mutated file = mutated(format, original(format, o.seed * 100 + i % 40), draw);
    if (o.say) std::cout << name << ' ' << i << ": " << file.change << std::endl;
    const std::string wrong = try_one(format, file, tally);
    if (wrong.empty()) continue;
    ++tally.failed;
    std::cout << "FAILED: mutations --format " << name << " --seed " << o.seed << " --first " << i
              << " --count 1  # " << file.change << ": " << wrong << '\n';
  }
  return tally;
}

void write_all(Format format, const Options& o) {
  const std::filesystem::path folder =
      std::filesystem::path(o.write) / format_names[static_cast<std::size_t>(format)];
  std::filesystem::create_directories(folder);
  for (std::uint64_t i = o.first; i < o.first + o.count; ++i) {
    std::ofstream file(folder / std::to_string(i), std::ios::binary);
    file << original(format, o.seed * 100 + i);
    if (!file.flush()) throw std::runtime_error("can't write into " + folder.string());
  }
}

int run(const Options& o) {
  bool good = true;
  for (std::size_t f = 0; f < format_names.size(); ++f) {
    const auto format = static_cast<Format>(f);
    if (o.format && *o.format != format) continue;
    if (!o.write.empty()) {
      write_all(format, o);
      continue;
    }
    const Tally tally = try_all(format, o);
    std::cout << format_names[f] << ": " << tally.refused << " refused, " << tally.accepted << " accepted, "
              << tally.failed << " failed\n";
    // Changes that break all files, or none, would show nothing.
    good = good && tally.failed == 0 && (o.count < 100 || (tally.refused > 0 && tally.accepted > 0));
  }
  return good ? 0 : 1;
}

}  // namespace

}  // namespace campaign::files

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::cout << campaign::files::usage;
    return 0;
  }
  try {
    return campaign::files::run(campaign::files::parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "mutations: " << error.what() << "\n";
    return 2;
  }
}
