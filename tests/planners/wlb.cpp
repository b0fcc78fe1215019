#include "slimpack/planners/wlb.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "documents.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/plan/shards.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/planners/plain_4d.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "tests/plan/naive_run.hpp"

using namespace slimpack;
using oracle::largest_context;

namespace {

using Planner = WlbPlanner;

Planner planner_of(const oracle::Job4d& on, WlbOptions options) {
  return {on.job, on.cost, on.memory, on.attention, std::move(options)};
}

WlbOptions random_options(std::mt19937& random) {
  WlbOptions options{.context = largest_context};
  const std::array<std::vector<Tokens>, 4> thresholds{{{}, {600}, {500, 1000}, {300, 700, 1500}}};
  options.stream.thresholds = thresholds[random() % 4];
  options.stream.max_delay = static_cast<std::int64_t>(random() % 6);
  options.stream.release = random() % 2 == 0 ? OutlierRelease::full_queue : OutlierRelease::balanced;
  options.sharding = std::array{ShardingPolicy::per_sequence, ShardingPolicy::per_document,
                                ShardingPolicy::adaptive, ShardingPolicy::mixed}[random() % 4];
  return options;
}

std::vector<Tokens> lengths_of(const std::vector<Document>& batch) {
  std::vector<Tokens> lengths;
  for (const Document& document : batch) lengths.push_back(document.length);
  return lengths;
}

/// Tokens of a global batch: a context for every micro-batch.
Tokens batch_tokens(const Job& job) { return largest_context * job.layout.pp * job.layout.dp; }

void check_wlb_plan(const Plan& plan, const oracle::Job4d& on) {
  const auto found = violations(plan);
  INFO((found.empty() ? "" : found.front()));
  CHECK(found.empty());
  CHECK(slimpack::testing::naive_seconds(plan) == Approx(plan.step.pipeline_seconds).epsilon(1e-9));
  for (const auto& row : plan.step.peak_bytes) {
    for (const double bytes : row) CHECK(bytes <= on.job.device.memory_bytes);
  }
}

}  // namespace

TEST_CASE("wlb trains every document once, in valid plans that fit, none later than max_delay") {
  std::size_t recomputed = 0, mixed = 0, deferred = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const oracle::Job4d on = oracle::random_job_4d(random);
    const WlbOptions options = random_options(random);
    Planner planner = planner_of(on, options);
    const auto batches = oracle::random_batches(random, 8, batch_tokens(on.job),
                                                std::min(largest_context, planner.options().max_tokens));
    std::map<std::uint64_t, std::int64_t> arrived, trained;
    std::map<std::uint64_t, Tokens> length;
    std::int64_t iteration = 0;
    const auto account = [&](const Plan& plan) {
      check_wlb_plan(plan, on);
      for (const Slice& slice : plan.forward.packs.slices()) {
        const std::uint64_t id = plan.document_ids[slice.sample];
        CHECK(slice.size() == length.at(id));
        CHECK(trained.emplace(id, iteration).second);
        CHECK(iteration - arrived.at(id) <= options.stream.max_delay);
      }
      CHECK(trained.size() + plan.deferred.size() == arrived.size());
      deferred += plan.deferred.size();
      for (const std::int32_t layers : plan.backward.recompute_layers.values()) recomputed += layers > 0;
      for (const Sharding kind : plan.forward.sharding) mixed += kind == Sharding::mixed;
      ++iteration;
    };
    for (const auto& batch : batches) {
      for (const Document& document : batch) {
        arrived[document.id] = iteration;
        length[document.id] = document.length;
      }
      const Plan plan = planner.push(batch);
      for (std::size_t i = 0; i < batch.size(); ++i) CHECK(plan.document_ids[i] == batch[i].id);
      account(plan);
    }
    while (!planner.empty()) account(planner.drain());
    CHECK(trained.size() == arrived.size());
    CHECK(planner.statistics().max_delay() <= options.stream.max_delay);
    CHECK_THROWS_WITH(planner.drain(), Catch::Contains("nothing waits"));
  }
  CHECK(recomputed > 0);
  CHECK(mixed > 0);
  CHECK(deferred > 0);
}

TEST_CASE("restored after a kill, wlb makes the plans of an undisturbed run") {
  for (unsigned seed = 100; seed < 130; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const oracle::Job4d on = oracle::random_job_4d(random);
    const WlbOptions options = random_options(random);
    Planner undisturbed = planner_of(on, options);
    const auto batches = oracle::random_batches(random, 6, batch_tokens(on.job),
                                                std::min(largest_context, undisturbed.options().max_tokens));
    const std::size_t kill = random() % (batches.size() + 1);
    Planner first = planner_of(on, options);
    std::string saved = first.save();
    for (std::size_t i = 0; i < kill; ++i) {
      static_cast<void>(first.push(batches[i]));
      static_cast<void>(undisturbed.push(batches[i]));
      saved = first.save();
    }
    Planner restored = planner_of(on, options);
    restored.restore(saved);
    for (std::size_t i = kill; i < batches.size(); ++i) {
      const std::string plan = to_json(undisturbed.push(batches[i]));
      CHECK(to_json(restored.push(batches[i])) == plan);
      const std::string after = restored.save();
      CHECK(to_json(restored.push(static_cast<std::int64_t>(i), batches[i])) == plan);
      CHECK(restored.save() == after);
    }
    while (!undisturbed.empty()) CHECK(to_json(restored.drain()) == to_json(undisturbed.drain()));
    CHECK(restored.empty());
  }
}

TEST_CASE("what wlb refuses leaves its state as it was") {
  std::mt19937 random(7);
  Job job = oracle::random_job(random, 2, 1e10);
  job.model.layers = 4;
  job.layout = {.dp = 2, .tp = 1, .cp = 4, .pp = 2};
  const oracle::Job4d on(job);
  WlbOptions options{.context = largest_context};
  options.stream.thresholds = {500};
  Planner planner = planner_of(on, options);
  static_cast<void>(planner.push(std::vector<Document>{{1, 900}, {2, 100}, {3, 30}}));
  const std::string before = planner.save();
  const auto refuses = [&](const std::vector<Document>& batch, const char* text) {
    CHECK_THROWS_WITH(planner.push(batch), Catch::Contains(text));
    CHECK(planner.save() == before);
  };
  refuses({}, "the batch has no documents");
  refuses({{7, 3}}, "cp is 4; expected at most the 3 tokens of the batch");
  refuses({{7, 3}, {8, 0}}, "cp is 4");
  refuses({{7, 300}, {8, 0}}, "document 8 (number 1 of the batch) has 0 tokens");
  refuses({{1, 300}}, "document 1 is in the batch and waits since iteration 0");
  refuses({{7, planner.options().max_tokens + 1}}, "that a micro-batch can hold");
  Planner other = planner_of(on, {.context = largest_context});
  CHECK_THROWS_WITH(other.restore(before), Catch::Contains("the state was saved with"));
  CHECK_THROWS_WITH(planner.restore(before.substr(0, before.size() - 8)), Catch::Contains("expected"));
  CHECK(planner.save() == before);
  options.stream.thresholds = {500, 400};
  CHECK_THROWS_WITH(planner_of(on, options), Catch::Contains("threshold 1 is 400 tokens"));
  CHECK_THROWS_WITH(planner_of(on, {.context = largest_context, .headroom = 0.5}),
                    Catch::Contains("headroom is 0.5"));
}

TEST_CASE("on heavy tails wlb takes no longer than plain-4d, and its micro-batches are balanced") {
  for (unsigned seed = 200; seed < 215; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Job job = oracle::random_job_4d(random).job;
    job.model.layers = 8;
    job.layout.pp = 4;
    job.device.memory_bytes = 1e10;
    const oracle::Job4d on(job);
    WlbOptions options{.context = largest_context};
    options.stream.thresholds = {400, 1000};
    Planner planner = planner_of(on, options);
    const auto batches = oracle::random_batches(random, 40, batch_tokens(on.job),
                                                std::min(largest_context, planner.options().max_tokens));
    double wlb = 0.0, plain = 0.0;
    for (const auto& batch : batches) {
      const Plan theirs = plan_plain_4d(lengths_of(batch), on.job, on.cost, on.memory, on.attention,
                                        {.context = largest_context});
      CHECK(violations(theirs).empty());
      plain += theirs.step.seconds;
      wlb += planner.push(batch).step.seconds;
    }
    while (!planner.empty()) wlb += planner.drain().step.seconds;  // all that plain-4d has trained
    CHECK(wlb <= plain);
    CHECK(planner.statistics().total_imbalance() <= 1.1);
  }
}

TEST_CASE("the largest micro-batch fills memory, and one more token is too many") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const oracle::Job4d on = oracle::random_job_4d(random);
    const MicroBatchPlanner planner(on.job, on.cost, on.memory, on.attention);
    const std::vector<std::int32_t> held = split_layers(on.job.model.layers, on.job.layout.pp);
    const std::size_t stages = held.size();
    GroupPrices prices{Prices(on.cost)};
    // As many micro-batches as stages fill the pipeline; each is one document.
    const auto fits = [&](Tokens tokens, std::int32_t recompute) {
      const std::vector<Tokens> lengths(stages, tokens);
      Packs packs;
      for (SampleId id = 0; id < stages; ++id) packs.add_row(1, {id, 0, tokens});
      std::vector<std::int32_t> layers;
      for (const std::int32_t own : held) layers.push_back(std::min(own, recompute));
      Schedule schedule;
      schedule.pipelines = 1;
      schedule.forward = schedule.backward = in_rows(packs);
      Scheduler(lengths, prices, planner.memory())(schedule, Recompute(layers),
                                                   {.fit = FitPolicy::recompute});
      return schedule.fits();
    };
    const std::int32_t all = *std::max_element(held.begin(), held.end());
    for (const double headroom : {1.0, 2.0, 1e9}) {
      const Tokens most = largest_micro_batch(planner.memory(), largest_context, headroom);
      std::int32_t least = 0;
      while (least <= all && !fits(most, least)) ++least;
      REQUIRE(least <= all);
      CHECK(!fits(most + 1, least));
      const auto wanted = static_cast<Tokens>(headroom * largest_context);
      for (std::int32_t r = 0; r < (most < wanted ? all + 1 : least); ++r) CHECK(!fits(wanted, r));
    }
  }
}

TEST_CASE("the default of micro-batches is the tokens in contexts, for all stages of all replicas") {
  const Layout layout{.dp = 3, .pp = 4};
  CHECK(default_micro_batches(1.0, 100, layout) == 12);
  CHECK(default_micro_batches(1200.0, 100, layout) == 12);
  CHECK(default_micro_batches(1201.0, 100, layout) == 15);
  CHECK_THROWS_WITH(default_micro_batches(1.0, 0, layout), Catch::Contains("context is 0"));
}

TEST_CASE("ranks of wlb's packs share every token") {
  std::mt19937 random(3);
  oracle::Job4d on = oracle::random_job_4d(random);
  on.job.layout.cp = 3;
  on = oracle::Job4d(on.job);
  Planner planner = planner_of(on, {.context = largest_context});
  const Plan plan = planner.push(oracle::random_batches(random, 1, batch_tokens(on.job), 1000)[0]);
  for (PackId k = 0; k < plan.forward.packs.size(); ++k) {
    if (plan.forward.packs[k].empty()) continue;
    const ContextShards shards = pack_shards(plan, {Pass::forward, k});
    const ShardBalance balanced = balance(shards);
    CHECK(shards.tokens == count_tokens(plan.forward.packs[k]));
    CHECK(balanced.most_tokens - balanced.fewest_tokens <= 1);
    // The pack's duration is that of the slowest rank's attention, and the rest.
    AttentionSeconds slowest;
    for (std::size_t r = 0; r < 3; ++r) {
      const AttentionSeconds own = attention_seconds(on.attention, shards.ranks[r]);
      slowest.forward = std::max(slowest.forward, own.forward);
      slowest.backward = std::max(slowest.backward, own.backward);
    }
    for (std::size_t s = 0; s < static_cast<std::size_t>(on.job.layout.pp); ++s) {
      double seconds = on.cost.pack_seconds(s, Pass::forward) + on.cost.layers()[s] * slowest.forward;
      for (const Slice& slice : plan.forward.packs[k]) {
        seconds += on.cost.slice_seconds(s, slice.begin, slice.end, Pass::forward) -
                   on.cost.coefficients(s, Pass::forward).per_twice_pair *
                       twice_causal_pairs(slice.begin, slice.end);
      }
      CHECK(plan.forward.seconds[k][s] == Approx(seconds).epsilon(1e-9));
    }
  }
}
