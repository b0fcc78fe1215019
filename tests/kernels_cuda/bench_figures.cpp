#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "bench/gpu/attention_by.hpp"
#include "bench/gpu/attention_shapes.hpp"
#include "bench/gpu/figures.hpp"
#include "bench/gpu/verdict.hpp"
#include "bench/gpu/violins.hpp"

// What bench_gpu does with figures, once they are measured.
using namespace slimpack;
using namespace slimpack::bench;

namespace {

std::string verdicts_of(const std::vector<Figure>& figures, Verdicts& counts) {
  std::ostringstream out;
  counts = print_verdicts(figures, {"pack"}, out);
  return out.str();
}

/// The last cell of the line that has this in it.
std::string verdict_on(const std::string& table, const std::string& what) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(what) == std::string::npos) continue;
    const std::size_t end = line.rfind(" |"), begin = line.rfind("| ", end - 1);
    return line.substr(begin + 2, end - begin - 2);
  }
  return "no such line";
}

}  // namespace

TEST_CASE("figures come back from their file as they were added, also from several programs", "[bench_gpu]") {
  const std::string path = "bench_figures_test.tsv";
  std::remove(path.c_str());
  CHECK(read_figures(path).empty());
  FigureFile(path).add("a/b c/forward", 0.123456789);
  FigureFile(path).add_words("a/b", "refused:\n no\tplan");
  FigureFile(path).add("a/b c/forward", 2.5);
  const auto figures = read_figures(path);
  REQUIRE(figures.size() == 3);
  CHECK(figures[0].value == Approx(0.123456789).epsilon(1e-8));
  CHECK(find_figure(figures, "a/b c/forward")->value == 2.5);
  CHECK(std::isnan(find_figure(figures, "a/b")->value));
  CHECK(find_figure(figures, "a/b")->words == "refused:  no plan");
  CHECK(find_figure(figures, "a") == nullptr);
  std::remove(path.c_str());
  CHECK_THROWS_AS(parse_figure("without a tabulator"), InvalidInput);
  CHECK_THROWS_AS(FigureFile("no/such/folder/f.tsv").add("a", 1), InvalidInput);
  CHECK_NOTHROW(FigureFile("").add("a", 1));
}

TEST_CASE("attention is judged by the fastest of ours against the fastest of libraries", "[bench_gpu]") {
  const std::vector<Figure> figures{{"attention/pack/forward/ours, wgmma", 2e-3, ""},
                                    {"attention/pack/forward/ours, mma.sync", 3e-3, ""},
                                    {"attention/pack/forward/cuDNN", 1.5e-3, ""},
                                    {"attention/pack/forward/PyTorch, flash", 1.8e-3, ""},
                                    {"attention/pack/backward/ours, wgmma", 6e-3, ""},
                                    {"attention/pack/backward/PyTorch, flash", 3e-3, ""},
                                    {"attention/pack/backward/cuDNN", NAN, "no plan"},
                                    {"attention/package/backward/cuDNN", 1e-9, ""}};
  CHECK(fastest_attention(figures, "pack", "forward", true).value == 2e-3);
  CHECK(fastest_attention(figures, "pack", "forward", false).name == "cuDNN");
  Verdicts counts;
  const std::string table = verdicts_of(figures, counts);
  INFO(table);
  CHECK(verdict_on(table, "| pack | forward") == "met");      // 0.75 of 0.7
  CHECK(verdict_on(table, "| pack | backward") == "missed");  // 0.5 of 0.6
  CHECK(counts.met == 1);
  CHECK(counts.missed == 1);
}

TEST_CASE("without cuDNN's time, nothing is met by attention", "[bench_gpu]") {
  const std::vector<Figure> slow{{"attention/pack/forward/ours, wgmma", 2e-3, ""},
                                 {"attention/pack/forward/PyTorch, flash", 3e-3, ""},
                                 {"attention/pack/forward/cuDNN", NAN, "no plan"}};
  Verdicts counts;
  CHECK(verdict_on(verdicts_of(slow, counts), "| pack | forward") == "not measured: cuDNN is missing");
  CHECK(counts.met + counts.missed == 0);
  std::vector<Figure> both = slow;
  both.push_back({"attention/pack/forward/cuDNN, as a stage runs it", 1.9e-3, ""});
  CHECK(verdict_on(verdicts_of(both, counts), "| pack | forward") == "met");
}

TEST_CASE("ways to attention have words and names of their own", "[bench_gpu]") {
  for (const AttentionBy by : all_attention) {
    CHECK(attention_by_word(word_of(by)) == by);
    CHECK((std::string(name_of(by)).rfind("ours", 0) == 0) == is_ours(by));
    CHECK((std::string(name_of(by)).rfind("cuDNN", 0) == 0) == !is_ours(by));
  }
  CHECK_FALSE(attention_by_word("flash").has_value());
}

TEST_CASE("a figure is met, missed or not measured, and words say why not", "[bench_gpu]") {
  Verdicts counts;
  const auto all = static_cast<int>(expected_figures().size());
  verdicts_of({}, counts);
  CHECK(counts.not_measured == all + 2);  // the pack's two passes
  const std::vector<Figure> figures{{"sanitizer/memcheck, wgmma", 0, ""},
                                    {"sanitizer/racecheck, operators", NAN, "not supported on this machine"},
                                    {"sanitizer/racecheck, wgmma", 12, ""},
                                    {"check/steps", 1.1e-2, ""},
                                    {"check/operators", INFINITY, ""},
                                    {"check/attention/ours, wgmma", 1e-2, ""},
                                    {"slicing/all", -0.02, ""},
                                    {"stage/slices/prediction", 0.051, ""},
                                    {"stage/slices/of cuBLASLt", 0.6, ""},
                                    {"attention/pack/forward/ours, wgmma", 1e-3, ""},
                                    {"attention/pack/forward/cuDNN", NAN, "it has no plan"}};
  const std::string table = verdicts_of(figures, counts);
  INFO(table);
  CHECK(verdict_on(table, "sanitizer/memcheck, wgmma") == "met");
  CHECK(verdict_on(table, "sanitizer/racecheck, operators") == "not measured");
  CHECK(verdict_on(table, "sanitizer/racecheck, wgmma") == "measured");
  CHECK(table.find("not supported on this machine") != std::string::npos);
  CHECK(table.find("cuDNN: it has no plan") != std::string::npos);
  CHECK(verdict_on(table, "check/steps") == "missed");
  CHECK(verdict_on(table, "check/operators") == "missed");
  CHECK(verdict_on(table, "check/attention/ours, wgmma:") == "met");
  CHECK(verdict_on(table, "slicing/all") == "met");
  CHECK(verdict_on(table, "stage/slices/prediction") == "missed");
  CHECK(verdict_on(table, "stage/slices/of cuBLASLt") == "measured");
  CHECK(verdict_on(table, "| pack | forward") == "not measured");
  CHECK(counts.met + counts.missed + counts.measured + counts.not_measured == all + 2);
}

TEST_CASE("attention's shapes are packs that our work can be cut from, and a line tells their slices",
          "[bench_gpu]") {
  for (const AttentionShape& shape : attention_shapes()) {
    INFO(shape.name);
    const auto work = kernels::cuda::attention_work(shape.slices, static_cast<std::size_t>(shape.tokens()),
                                                    static_cast<std::size_t>(shape.keys));
    double pairs = 0.0;
    for (const auto& s : shape.slices) {
      for (std::int32_t t = 0; t < s.tokens; ++t) pairs += s.prefix + t + 1;
    }
    CHECK(work.slices.size() == shape.slices.size());
    CHECK(shape.pairs() == Approx(pairs));
  }
  CHECK(to_line(attention_shapes()[1]) == "4096 after 32768\t4096:32768");
  CHECK(to_line(pack_of("two", {3, 5})) == "two\t3:0,5:0");
}

TEST_CASE("task times come back from their file", "[bench_gpu]") {
  std::stringstream file;
  file << timed_task_head << '\n';
  write_timed_task(file, {"whole samples", "forward", 3, 4096, 0.0123, 0.013});
  const auto tasks = read_timed_tasks(file);
  REQUIRE(tasks.size() == 1);
  CHECK(tasks[0].plan == "whole samples");
  CHECK(tasks[0].pass == "forward");
  CHECK(tasks[0].pack == 3);
  CHECK(tasks[0].tokens == 4096);
  CHECK(tasks[0].seconds == 0.0123);
  CHECK(tasks[0].predicted == 0.013);
  for (const std::string line : {"slices", "slices,forward", "slices,forward,1,2,3", "slices,forward,1,2,x,4",
                                 "slices,forward,1,2,3,4,5"}) {
    std::istringstream wrong(std::string(timed_task_head) + "\n" + line + "\n");
    CHECK_THROWS_WITH(read_timed_tasks(wrong), Catch::Contains("line 2 of the tasks is '" + line));
  }
  std::istringstream headless("slices,forward,1,2,3,4\n");
  CHECK_THROWS_AS(read_timed_tasks(headless), InvalidInput);
}

TEST_CASE("a page of violins has each plan and pass with its quartiles", "[bench_gpu]") {
  std::mt19937 random(7);
  std::lognormal_distribution<double> spread(0.0, 0.8);
  std::vector<TimedTask> tasks;
  for (const std::string plan : {"whole samples", "slices"}) {
    for (const std::string pass : {"forward", "backward"}) {
      for (long i = 0; i < 40; ++i)
        tasks.push_back(
            {plan, pass, i, 100, plan == "slices" ? 0.05 + 1e-4 * double(i) : 0.05 * spread(random), 0.05});
    }
  }
  std::ostringstream page;
  draw_violins(page, tasks, "made-up times");
  const std::string text = page.str();
  const auto count = [&](const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  CHECK(count("<polygon") == 8);  // in seconds, and by the mean
  CHECK(count("stroke-dasharray") == 24);
  CHECK(count("whole samples, backward") == 3);
  // 50 to 53.9 ms in equal steps
  CHECK(count("<td>40<td>50.000<td>50.975<td>51.950<td>52.925<td>53.900") == 2);
  CHECK(count("nan") == 0);
  CHECK(count("http") == 0);
  CHECK_THROWS_AS(draw_violins(page, {}, "none"), InvalidInput);
  CHECK_THROWS_AS(draw_violins(page, {{"slices", "forward", 0, 1, 0.0, 1.0}}, "no time"), InvalidInput);
}
