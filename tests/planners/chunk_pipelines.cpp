#include "slimpack/planners/chunk_pipelines.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "note_of.hpp"
#include "rules.hpp"
#include "short_memory_case.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/json.hpp"
#include "tests/effort.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;
using oracle::short_memory_case;
using oracle::ShortMemoryCase;

namespace {

struct System {
  const char* name;
  ChunkPlanOptions options;
};

std::vector<System> systems() {
  std::vector<System> all{{"infinipipe", infinipipe_options()},
                          {"seq1f1b", seq1f1b_options()},
                          {"terapipe", terapipe_options()},
                          {"chunkflow", chunkflow_options()}};
  all.push_back({"w/o wbc", infinipipe_options()});
  all.back().options.chunking = {Chunking::even};
  all.push_back({"w/o ckpt", infinipipe_options()});
  all.back().options.schedule.recompute = ChunkRecompute::none;
  all.push_back({"full ckpt", infinipipe_options()});
  all.back().options.schedule.recompute = ChunkRecompute::full;
  all.push_back({"lone", infinipipe_options()});
  all.back().options.chunking = {Chunking::lone};
  return all;
}

Plan plan_case(const ShortMemoryCase& c, const System& system) {
  return plan_chunks(system.name, c.lengths, c.job, CalibratedCost(c.job), TransformerMemory(c.job, c.memory),
                     NoAttentionModel{}, system.options);
}

/// Seconds, infinite where nothing fits.
double seconds_of(const ShortMemoryCase& c, const System& system) {
  try {
    return plan_case(c, system).step.seconds;
  } catch (const InvalidInput&) {
    return std::numeric_limits<double>::infinity();
  }
}

/// Packs of one stage that recompute unlike numbers of layers.
bool recomputes_unlike(const Plan& plan) {
  for (std::size_t k = 1; k < plan.backward.packs.size(); ++k) {
    if (!std::ranges::equal(plan.backward.recompute_layers[k], plan.backward.recompute_layers[0]) &&
        std::ranges::equal(plan.backward.pipelines[k], plan.backward.pipelines[0]))
      return true;
  }
  return false;
}

}  // namespace

TEST_CASE("pipelines of chunks keep all rules, take the time and the memory that they state") {
  int planned = 0, unlike = 0, grouped = 0;
  for (unsigned seed = 1; seed <= slimpack::testing::seeds(40, 12); ++seed) {
    const ShortMemoryCase c = short_memory_case(seed);
    const TransformerMemory memory(c.job, c.memory);
    for (System system : systems()) {
      INFO("seed " << seed << " " << system.name);
      system.options.tile = c.options.tile;
      Plan plan;
      try {
        plan = plan_case(c, system);
      } catch (const InvalidInput& error) {
        CHECK_THAT(error.what(), Catch::Contains("do not fit into"));
        continue;
      }
      ++planned;
      CHECK(oracle::broken_rule(plan).empty());
      oracle::check_plan(plan, memory);
      CHECK(to_json(plan) == to_json(plan_case(c, system)));
      unlike += recomputes_unlike(plan) ? 1 : 0;
      grouped += slimpack::testing::has_note(plan, "one after another") ? 1 : 0;
    }
  }
  CHECK(planned > static_cast<int>(slimpack::testing::seeds(180, 40)));
  CHECK(unlike > static_cast<int>(slimpack::testing::seeds(6, 0)));
  CAPTURE(grouped);
}

TEST_CASE("with a given number of slices, freedom to recompute never makes chunks slower") {
  int faster = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    ShortMemoryCase c = short_memory_case(seed);
    c.job.layout.dp = 1;
    System system{"infinipipe", infinipipe_options()};
    const Tokens longest = *std::max_element(c.lengths.begin(), c.lengths.end());
    system.options.slices = static_cast<std::size_t>(std::min<Tokens>(longest, 1 + seed % 7));
    const double adaptive = seconds_of(c, system);
    for (const ChunkRecompute recompute :
         {ChunkRecompute::per_stage, ChunkRecompute::none, ChunkRecompute::full}) {
      INFO("seed " << seed << " against " << static_cast<int>(recompute));
      System other = system;
      other.options.schedule.recompute = recompute;
      const double seconds = seconds_of(c, other);
      CHECK(adaptive <= seconds * (1.0 + 1e-12));
      faster += adaptive < 0.999 * seconds ? 1 : 0;
    }
    System one = system;
    one.options.schedule.groups = false;
    CHECK(adaptive <= seconds_of(c, one) * (1.0 + 1e-12));
  }
  CHECK(faster > 20);
}

TEST_CASE("chunks of equal time never make a pipeline slower than those of equal tokens alone") {
  int shorter = 0, equal = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    ShortMemoryCase c = short_memory_case(seed);
    c.job.layout.dp = 1;
    if (seed % 2 == 0) c.job.device.memory_bytes = 1e12;
    System all{"infinipipe", infinipipe_options()};
    all.options.schedule.groups = false;
    const Tokens longest = *std::max_element(c.lengths.begin(), c.lengths.end());
    all.options.slices = static_cast<std::size_t>(std::min<Tokens>(longest, 1 + seed % 9));
    System even = all;
    even.options.chunking = {Chunking::even};
    const double seconds = seconds_of(c, all), tokens = seconds_of(c, even);
    if (tokens == std::numeric_limits<double>::infinity()) continue;
    CHECK(seconds <= tokens * (1.0 + (seed % 2 == 0 ? 1e-12 : 1e-3)));
    shorter += seconds < 0.99 * tokens ? 1 : 0;
    equal += seconds == tokens ? 1 : 0;
  }
  CHECK(shorter > 20);
  CHECK(equal > 5);
}

TEST_CASE("batches at the edges are planned as chunks") {
  Job job;
  job.model = transformer_preset("tiny");
  job.device = device_preset("h100");
  job.layout.pp = 2;
  const std::vector<std::vector<Tokens>> batches{
      {1}, {5000}, std::vector<Tokens>(64, 512), {90000, 10, 20, 30}, {1, 1, 1, 100000}};
  for (const auto& lengths : batches) {
    for (const System& system : systems()) {
      INFO(system.name << " " << lengths.size() << " samples, the first of " << lengths[0]);
      const Plan plan = plan_chunks(system.name, lengths, job, system.options);
      CHECK(violations(plan).empty());
      CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
    }
  }
}

TEST_CASE("a plan of chunks says which kind of pipeline it is, and what not to cut would cost") {
  Job job;
  job.model = transformer_preset("tiny");
  job.device = device_preset("h100");
  job.layout.pp = 4;
  const auto note = [&](const std::vector<Tokens>& lengths, std::size_t slices) {
    ChunkPlanOptions options = infinipipe_options();
    options.slices = slices;
    return plan_chunks("infinipipe", lengths, job, options).notes.back();
  };
  std::vector<Tokens> mixed(40, 3000);
  mixed.push_back(90000);
  CHECK_THAT(note(std::vector<Tokens>(64, 512), 1), Catch::Contains("a batch-level pipeline of"));
  CHECK_THAT(note({90000}, 6), Catch::Contains("a token-level pipeline of 6 chunks"));
  CHECK_THAT(note(mixed, 8),
             Catch::Contains("a hybrid pipeline of") && Catch::Contains("the longest sample in 8 slices"));
  CHECK_THAT(note(mixed, 0), Catch::Contains("without cutting, it takes ") && Catch::Contains(" % longer"));
}

TEST_CASE("what cannot be planned as chunks is refused with what would do") {
  Job job;
  job.model = transformer_preset("tiny");
  job.device = device_preset("h100");
  const std::vector<Tokens> lengths{1000, 2000};
  ChunkPlanOptions options = infinipipe_options();
  options.tile = 128;
  options.slices = 17;
  CHECK_THROWS_WITH(plan_chunks("infinipipe", lengths, job, options),
                    Catch::Contains("17 slices; expected 1 to 16, its tiles of 128 tokens"));
  options.slices = 0;
  options.tile = 0;
  CHECK_THROWS_WITH(plan_chunks("infinipipe", lengths, job, options), Catch::Contains("tile is 0"));
  options.tile = 1;
  job.device.memory_bytes = 6.4e9;
  const std::vector<Tokens> much(40, 200000);
  CHECK_THROWS_WITH(plan_chunks("infinipipe", much, job, options),
                    Catch::Contains("stage 0 needs ") && Catch::Contains("GB more than there are"));
}

TEST_CASE("what a refusal says that memory lacks is enough, with all layers recomputed and with none") {
  Job job;
  job.model = transformer_preset("llama-7b");
  job.device = device_preset("a800");
  job.layout.pp = 4;
  std::vector<Tokens> lengths(20, 6000);
  lengths.push_back(60000);
  for (const ChunkRecompute recompute : {ChunkRecompute::adaptive, ChunkRecompute::none}) {
    ChunkPlanOptions options = infinipipe_options();
    options.schedule.recompute = recompute;
    job.device.memory_bytes = 40e9;
    std::string message;
    try {
      (void)plan_chunks("infinipipe", lengths, job, options);
    } catch (const InvalidInput& error) {
      message = error.what();
    }
    INFO(message);
    CHECK_THAT(message, Catch::Contains(recompute == ChunkRecompute::none ? "with nothing recomputed"
                                                                          : "with all layers recomputed"));
    const std::size_t at = message.find(" needs ");
    REQUIRE(at != std::string::npos);
    job.device.memory_bytes = std::stod(message.substr(at + 7)) * 1e9 * 1.00001;  // six digits
    CHECK(violations(plan_chunks("infinipipe", lengths, job, options)).empty());
  }
}
