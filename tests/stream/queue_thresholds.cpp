#include "slimpack/stream/queue_thresholds.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/stream/corpus.hpp"

using namespace slimpack;
using test::work_of;

namespace {

struct Sample {
  std::vector<Tokens> lengths;
  std::vector<std::size_t> batches{0};
};

Sample sample_of(unsigned seed, std::size_t count) {
  Sample sample;
  for (const auto& batch : test::random_batches(seed, count, 524288, 125000)) {
    for (const Document& document : batch) sample.lengths.push_back(document.length);
    sample.batches.push_back(sample.lengths.size());
  }
  return sample;
}

const OutlierDelayOptions layout{.micro_batches = 4, .max_tokens = 262144};

/// Imbalance and delay from running the stream; the delay includes the documents that wait at the end.
QueueTrial run(const Sample& sample, const OutlierDelayOptions& options) {
  OutlierDelayStream<double (*)(Tokens)> stream(options, work_of);
  for (std::size_t b = 0; b + 1 < sample.batches.size(); ++b) {
    std::vector<Document> batch;
    for (std::size_t i = sample.batches[b]; i < sample.batches[b + 1]; ++i)
      batch.push_back({i, sample.lengths[i]});
    static_cast<void>(stream.push(batch));
  }
  QueueTrial trial{options.thresholds, options.target_imbalance, stream.statistics().mean_imbalance()};
  static_cast<void>(stream.flush());
  trial.token_delay = stream.statistics().mean_token_delay();
  return trial;
}

}  // namespace

TEST_CASE("tuned queues are the best of all that were tried, and give what is promised") {
  for (const auto release : {OutlierRelease::full_queue, OutlierRelease::balanced}) {
    for (unsigned seed = 0; seed < 2; ++seed) {
      for (const double budget : {0.15, 0.5}) {
        INFO("seed " << seed << ", budget " << budget << ", release " << static_cast<int>(release));
        const Sample sample = sample_of(seed, 40);
        OutlierDelayOptions options = layout;
        options.release = release;
        const QueueTuning tuned = tune_queues(sample.lengths, sample.batches, options, work_of,
                                              {.delay_budget = budget, .max_queues = 2, .candidates = 8});
        const QueueTrial again = run(sample, tuned.options);
        CHECK(again.imbalance == tuned.best.imbalance);
        CHECK(again.token_delay == tuned.best.token_delay);
        CHECK(again.thresholds == tuned.best.thresholds);
        CHECK(tuned.within_budget);
        CHECK(tuned.best.token_delay <= budget);
        CHECK(tuned.trials.size() >= 9);
        CHECK(tuned.trials.front().thresholds.empty());
        for (const QueueTrial& trial : tuned.trials) {
          CHECK((trial.imbalance >= tuned.best.imbalance || trial.token_delay > budget));
          CHECK(trial.thresholds.size() <= 2);
        }
      }
    }
  }
}

TEST_CASE("tuned queues balance other data of the same kind") {
  const Sample sample = sample_of(1, 150), other = sample_of(2, 150);
  const QueueTuning tuned = tune_queues(sample.lengths, sample.batches, layout, work_of);
  const QueueTrial none = run(other, layout), queued = run(other, tuned.options);
  INFO("without " << none.imbalance << ", tuned " << queued.imbalance << " at " << queued.token_delay);
  CHECK(queued.imbalance < 1.05);
  CHECK(queued.token_delay < 0.6);
  CHECK(none.imbalance - 1.0 > 4.0 * (queued.imbalance - 1.0));
}

TEST_CASE("without a budget, or without queues, nothing waits") {
  const Sample sample = sample_of(3, 30);
  const auto strict = tune_queues(sample.lengths, sample.batches, layout, work_of, {.delay_budget = 0.0});
  CHECK(strict.options.thresholds.empty());
  CHECK(strict.best.token_delay == 0.0);
  CHECK(tune_queues(sample.lengths, sample.batches, layout, work_of, {.max_queues = 0}).trials.size() == 1);
}

TEST_CASE("tuning refuses samples and options that make no sense") {
  const Sample sample = sample_of(0, 4);
  const auto refused = [&](const std::vector<std::size_t>& batches, const QueueTuningOptions& tuning,
                           const std::string& what) {
    CHECK_THROWS_WITH(tune_queues(sample.lengths, batches, layout, work_of, tuning), Catch::Contains(what));
  };
  const std::size_t end = sample.lengths.size();
  refused({0}, {}, "do not cover");
  refused({0, end - 1}, {}, "do not cover");
  refused({0, 5, 5, end}, {}, "batch 1 begins at document 5 and ends at 5");
  refused({0, end / 2, end}, {.delay_budget = -1.0}, "delay_budget is -1");
  refused({0, end / 2, end}, {.candidates = 0}, "candidates is 0");
  CHECK_THROWS_WITH(tune_queues(sample.lengths, sample.batches, {.micro_batches = 4}, work_of),
                    Catch::Contains("max_tokens is 0"));
}
