#include "slimpack/stream/outlier_delay.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <set>

#include "tests/stream/corpus.hpp"

using namespace slimpack;
using test::work_of;

namespace {

using Stream = OutlierDelayStream<double (*)(Tokens)>;

/// Options of many kinds, by seed; batches of up to `tokens` always fit.
OutlierDelayOptions random_options(unsigned seed) {
  OutlierDelayOptions options{.micro_batches = 1 + seed % 5, .max_tokens = 60000 + 1000 * (seed % 7)};
  options.thresholds = {};
  if (seed % 3 >= 1) options.thresholds.push_back(15000);
  if (seed % 3 == 2) options.thresholds.push_back(30000);
  options.max_delay = seed % 11;
  options.release = seed % 2 == 0 ? OutlierRelease::full_queue : OutlierRelease::balanced;
  options.target_imbalance = 1.0 + 0.02 * (seed % 4);
  options.refine = seed % 4 < 2;
  return options;
}

Tokens certain_tokens(const OutlierDelayOptions& options) {
  return (static_cast<Tokens>(options.micro_batches) + 1) * options.max_tokens / 2;
}

/// Checks an iteration against its own documents.
void check_iteration(const PackedIteration& packed, const OutlierDelayOptions& options) {
  REQUIRE(packed.micro_batches() == options.micro_batches);
  REQUIRE(packed.offsets.back() == packed.documents.size());
  for (std::size_t m = 0; m < packed.micro_batches(); ++m) {
    Tokens tokens = 0;
    double work = 0.0;
    for (const PackedDocument& document : packed.micro_batch(m)) {
      tokens += document.length;
      work += work_of(document.length);
    }
    CHECK(packed.tokens[m] == tokens);
    CHECK(packed.workload[m] == Approx(work));
    CHECK(tokens <= options.max_tokens);
  }
}

}  // namespace

TEST_CASE("every document comes out once, whole, within the largest delay") {
  std::size_t delayed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const OutlierDelayOptions options = random_options(seed);
    const auto batches = test::random_batches(seed, 30, certain_tokens(options), 55000);
    INFO("seed " << seed);
    Stream stream(options, work_of);
    std::map<std::uint64_t, std::pair<Tokens, std::int64_t>> pushed;
    std::vector<PackedIteration> iterations;
    for (std::size_t b = 0; b < batches.size(); ++b) {
      for (const Document& d : batches[b]) pushed[d.id] = {d.length, static_cast<std::int64_t>(b)};
      iterations.push_back(stream.push(batches[b]));
    }
    for (auto& rest : stream.flush()) iterations.push_back(std::move(rest));
    CHECK(stream.empty());
    std::size_t seen = 0;
    for (std::size_t i = 0; i < iterations.size(); ++i) {
      CHECK(iterations[i].iteration == static_cast<std::int64_t>(i));
      check_iteration(iterations[i], options);
      for (const PackedDocument& document : iterations[i].documents) {
        const auto found = pushed.find(document.id);
        REQUIRE(found != pushed.end());
        CHECK(found->second.first == document.length);
        CHECK(document.delay == static_cast<std::int64_t>(i) - found->second.second);
        CHECK(document.delay <= options.max_delay);
        delayed += document.delay > 0 ? 1 : 0;
        pushed.erase(found);
        ++seen;
      }
    }
    CHECK(pushed.empty());
    CHECK(seen > 0);
    CHECK(stream.statistics().iterations == static_cast<std::int64_t>(iterations.size()));
    CHECK(stream.statistics().max_delay() <= options.max_delay);
  }
  CHECK(delayed > 1000);
}

TEST_CASE("a full queue gives every micro-batch one outlier") {
  Stream stream({.micro_batches = 2, .max_tokens = 1000, .thresholds = {100}}, work_of);
  const std::vector<Document> first{{1, 500}, {2, 10}, {3, 10}}, second{{4, 480}, {5, 30}};
  CHECK(stream.push(first).documents.size() == 2);
  REQUIRE(stream.state().queues[0].size() == 1);
  CHECK(stream.state().queues[0][0].document == first[0]);
  const PackedIteration packed = stream.push(second);
  CHECK(packed.micro_batch(0)[0] == PackedDocument{1, 500, 1});
  REQUIRE(packed.micro_batch(1).size() == 2);
  CHECK(packed.micro_batch(1)[0] == PackedDocument{5, 30, 0});
  CHECK(packed.micro_batch(1)[1] == PackedDocument{4, 480, 0});
  CHECK(stream.empty());
}

TEST_CASE("an outlier that is due leaves, however few wait with it") {
  Stream stream({.micro_batches = 3, .max_tokens = 1000, .thresholds = {100}, .max_delay = 2}, work_of);
  CHECK(stream.push(std::vector<Document>{{1, 900}, {2, 10}}).documents.size() == 1);
  CHECK(stream.push(std::vector<Document>{{3, 10}, {4, 500}}).documents.size() == 1);
  const PackedIteration packed = stream.push(std::vector<Document>{{5, 10}});
  REQUIRE(packed.documents.size() == 2);
  CHECK(std::count(packed.documents.begin(), packed.documents.end(), PackedDocument{1, 900, 2}) == 1);
  CHECK(stream.state().queues[0].size() == 1);
}

TEST_CASE("queues take documents from their threshold up to the next one") {
  Stream stream({.micro_batches = 9, .max_tokens = 1000, .thresholds = {100, 200}}, work_of);
  const PackedIteration packed =
      stream.push(std::vector<Document>{{1, 99}, {2, 100}, {3, 199}, {4, 200}, {5, 1000}});
  REQUIRE(packed.documents.size() == 1);
  CHECK(packed.documents[0].id == 1);
  const auto& queues = stream.state().queues;
  REQUIRE(queues[0].size() == 2);
  REQUIRE(queues[1].size() == 2);
  CHECK(queues[0][1].document.length == 199);
  CHECK(queues[1][0].document.length == 200);
}

TEST_CASE("with more tokens than an iteration holds, the largest delay is kept and the oldest go first") {
  std::size_t refused = 0, taken = 0, carried = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    OutlierDelayOptions options = random_options(seed);
    options.max_delay = 1 + seed % 5;
    const Tokens most = static_cast<Tokens>(options.micro_batches) * options.max_tokens;
    INFO("seed " << seed);
    Stream stream(options, work_of);
    for (const auto& batch : test::random_batches(seed, 20, most, options.max_tokens)) {
      const OutlierDelayState before = stream.state();
      PackedIteration packed;
      try {
        packed = stream.push(batch);
      } catch (const InvalidInput& refusal) {
        CHECK_THAT(refusal.what(), Catch::Contains("expected to fit into"));
        CHECK(stream.state() == before);
        ++refused;
        continue;
      }
      ++taken;
      check_iteration(packed, options);
      for (const PackedDocument& document : packed.documents) CHECK(document.delay <= options.max_delay);
      const auto& left = stream.state().carried;
      carried += left.size();
      CHECK(std::is_sorted(left.begin(), left.end(),
                           [](const auto& a, const auto& b) { return a.arrived < b.arrived; }));
      for (const WaitingDocument& waiting : left) {
        CHECK(packed.iteration - waiting.arrived < options.max_delay);
      }
    }
    for (const PackedIteration& rest : stream.flush()) {
      check_iteration(rest, options);
      for (const PackedDocument& document : rest.documents) CHECK(document.delay <= options.max_delay);
    }
  }
  CHECK(taken > 1000);
  CHECK(carried > 500);
  CHECK(refused > 0);
}

TEST_CASE("documents that are due find room where the greedy packing leaves none") {
  // 6, 5 and 5, 4, 4, 4, 4 of two micro-batches of 16: greedily 4 is left over. All are due at once.
  const auto even = [](Tokens length) { return static_cast<double>(length); };
  OutlierDelayStream<decltype(even)> stream({.micro_batches = 2, .max_tokens = 16, .max_delay = 0}, even);
  const std::vector<Document> batch{{1, 6}, {2, 5}, {3, 5}, {4, 4}, {5, 4}, {6, 4}, {7, 4}};
  const std::vector<Tokens> lengths{6, 5, 5, 4, 4, 4, 4};
  REQUIRE_FALSE(capped_greedy(lengths, {lengths, 16}, 2).left.empty());
  const PackedIteration packed = stream.push(batch);
  CHECK(packed.documents.size() == batch.size());
  CHECK(packed.tokens == std::vector<Tokens>{16, 16});
}

TEST_CASE("the statistics are those of the iterations") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    OutlierDelayOptions options = random_options(seed);
    Stream stream(options, work_of);
    std::vector<PackedIteration> iterations;
    for (const auto& batch : test::random_batches(seed, 20, certain_tokens(options), 55000))
      iterations.push_back(stream.push(batch));
    double tokens = 0.0, token_delay = 0.0, documents = 0.0, document_delay = 0.0, imbalance = 0.0;
    double largest = 0.0, mean = 0.0;
    std::int64_t longest = 0;
    for (const PackedIteration& packed : iterations) {
      for (const PackedDocument& d : packed.documents) {
        tokens += static_cast<double>(d.length);
        token_delay += static_cast<double>(d.length * d.delay);
        documents += 1.0;
        document_delay += static_cast<double>(d.delay);
        longest = std::max(longest, d.delay);
      }
      double most = 0.0, total = 0.0;
      for (const double w : packed.workload) most = std::max(most, w), total += w;
      imbalance += total > 0.0 ? most * static_cast<double>(options.micro_batches) / total : 1.0;
      largest += most;
      mean += total / static_cast<double>(options.micro_batches);
    }
    const DelayStatistics& statistics = stream.statistics();
    CHECK(statistics.mean_token_delay() == Approx(token_delay / tokens));
    CHECK(statistics.mean_document_delay() == Approx(document_delay / documents));
    CHECK(statistics.max_delay() == longest);
    CHECK(statistics.mean_imbalance() == Approx(imbalance / static_cast<double>(iterations.size())));
    CHECK(statistics.total_imbalance() == Approx(largest / mean));
  }
}

TEST_CASE("waiting for balance costs less delay than full queues at the same balance") {
  // Four micro-batches of 131072 tokens on average, L_max twice that, a 7B model.
  const auto batches = test::random_batches(7, 300, 524288, 125000);
  const auto run = [&](const OutlierDelayOptions& options) {
    Stream stream(options, work_of);
    for (const auto& batch : batches) static_cast<void>(stream.push(batch));
    return stream.statistics();
  };
  const auto base = OutlierDelayOptions{.micro_batches = 4, .max_tokens = 262144, .thresholds = {49152}};
  const DelayStatistics full = run(base);
  OutlierDelayOptions balanced = base;
  balanced.release = OutlierRelease::balanced;
  const DelayStatistics early = run(balanced);
  INFO("full " << full.mean_imbalance() << " at " << full.mean_token_delay() << ", balanced "
               << early.mean_imbalance() << " at " << early.mean_token_delay());
  CHECK(early.mean_token_delay() < full.mean_token_delay());
  CHECK(early.mean_imbalance() <= full.mean_imbalance() + 0.01);
  OutlierDelayOptions none = base;
  none.thresholds = {};
  CHECK(run(none).mean_imbalance() > full.mean_imbalance() + 0.05);
  CHECK(run(none).mean_token_delay() == 0.0);
}

TEST_CASE("bad options are refused by name") {
  const auto refused = [](const OutlierDelayOptions& options, const std::string& what) {
    CHECK_THROWS_WITH(Stream(options, work_of), Catch::Contains(what));
  };
  refused({.micro_batches = 0, .max_tokens = 10}, "micro_batches is 0");
  refused({.micro_batches = 1}, "max_tokens is 0");
  refused({.max_tokens = 10, .thresholds = {4, 4}}, "threshold 1 is 4 tokens; expected more than 4");
  refused({.max_tokens = 10, .thresholds = {5, 4}}, "threshold 1 is 4");
  refused({.max_tokens = 10, .thresholds = {0}}, "threshold 0 is 0");
  refused({.max_tokens = 10, .thresholds = {3, 11}}, "threshold 1 is 11 tokens; expected at most the 10");
  refused({.max_tokens = 10, .max_delay = -1}, "max_delay is -1");
  refused({.max_tokens = 10, .target_imbalance = 0.99}, "target_imbalance is 0.99");
  refused({.max_tokens = 10, .target_imbalance = std::numeric_limits<double>::quiet_NaN()},
          "target_imbalance is nan");
}

TEST_CASE("a bad batch is refused by name, and the stream stays as it was") {
  Stream stream({.micro_batches = 2, .max_tokens = 100, .thresholds = {50}}, work_of);
  static_cast<void>(stream.push(std::vector<Document>{{1, 60}, {2, 10}}));
  const OutlierDelayState before = stream.state();
  const auto refused = [&](const std::vector<Document>& batch, const std::string& what) {
    CHECK_THROWS_WITH(stream.push(batch), Catch::Contains(what));
    CHECK(stream.state() == before);
  };
  refused({}, "no documents");
  refused({{3, 10}, {4, 0}}, "document 4 (number 1 of the batch) has 0 tokens");
  refused({{3, 10}, {4, -5}}, "has -5 tokens");
  refused({{3, 101}}, "document 3 (number 0 of the batch) has 101 tokens; expected 1 to the 100");
  refused({{7, 10}, {3, 10}, {7, 20}}, "document 7 occurs twice in the batch");
  refused({{3, 10}, {1, 10}}, "document 1 is in the batch and waits since iteration 0");
  refused({{3, 90}, {4, 90}, {5, 90}}, "the batch has 270 tokens and was packed into 3 micro-batches");

  const auto broken = [](Tokens length) {
    return length == 13 ? std::numeric_limits<double>::quiet_NaN() : 1.0;
  };
  OutlierDelayStream<decltype(broken)> unpriced({.micro_batches = 2, .max_tokens = 100}, broken);
  CHECK_THROWS_WITH(unpriced.push(std::vector<Document>{{1, 12}, {2, 13}}),
                    Catch::Contains("workload of document 2 (number 1 of the batch, 13 tokens) is nan"));
  CHECK(unpriced.state().iteration == 0);
  CHECK_THROWS_WITH(unpriced.drain(), Catch::Contains("nothing waits"));
}
