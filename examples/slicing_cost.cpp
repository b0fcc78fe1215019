// Prints the tables of docs/slicing-cost.md: what slices cost more than whole samples, and what planners make of it.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace {

using namespace slimpack;

/// A calibrated model that does not charge slices for their prefix.
class FreeSlices {
 public:
  explicit FreeSlices(CalibratedCost cost) : cost_(std::move(cost)) {}

  [[nodiscard]] std::size_t stages() const { return cost_.stages(); }
  [[nodiscard]] double slice_seconds(std::size_t stage, Tokens begin, Tokens end, Pass pass) const {
    return free(cost_.coefficients(stage, pass)).seconds(begin, end);
  }
  [[nodiscard]] double recompute_seconds(std::size_t stage, Tokens begin, Tokens end) const {
    return free(cost_.recompute_coefficients(stage)).seconds(begin, end);
  }
  [[nodiscard]] double pack_seconds(std::size_t stage, Pass pass) const {
    return cost_.pack_seconds(stage, pass);
  }
  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass pass) const {
    return cost_.transfer_seconds(stage, tokens, pass);
  }
  [[nodiscard]] double sync_seconds() const { return cost_.sync_seconds(); }

 private:
  /// Whole samples cost the same: what a key costs is what a token costs less.
  static SliceCoefficients free(SliceCoefficients c) {
    c.per_token += c.per_key;
    c.per_key = 0.0;
    return c;
  }
  CalibratedCost cost_;
};

/// Seconds of a sample in slices of `slice` tokens, over those of the whole, less one.
double more(const CalibratedCost& cost, Tokens sample, Tokens slice, Pass pass) {
  double parts = 0.0;
  for (Tokens begin = 0; begin < sample; begin += slice)
    parts += cost.slice_seconds(0, begin, std::min(sample, begin + slice), pass);
  return parts / cost.slice_seconds(0, 0, sample, pass) - 1.0;
}

void print_slices() {
  std::printf("| model | device | sample | slices of 1024 | 2048 | 4096 | 8192 |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const char* model : {"llama-7b", "llama-13b", "llama-70b"}) {
    for (const char* device : {"h100", "a800"}) {
      const CalibratedCost cost(Job{transformer_preset(model), device_preset(device), {.tp = 8}});
      for (const Tokens sample : {Tokens{32} << 10, Tokens{128} << 10, Tokens{256} << 10}) {
        std::printf("| %s | %s | %dK |", model, device, static_cast<int>(sample >> 10));
        for (const Tokens slice : {1024, 2048, 4096, 8192}) {
          std::printf(" %.1f / %.1f %% |", 100.0 * more(cost, sample, slice, Pass::forward),
                      100.0 * more(cost, sample, slice, Pass::backward));
        }
        std::printf("\n");
      }
    }
  }
}

/// A plan's pipelines under other prices: nothing else changes.
double seconds_of(Plan plan, const CalibratedCost& cost) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    PassPlan& packs = pass == Pass::forward ? plan.forward : plan.backward;
    Ragged<double> seconds;
    for (PackId k = 0; k < packs.packs.size(); ++k) {
      const std::span<double> row = seconds.add_row(cost.stages());
      for (std::size_t s = 0; s < row.size(); ++s) {
        row[s] = cost.pack_seconds(s, pass);
        const double recompute_layers =
            packs.recompute_layers.size() > 0 ? packs.recompute_layers[k][s] : 0.0;
        for (const Slice& slice : packs.packs[k]) {
          row[s] += cost.slice_seconds(s, slice.begin, slice.end, pass) +
                    recompute_layers * cost.recompute_seconds(s, slice.begin, slice.end);
        }
      }
    }
    packs.seconds = std::move(seconds);
  }
  return time_plan(plan).seconds;
}

/// The first lengths of a file, cut at the context.
std::vector<Tokens> read_lengths(const char* path, std::size_t count, Tokens context) {
  std::ifstream file(path);
  std::vector<Tokens> lengths;
  for (Tokens length = 0; lengths.size() < count && file >> length;)
    lengths.push_back(std::min(length, context));
  return lengths;
}

void print_plans(const char* path) {
  const std::size_t count = 512;
  const Tokens context = Tokens{128} << 10;
  const std::vector<Tokens> lengths = read_lengths(path, count, context);
  require(lengths.size() == count, path, " has ", lengths.size(), " lengths; expected at least ", count);
  std::printf(
      "\n| model | pp | packs, prefixes free | step | packs, prefixes priced | step | shorter by |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const char* model : {"llama-7b", "llama-13b", "llama-70b"}) {
    for (const std::int32_t pp : {4, 8}) {
      const Job job{transformer_preset(model), device_preset("h100"), {.dp = 4, .tp = 8, .pp = pp}};
      const CalibratedCost cost(job);
      const TransformerMemory memory(job);
      const Plan before = plan_slimpack(lengths, job, FreeSlices(cost), memory, {.merge = false});
      const Plan now = plan_slimpack(lengths, job, cost, memory, {.merge = false});
      const double was = seconds_of(before, cost), is = seconds_of(now, cost);
      std::printf("| %s | %d | %zu | %.3f s | %zu | %.3f s | %.1f %% |\n", model, pp,
                  before.forward.packs.size(), was, now.forward.packs.size(), is, 100.0 * (1.0 - is / was));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: slicing_cost LENGTHS, for example examples/data/github.train.txt\n");
    return 2;
  }
  print_slices();
  print_plans(argv[1]);
}
