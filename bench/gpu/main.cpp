// Checks the CUDA back end's kernels, and whole steps, against the CPU's in double, and times kernels and a
// stage: a part of it at each call, so that none takes others with it. See the usage below, and gpu.sh. Exit
// codes: 0, 1 if a result is wrong or a figure misses its bar, 2 if there is no GPU or the arguments are
// wrong.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/gpu/attention_by.hpp"
#include "bench/gpu/attention_shapes.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/gpu/stage_plans.hpp"
#include "bench/gpu/verdict.hpp"
#include "bench/gpu/violins.hpp"
#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/device.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/model/presets.hpp"

namespace slimpack::bench {

void Checks::add(const std::string& what, double error) {
  for (Line& line : lines_) {
    if (line.what != what) continue;
    ++line.count;
    if (!(error <= line.worst)) line.worst = error;
    return;
  }
  lines_.push_back({what, 1, error});
}

bool Checks::report() const {
  bool good = true;
  std::printf("| result | checks | worst relative error |  |\n| --- | --- | --- | --- |\n");
  for (const Line& line : lines_) {
    const bool within = line.worst <= bound;
    good = good && within;
    std::printf("| %s | %zu | %.1e | %s |\n", line.what.c_str(), line.count, line.worst,
                within ? "ok" : "WRONG");
  }
  return good;
}

double Checks::worst() const {
  double worst = lines_.empty() ? NAN : 0.0;
  for (const Line& line : lines_) {
    if (!(line.worst <= worst)) worst = line.worst;
  }
  return worst;
}

namespace {

constexpr const char* usage = R"(usage: bench_gpu PART [OPTION...]
parts that need a GPU:
  ways            ways to attention that this GPU and this build have, a line each: mma_sync, wgmma, cudnn,
                  cudnn_fixed, cudnn_fast
  check WHAT      against the CPU's in double: operators, attention (packs of some hundred tokens), timed (sampled
                  rows of the timed attention), or steps (whole ones)
  attention       times of attention
  slicing         times of slices compared with one piece
  memory-bound    times of memory-bound operators
  stage           a profile, then a stage of llama-13b
parts that need none:
  shapes          the packs that attention is timed with, a line each
  plans [GPU]     the plans that the stage would run on a GPU, default: h200
  verdict FILE... figures and their bars
  draw FILE OUT   a page of the distributions of task times
options:
  --by WAY         one of the ways; default: the fastest of ours
  --rows 64        whole steps and stages take the kernels by mma.sync, also where there are those by wgmma
  --figures FILE   appends figures to it   --seed N          default: random
  --tasks FILE     every task's time       --profile FILE    the profile, as JSON
  --seconds N      that `stage` may measure for, default: 120
)";

struct Arguments {
  std::vector<std::string> words;
  std::string figures;
  StageTimes stage;
  std::optional<AttentionBy> by;
  bool mma_sync_alone = false;
  unsigned seed = std::random_device{}();
};

template <class T>
T number_of(std::string_view option, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc{} && end == text.data() + text.size() && value >= T{0}, option, " is '", text,
          "'; expected a number");
  return value;
}

Arguments read(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      out.words.push_back(word);
      continue;
    }
    require(i + 1 < argc, "nothing stands after ", word, "; expected its value");
    const std::string value = argv[++i];
    if (word == "--figures") {
      out.figures = value;
    } else if (word == "--tasks") {
      out.stage.tasks_file = value;
    } else if (word == "--profile") {
      out.stage.profile_file = value;
    } else if (word == "--by") {
      out.by = attention_by_word(value);
      require(out.by.has_value(), "--by is '", value, "'; expected one of the ways of the usage\n", usage);
    } else if (word == "--rows") {
      require(value == "64", "--rows is '", value, "'; expected 64");
      out.mma_sync_alone = true;
    } else if (word == "--seconds") {
      out.stage.seconds = number_of<double>(word, value);
    } else if (word == "--seed") {
      out.seed = number_of<unsigned>(word, value);
    } else {
      require(false, "the option is ", word, "; expected one of those of the usage\n", usage);
    }
  }
  return out;
}

/// Runs something that may fail, says so, and keeps it in place of a figure.
bool attempt(const FigureFile& figures, const std::string& name, const std::function<bool()>& run) {
  try {
    return run();
  } catch (const std::exception& error) {
    std::printf("%s failed: %s\n", name.c_str(), error.what());
    figures.add_words(name, error.what());
    return false;
  }
}

/// Runs checks, and keeps the worst error as a figure.
bool run_checks(const FigureFile& figures, const std::string& name, const std::function<void(Checks&)>& run) {
  return attempt(figures, name, [&] {
    Checks results;
    run(results);
    std::printf("\n");
    figures.add(name, results.worst());
    return results.report();
  });
}

void begin_on_gpu(unsigned seed) {
  const auto device = kernels::cuda::use_device({.memory = std::size_t{24} << 30U, .what = "this program"});
  std::printf("%s, compute capability %d.%d, %d multiprocessors, %.1f of %.1f GB free, seed %u\n",
              device.name.c_str(), device.major, device.minor, device.multiprocessors,
              static_cast<double>(device.free_memory) * 1e-9, static_cast<double>(device.memory) * 1e-9,
              seed);
}

/// The way that is asked for, or the fastest of ours. @throws InvalidInput if this GPU or this build has not got it.
AttentionBy way_of(const Arguments& arguments) {
  const std::vector<AttentionBy> ways = attention_ways();
  if (!arguments.by) {
    return *std::find_if(ways.rbegin(), ways.rend(), is_ours);
  }
  require(std::find(ways.begin(), ways.end(), *arguments.by) != ways.end(), "--by is ",
          word_of(*arguments.by),
          ", which this GPU or this build has not got; expected one of what `bench_gpu ways` lists");
  return *arguments.by;
}

bool check_on_gpu(const std::string& what, const Arguments& arguments, const FigureFile& figures) {
  const unsigned seed = arguments.seed;
  if (what == "operators")
    return run_checks(figures, "check/operators", [&](Checks& checks) { check_operators(checks, seed); });
  if (what == "steps")
    return run_checks(figures, "check/steps", [&](Checks& checks) { check_stage(checks, seed); });
  const AttentionBy by = way_of(arguments);
  const std::string name =
      std::string(what == "timed" ? "check/timed attention/" : "check/attention/") + name_of(by);
  return run_checks(figures, name, [&](Checks& checks) {
    what == "timed" ? check_timed_attention(checks, seed, by) : check_attention(checks, seed, by);
  });
}

bool run_on_gpu(const std::vector<std::string>& words, const Arguments& arguments) {
  const std::string& part = words[0];
  const FigureFile figures(arguments.figures);
  if (part == "ways") {
    static_cast<void>(kernels::cuda::use_device({}));
    for (const AttentionBy by : attention_ways()) std::printf("%s\n", std::string(word_of(by)).c_str());
    return true;
  }
  begin_on_gpu(arguments.seed);
  if (arguments.mma_sync_alone) kernels::cuda::use_mma_sync_alone();
  if (part == "check") return check_on_gpu(words[1], arguments, figures);
  const auto by = part == "attention" || part == "slicing" ? way_of(arguments) : AttentionBy::mma_sync;
  const kernels::cuda::Ceilings ceilings = print_ceilings(figures);
  if (part == "attention") time_attention(ceilings, figures, arguments.seed, by);
  if (part == "slicing") {
    return attempt(figures, "slicing/all", [&] {
      time_slicing(ceilings, figures, arguments.seed, by);
      return true;
    });
  }
  if (part == "memory-bound") time_memory_bound(ceilings, arguments.seed);
  if (part == "stage") time_stage(ceilings, figures, arguments.stage);
  return true;
}

/// @param files those that are there count
bool verdict(std::span<const std::string> files) {
  std::vector<std::string> shapes;
  for (const AttentionShape& shape : attention_shapes()) shapes.push_back(shape.name);
  std::vector<Figure> figures;
  for (const std::string& file : files) {
    for (Figure& figure : read_figures(file)) figures.push_back(std::move(figure));
  }
  return print_verdicts(figures, shapes, std::cout).missed == 0;
}

void draw(const std::string& from, const std::string& to) {
  std::ifstream in(from);
  require(in.good(), "can't read '", from, "'; expected a file of tasks");
  std::ofstream out(to);
  draw_violins(out, read_timed_tasks(in), "Task times of a stage of llama-13b, whole samples and slices");
  out.close();
  require(!out.fail(), "can't write '", to, "'; expected a file that can be written");
}

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a program that is killed leaves what it has found
  const Arguments arguments = read(argc, argv);
  const auto& words = arguments.words;
  const std::string part = words.empty() ? "" : words[0];
  if (part == "shapes" && words.size() == 1) {
    for (const AttentionShape& shape : attention_shapes()) std::printf("%s\n", to_line(shape).c_str());
    return 0;
  }
  if (part == "plans" && words.size() <= 2) {
    print_plans(plan_long_tail(device_preset(words.size() > 1 ? words[1] : "h200")));
    return 0;
  }
  if (part == "verdict" && words.size() >= 2) return verdict(std::span(words).subspan(1)) ? 0 : 1;
  if (part == "draw" && words.size() == 3) {
    draw(words[1], words[2]);
    return 0;
  }
  const auto is_one_of = [](const std::string& word, std::initializer_list<std::string_view> known) {
    return std::find(known.begin(), known.end(), word) != known.end();
  };
  const bool alone = is_one_of(part, {"ways", "attention", "slicing", "memory-bound", "stage"});
  const bool known =
      (alone && words.size() == 1) || (part == "check" && words.size() == 2 &&
                                       is_one_of(words[1], {"operators", "attention", "timed", "steps"}));
  require(known, "the part is '", part, "'; expected one of the usage\n", usage);
  return run_on_gpu(words, arguments) ? 0 : 1;
}

}  // namespace

}  // namespace slimpack::bench

int main(int argc, char** argv) {
  try {
    return slimpack::bench::run(argc, argv);
  } catch (const slimpack::InvalidInput& error) {
    std::fprintf(stderr, "bench_gpu: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gpu: %s\n", error.what());
    return 1;
  }
}
