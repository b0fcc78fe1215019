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

/// Options of many kinds, by seed; batches of up to `tokens` fit for certain.
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
