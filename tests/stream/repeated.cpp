#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/stream/outlier_delay.hpp"
#include "slimpack/stream/state.hpp"
#include "tests/stream/streams.hpp"

using namespace slimpack;
using test::running_stream;
using test::some_batches;
using test::some_options;
using test::Stream;
using test::work_of;

namespace {

/// Packs the iteration with a number: a batch, or at the end of the data what waits.
PackedIteration pack_iteration(Stream& stream, const std::vector<std::vector<Document>>& batches,
                               std::int64_t number) {
  const auto i = static_cast<std::size_t>(number);
  return i < batches.size() ? stream.push(number, batches[i]) : stream.drain(number);
}

/// What a stream's saved states know its workload by.
std::vector<double> workload_samples(const OutlierDelayOptions& options) {
  std::vector<double> samples;
  for (Tokens length = 1; length < options.max_tokens; length *= 2) samples.push_back(work_of(length));
  samples.push_back(work_of(options.max_tokens));
  return samples;
}

/// A stream's state as version 1 of the format has it: no result, and no last iteration.
std::string saved_by_version_1(const Stream& stream) {
  const std::string bytes = save_state({.state = stream.state(), .last = std::nullopt}, stream.options(),
                                       workload_samples(stream.options()));
  const detail::WordReader in(bytes);
  detail::WordWriter out;
  for (std::size_t i = 0; i + 2 < in.words(); ++i) {
    if (i == 1) {
      out.add(std::uint64_t{1});
    } else if (i == 2) {
      out.add(std::uint64_t{in.words() - 2});
    } else if (i != 3) {
      out.add(in.word(i));
    }
  }
  return out.finish();
}

}  // namespace

TEST_CASE("an iteration that is asked for again is packed as it was, and changes nothing") {
  std::size_t drained = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const auto batches = some_batches(seed);
    Stream undisturbed(some_options(seed), work_of), stream(some_options(seed), work_of);
    const auto last = static_cast<std::int64_t>(batches.size());
    for (std::int64_t i = 0; i < last || !undisturbed.empty(); ++i) {
      const PackedIteration expected = pack_iteration(undisturbed, batches, i);
      CHECK(pack_iteration(stream, batches, i) == expected);
      const std::string saved = stream.save();
      for (int again = 0; again < 2; ++again) CHECK(pack_iteration(stream, batches, i) == expected);
      CHECK(stream.save() == saved);
      Stream restored(some_options(seed), work_of);
      restored.restore(saved);
      CHECK(pack_iteration(restored, batches, i) == expected);
      CHECK(restored.save() == saved);
      stream = restored;
      drained += i >= last ? 1 : 0;
    }
    CHECK(stream.empty());
  }
  CHECK(drained > 10);
}

TEST_CASE("whenever a process dies, a caller who repeats what failed gets every document once") {
  std::size_t lost = 0, repeated = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    const auto batches = some_batches(seed);
    std::mt19937_64 random(seed);
    std::string saved;
    std::map<std::uint64_t, int> trained;
    bool waits = true;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(batches.size()) || waits;) {
      Stream process(some_options(seed), work_of);
      if (!saved.empty()) process.restore(saved);
      const bool again = process.state().iteration > i;
      const PackedIteration packed = pack_iteration(process, batches, i);
      repeated += again ? 1 : 0;
      // It dies before it saves, after it, or not at all; only then does its caller know.
      const auto fate = random() % 3;
      if (fate > 0 && !again) saved = process.save();
      lost += fate == 0 ? 1 : 0;
      if (fate < 2) continue;
      for (const PackedDocument& document : packed.documents) ++trained[document.id];
      waits = !process.empty();
      ++i;
    }
    std::size_t documents = 0;
    for (const auto& batch : batches) documents += batch.size();
    CHECK(trained.size() == documents);
    for (const auto& [id, times] : trained) CHECK(times == 1);
  }
  CHECK(lost > 1000);
  CHECK(repeated > 1000);
}

TEST_CASE("other numbers and other documents under the same number are refused, and nothing changes") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    const auto batches = some_batches(seed);
    Stream stream = running_stream(seed, 12);
    const std::string saved = stream.save();
    const auto refused = [&](std::int64_t iteration, const std::vector<Document>& batch, const char* text) {
      CHECK_THROWS_WITH(stream.push(iteration, batch), Catch::Contains(text));
      CHECK(stream.save() == saved);
    };
    for (const std::int64_t number : {-1, 0, 10, 13, 14}) {
      const std::string text = "iteration is " + std::to_string(number) +
                               "; expected 12, the next one, or 11, the last one, again";
      refused(number, batches[11], text.c_str());
      CHECK_THROWS_WITH(stream.drain(number), Catch::Contains(text));
    }
    const char* other =
        "iteration 11 was packed from other documents; expected the same in the same order, or "
        "iteration 12";
    refused(11, batches[12], other);
    refused(11, batches[10], other);
    std::vector<Document> changed = batches[11];
    changed.back().length += 1;
    refused(11, changed, other);
    changed = batches[11];
    changed.back().id += 1000000;
    refused(11, changed, other);
    changed = batches[11];
    changed.push_back({99999999, 1});
    refused(11, changed, other);
    changed = {batches[11].rbegin(), batches[11].rend()};
    if (changed != batches[11]) refused(11, changed, other);
    CHECK_THROWS_WITH(stream.drain(11), Catch::Contains(other));
    refused(11, {}, "the batch has no documents");
    CHECK(stream.save() == saved);
  }
  Stream fresh(some_options(0), work_of);
  CHECK_THROWS_WITH(fresh.push(1, some_batches(0)[0]), "iteration is 1; expected 0, the next one");
}

TEST_CASE("states of version 1 are read, and do not keep the last iteration") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    const auto batches = some_batches(seed);
    Stream stream = running_stream(seed, 12), restored(some_options(seed), work_of);
    const std::string old = saved_by_version_1(stream);
    CHECK(saved_options(old) == some_options(seed));
    CHECK(saved_result(old) == 0);
    restored.restore(old);
    CHECK(restored.state() == stream.state());
    CHECK_THROWS_WITH(restored.push(11, batches[11]),
                      "iteration is 11; expected 12, the next one: the state does not keep the last one");
    CHECK(restored.push(12, batches[12]) == stream.push(batches[12]));
    CHECK(restored.save() == stream.save());
  }
}

TEST_CASE("a saved state has the fingerprint that it was saved with") {
  Stream stream = running_stream(3);
  CHECK(saved_result(stream.save()) == 0);
  CHECK(saved_result(stream.save(0x123456789abcdef0)) == 0x123456789abcdef0);
  Stream restored(some_options(3), work_of);
  restored.restore(stream.save(5));
  CHECK(restored.save() == stream.save());
}

TEST_CASE("an iteration that would be packed otherwise than it was is refused") {
  const OutlierDelayOptions options{.micro_batches = 2, .max_tokens = 1000, .thresholds = {100}};
  Stream stream(options, work_of);
  const std::vector<Document> batch{{42, 500}, {43, 10}};
  static_cast<void>(stream.push(batch));
  REQUIRE_FALSE(stream.empty());
  SavedStream saved = load_state(stream.save(), options, workload_samples(options));
  saved.state.queues[0].clear();  // as if another version had trained document 42
  stream.restore(save_state(saved, options, workload_samples(options)));
  CHECK_THROWS_WITH(stream.push(0, batch),
                    Catch::Contains("iteration 0 would not leave the documents that wait"));
  saved.last->before.iteration = 5;
  CHECK_THROWS_WITH(stream.restore(save_state(saved, options, workload_samples(options))),
                    "the saved state keeps iteration 5; expected the last one before 1");
}
