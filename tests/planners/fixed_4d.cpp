#include "slimpack/planners/fixed_4d.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "documents.hpp"
#include "rules.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/plain_4d.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;
using oracle::largest_context;

namespace {

struct Corpus {
  std::vector<Tokens> lengths;
  std::vector<std::size_t> batches{0};
};

Corpus random_corpus(std::mt19937& random, const Job& job, std::size_t batches) {
  Corpus corpus;
  for (const auto& batch : oracle::random_batches(
           random, batches, largest_context * job.layout.pp * job.layout.dp, largest_context)) {
    for (const Document& document : batch) corpus.lengths.push_back(document.length);
    corpus.batches.push_back(corpus.lengths.size());
  }
  return corpus;
}

void check_sequences(const Plan& plan, const oracle::Job4d& on, Tokens sequence = largest_context) {
  CHECK(violations(plan).empty());
  CHECK(oracle::broken_rule(plan) == "");
  CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
  for (const Slice& slice : plan.forward.packs.slices()) CHECK(slice.size() == plan.tokens[slice.sample]);
  for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
    // A micro-batch of fewer tokens than ranks may have joined another.
    CHECK(count_tokens(plan.forward.packs[k]) < sequence + on.job.layout.cp);
  }
  for (const auto& row : plan.step.peak_bytes) {
    for (const double bytes : row) CHECK(bytes <= on.job.device.memory_bytes);
  }
}

}  // namespace

TEST_CASE("plain-4d keeps the documents' order, in sequences dealt in turn, sharded as sequences") {
  int planned = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const oracle::Job4d on = oracle::random_job_4d(random);
    const Corpus corpus = random_corpus(random, on.job, 1);
    Plan plan;
    try {
      plan = plan_plain_4d(corpus.lengths, on.job, on.cost, on.memory, on.attention,
                           {.context = largest_context});
    } catch (const InvalidInput& error) {
      CHECK_THAT(error.what(), Catch::Contains("do not fit into"));
      continue;
    }
    ++planned;
    check_sequences(plan, on);
    std::vector<SampleId> next(plan.pipelines.size(), 0);
    for (std::size_t k = 0; k < plan.forward.packs.size(); ++k) {
      const PipelineId p = plan.forward.pipelines[k][0];
      for (const Slice& slice : plan.forward.packs[k]) {
        CHECK(slice.sample >= next[p]);
        next[p] = slice.sample + 1;
      }
      CHECK(plan.forward.sharding[k] == (on.job.layout.cp == 1 ? Sharding::none : Sharding::per_sequence));
    }
  }
  CHECK(planned > 20);
}

TEST_CASE("fixed-4d trains a window's documents once, in as many iterations, with the better sharding") {
  int planned = 0, per_document = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    oracle::Job4d on = oracle::random_job_4d(random);
    Corpus corpus = random_corpus(random, on.job, 4);
    Tokens sequence = largest_context;
    if (seed % 4 == 0) {  // so long that the kernel's tiles don't matter
      sequence *= 16;
      for (Tokens& length : corpus.lengths) length *= 16;
      on.job.device.memory_bytes = 1e11;
      on = oracle::Job4d(on.job);
    }
    const Fixed4dOptions options{.context = sequence, .window = 1 + random() % 4};
    const auto with = [&](ShardingPolicy sharding) {
      return plan_fixed_4d_sharded(corpus.lengths, corpus.batches, on.job, on.cost, on.memory, on.attention,
                                   sharding, options);
    };
    Fixed4dPlans best;
    try {
      best = plan_fixed_4d(corpus.lengths, corpus.batches, on.job, on.cost, on.memory, on.attention, options);
    } catch (const InvalidInput& error) {
      CHECK_THAT(error.what(), Catch::Contains("do not fit into"));
      continue;
    }
    ++planned;
    REQUIRE(best.plans.size() == 4);
    std::vector<int> seen(corpus.lengths.size(), 0);
    double seconds = 0.0;
    for (std::size_t b = 0; b < 4; ++b) {
      const Plan& plan = best.plans[b];
      check_sequences(plan, on, sequence);
      CHECK(plan.deferred.empty());
      seconds += plan.step.seconds;
      const std::size_t first = b / options.window * options.window;
      const std::size_t behind = std::min<std::size_t>(first + options.window, 4);
      for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
        const auto id = static_cast<std::size_t>(plan.document_ids[i]);
        CHECK(plan.tokens[i] == corpus.lengths[id]);
        CHECK((corpus.batches[first] <= id && id < corpus.batches[behind]));
        ++seen[id];
      }
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
    if (options.window == 1) CHECK(best.mean_token_delay == 0.0);
    double least = 1e300;
    for (const auto sharding : {ShardingPolicy::per_sequence, ShardingPolicy::per_document}) {
      double sum = 0.0;
      for (const Plan& plan : with(sharding).plans) sum += plan.step.seconds;
      least = std::min(least, sum);
    }
    CHECK(seconds == Approx(least).epsilon(1e-12));
    per_document += best.sharding == ShardingPolicy::per_document;
  }
  CHECK(planned > 20);
  CHECK(per_document > 0);
}

TEST_CASE("fixed-length planners refuse what they can't pack") {
  std::mt19937 random(1);
  Job job = oracle::random_job(random, 2, 1e10);
  job.model.layers = 4;
  job.layout = {.dp = 2, .tp = 1, .cp = 8, .pp = 2};
  const oracle::Job4d on(job);
  const auto plain = [&](std::vector<Tokens> lengths) {
    return plan_plain_4d(lengths, on.job, on.cost, on.memory, on.attention, {.context = 100});
  };
  CHECK_THROWS_WITH(plain({}), Catch::Contains("the batch has no samples"));
  CHECK_THROWS_WITH(plain({5, 101}),
                    Catch::Contains("document 1 has 101 tokens; expected at most the context"));
  CHECK_THROWS_WITH(plain({5, 0}), Catch::Contains("sample 1 has 0 tokens"));
  CHECK_THROWS_WITH(plain({5, 2}),
                    Catch::Contains("cp is 8; expected at most the 7 tokens of the iteration"));
  const auto fixed = [&](std::vector<Tokens> lengths, std::vector<std::size_t> batches,
                         Fixed4dOptions options) {
    return plan_fixed_4d(lengths, batches, on.job, on.cost, on.memory, on.attention, options);
  };
  CHECK_THROWS_WITH(fixed({50, 60}, {0, 1}, {}), Catch::Contains("do not divide the 2 documents"));
  CHECK_THROWS_WITH(fixed({50, 60}, {0, 1, 1, 2}, {}), Catch::Contains("do not divide the 2 documents"));
  CHECK_THROWS_WITH(fixed({50, 60}, {0, 2}, {.window = 0}), Catch::Contains("window is 0"));
  CHECK_THROWS_WITH(fixed({50, 60}, {0, 2}, {.context = 60, .micro_batches = 1}),
                    Catch::Contains("fills 2 sequences of 60 tokens; expected at most the 1 micro-batches"));
}

TEST_CASE("micro-batches with fewer tokens than ranks join the one with the fewest tokens of the others") {
  std::mt19937 random(1);
  Job job = oracle::random_job(random, 1, 1e10);
  job.model.layers = 2;
  job.layout = {.dp = 1, .tp = 1, .cp = 4, .pp = 2};
  const oracle::Job4d on(job);
  const Plan plan = plan_plain_4d(std::vector<Tokens>{90, 80, 99, 3}, on.job, on.cost, on.memory,
                                  on.attention, {.context = 100});
  REQUIRE(plan.forward.packs.size() == 3);
  CHECK(count_tokens(plan.forward.packs[1]) == 83);
  CHECK(violations(plan).empty());
}
