// Checks the CUDA back end's kernels, and whole steps, against the CPU's in double, and times kernels and a
// stage: a part of it at each call, so that none takes others with it. See the usage below, and gpu.sh. Exit
// codes: 0, 1 if a result is wrong or a figure misses its bar, 2 if there is no GPU or the arguments are
// wrong.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu/attention_shapes.hpp"
#include "bench/gpu/gpu.hpp"
#include "bench/gpu/stage_plans.hpp"
#include "bench/gpu/verdict.hpp"
#include "bench/gpu/violins.hpp"
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
  check          operators, attention and whole steps against the CPU's in double
  check-kernels  operators and attention of ours alone, small: for compute-sanitizer
  attention      times of ours and of cuDNN's, slices compared with one piece, checks of sampled rows
  stage          a profile, then a stage of llama-13b
parts that need none:
  shapes         the packs that attention is timed with, a line each
  plans [GPU]    the plans that the stage would run on a GPU, default: h200
  verdict FILE   figures and their bars
  draw FILE OUT  a page of the distributions of task times
options:
  --figures FILE   appends figures to it   --seed N          default: random
  --tasks FILE     every task's time       --profile FILE    the profile, as JSON
  --seconds N      that `stage` may measure for, default: 120
)";

struct Arguments {
  std::vector<std::string> words;
  std::string figures;
  StageTimes stage;
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

using Check = void (*)(Checks&, unsigned);

bool check_all(const std::vector<std::pair<const char*, Check>>& checks, const FigureFile& figures,
               unsigned seed) {
  bool good = true;
  for (const auto& [name, check] : checks) {
    const auto one = [&, run = check, what = name] {
      Checks results;
      run(results, seed);
      if (std::isnan(results.worst())) return true;
      std::printf("\n");
      figures.add(what, results.worst());
      return results.report();
    };
    good = attempt(figures, name, one) && good;
  }
  return good;
}

bool time_all_attention(const FigureFile& figures, unsigned seed) {
  const kernels::cuda::Ceilings ceilings = print_ceilings(figures);
  const auto times = [&](auto&& run) {
    return [&, run] {
      run();
      return true;
    };
  };
  bool good = attempt(figures, "attention", times([&] { time_attention(ceilings, figures, seed); }));
  good = attempt(figures, "slicing/all", times([&] { time_slicing(ceilings, figures, seed); })) && good;
  good = check_all({{"check/timed attention", check_timed_attention}}, figures, seed) && good;
  return attempt(figures, "memory-bound operators", times([&] { time_memory_bound(ceilings, seed); })) &&
         good;
}

void begin_on_gpu(unsigned seed) {
  const auto device = kernels::cuda::use_device({.memory = std::size_t{24} << 30U, .what = "this program"});
  std::printf("%s, compute capability %d.%d, %d multiprocessors, %.1f of %.1f GB free, seed %u\n",
              device.name.c_str(), device.major, device.minor, device.multiprocessors,
              static_cast<double>(device.free_memory) * 1e-9, static_cast<double>(device.memory) * 1e-9,
              seed);
}

bool run_on_gpu(const std::string& part, const Arguments& arguments) {
  const FigureFile figures(arguments.figures);
  begin_on_gpu(arguments.seed);
  if (part == "check") {
    return check_all({{"check/operators", check_operators},
                      {"check/attention", check_attention},
                      {"check/steps", check_stage},
                      {"check/cuDNN", check_library_attention}},
                     figures, arguments.seed);
  }
  if (part == "check-kernels") {
    return check_all({{"check/operators", check_operators}, {"check/attention", check_attention}}, figures,
                     arguments.seed);
  }
  if (part == "attention") return time_all_attention(figures, arguments.seed);
  time_stage(print_ceilings(figures), figures, arguments.stage);
  return true;
}

bool verdict(const std::string& file) {
  std::vector<std::string> shapes;
  for (const AttentionShape& shape : attention_shapes()) shapes.push_back(shape.name);
  return print_verdicts(read_figures(file), shapes, std::cout).missed == 0;
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
  if (part == "verdict" && words.size() == 2) return verdict(words[1]) ? 0 : 1;
  if (part == "draw" && words.size() == 3) {
    draw(words[1], words[2]);
    return 0;
  }
  const bool known = part == "check" || part == "check-kernels" || part == "attention" || part == "stage";
  require(known && words.size() == 1, "the part is '", part, "'; expected one of the usage\n", usage);
  return run_on_gpu(part, arguments) ? 0 : 1;
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
