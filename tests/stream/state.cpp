#include "slimpack/stream/state.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>

#include "slimpack/stream/outlier_delay.hpp"
#include "tests/stream/streams.hpp"

using namespace slimpack;
using test::running_stream;
using test::some_batches;
using test::some_options;
using test::Stream;
using test::work_of;

namespace {

/// Words replaced and the checksum corrected, as a faulty version of this library would write it.
std::string with_word(const std::string& bytes, std::size_t place, std::uint64_t value) {
  detail::WordReader in(bytes);
  detail::WordWriter out;
  for (std::size_t i = 0; i + 1 < in.words(); ++i) out.add(i == place ? value : in.word(i));
  return out.finish();
}

}  // namespace

TEST_CASE("a stream that is killed at random and restored packs what an undisturbed one packs") {
  std::size_t kills = 0, waiting = 0, in_drain = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    const auto batches = some_batches(seed);
    Stream undisturbed(some_options(seed), work_of);
    std::vector<PackedIteration> expected;
    for (const auto& batch : batches) expected.push_back(undisturbed.push(batch));
    for (auto& rest : undisturbed.flush()) expected.push_back(std::move(rest));

    std::mt19937_64 random(seed);
    auto stream = std::make_unique<Stream>(some_options(seed), work_of);
    std::string saved = stream->save();
    for (std::size_t i = 0; i < expected.size();) {
      const PackedIteration packed = i < batches.size() ? stream->push(batches[i]) : stream->drain();
      // Killed before the state was saved: the iteration is packed again, and must be the same one.
      const bool lost = random() % 4 == 0;
      const bool killed = lost || random() % 3 == 0;
      CHECK(packed == expected[i]);
      if (!lost) {
        saved = stream->save();
        ++i;
      }
      if (killed) {
        stream = std::make_unique<Stream>(some_options(seed), work_of);
        stream->restore(saved);
        ++kills;
        waiting += stream->empty() ? 0 : 1;
        in_drain += i > batches.size() ? 1 : 0;
      }
    }
    CHECK(stream->empty());
    CHECK(stream->state() == undisturbed.state());
  }
  CHECK(kills > 1000);
  CHECK(waiting > 500);
  CHECK(in_drain > 10);
}

TEST_CASE("a restored state is the saved one, and saving does not change it") {
  for (unsigned seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    const Stream stream = running_stream(seed);
    Stream other(some_options(seed), work_of);
    other.restore(stream.save());
    CHECK(other.state() == stream.state());
    CHECK(other.save() == stream.save());
  }
}

TEST_CASE("cut, changed and foreign states are refused, and the stream stays as it was") {
  for (unsigned seed = 0; seed < 6; ++seed) {
    INFO("seed " << seed);
    Stream stream = running_stream(seed);
    const OutlierDelayState before = stream.state();
    const std::string saved = running_stream(seed, 15).save();
    for (std::size_t size = 0; size < saved.size(); ++size) {
      CHECK_THROWS_AS(stream.restore(std::string_view(saved).substr(0, size)), InvalidInput);
    }
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < saved.size(); ++i) {
      std::string changed = saved;
      changed[i] = static_cast<char>(changed[i] ^ static_cast<char>(1U << random() % 8));
      CHECK_THROWS_AS(stream.restore(changed), InvalidInput);
    }
    CHECK_THROWS_WITH(stream.restore(saved + "12345678"), Catch::Contains("bytes; expected 8 times"));
    CHECK_THROWS_WITH(stream.restore("{\"format\": \"slimpack-plan\"}"), Catch::Contains("no saved state"));
    CHECK_THROWS_WITH(stream.restore(""), Catch::Contains("no saved state"));
    CHECK(stream.state() == before);
    stream.restore(saved);
    CHECK_FALSE(stream.state() == before);
  }
}

TEST_CASE("the refusal of a state says what is wrong") {
  const auto options = some_options(1);
  Stream stream(options, work_of);
  const std::string saved = running_stream(1).save();
  std::string changed = saved;
  changed[saved.size() / 2] = static_cast<char>(changed[saved.size() / 2] ^ 1);
  CHECK_THROWS_WITH(stream.restore(changed), Catch::Contains("checksum is wrong"));
  CHECK_THROWS_WITH(stream.restore(with_word(saved, 1, 7)), Catch::Contains("version 7; expected 1"));

  const auto refused = [&](auto&& change, const std::string& what) {
    OutlierDelayOptions other = options;
    change(other);
    Stream elsewhere(other, work_of);
    CHECK_THROWS_WITH(elsewhere.restore(saved), Catch::Contains(what));
  };
  refused([](auto& o) { o.micro_batches = 5; }, "micro_batches 3; expected the stream's 5");
  refused([](auto& o) { o.max_tokens = 90000; }, "max_tokens 80000");
  refused([](auto& o) { o.max_delay = 2; }, "max_delay 1");
  refused([](auto& o) { o.release = OutlierRelease::full_queue; }, "release 1");
  refused([](auto& o) { o.target_imbalance = 1.5; }, "target_imbalance 1.05");
  refused([](auto& o) { o.refine = false; }, "refine 1");
  refused([](auto& o) { o.thresholds = {12000}; }, "a number of thresholds of 2");
  refused([](auto& o) { o.thresholds = {12000, 30001}; }, "threshold 1 30000");

  const auto double_work = [](Tokens length) { return 2.0 * work_of(length); };
  OutlierDelayStream<decltype(double_work)> priced(options, double_work);
  CHECK_THROWS_WITH(priced.restore(saved), Catch::Contains("another workload function"));
}

TEST_CASE("a state with documents that can't wait there is refused although its checksum is right") {
  const OutlierDelayOptions options{
      .micro_batches = 2, .max_tokens = 1000, .thresholds = {100}, .max_delay = 5};
  Stream stream(options, work_of);
  static_cast<void>(stream.push(std::vector<Document>{{42, 500}, {43, 10}}));
  const std::string saved = stream.save();
  // The queue's one document: id, length, arrival, home.
  detail::WordReader in(saved);
  std::size_t id = 0;
  while (in.word(id) != 42 || in.word(id + 1) != 500) ++id;
  CHECK_THROWS_WITH(stream.restore(with_word(saved, id + 1, 50)),
                    Catch::Contains("document 42 of the saved state has 50"));
  CHECK_THROWS_WITH(stream.restore(with_word(saved, id + 1, 1001)), Catch::Contains("1001 tokens"));
  CHECK_THROWS_WITH(stream.restore(with_word(saved, id + 2, 3)), Catch::Contains("arrived in iteration 3"));
  CHECK_THROWS_WITH(stream.restore(with_word(saved, id + 3, 2)), Catch::Contains("micro-batch 2"));
  CHECK_THROWS_WITH(stream.restore(with_word(saved, id - 1, 1000000)),
                    Catch::Contains("lists 1000000 entries"));
  CHECK(stream.save() == saved);
}

TEST_CASE("the format of a saved state does not change unnoticed") {
  const OutlierDelayOptions options{.micro_batches = 2, .max_tokens = 4, .thresholds = {3}, .max_delay = 5};
  const auto identity = [](Tokens length) { return static_cast<double>(length); };
  OutlierDelayStream<decltype(identity)> stream(options, identity);
  const std::vector<Document> batch{{258, 3}, {1, 2}};
  static_cast<void>(stream.push(batch));
  const std::string saved = stream.save(77);
  detail::WordReader in(saved);
  const auto real = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  const std::vector<std::uint64_t> expected{
      0x6b6361706d696c73,
      2,
      42,  // what it is, version, words
      77,  // result
      2,
      4,
      5,
      0,
      real(1.05),
      1,
      1,
      3,  // options
      3,
      real(1),
      real(2),
      real(4),  // workload of 1, 2 and 4 tokens
      1,        // the next iteration
      1,
      258,
      3,
      0,
      0,
      0,  // the queue with its document, and no other
      1,
      1,
      1,
      2,
      1,
      real(2),
      real(2),
      real(2),
      real(1),  // statistics
      1,
      documents_hash(batch),
      0,
      0,
      0,  // the last iteration: its documents, number, queue, and no other
      0,
      0,
      0,
      0,
      0,
      0,
      0};  // statistics before it
  REQUIRE(in.words() == expected.size() + 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("word " << i);
    CHECK(in.word(i) == (i == 2 ? in.words() : expected[i]));
  }
  CHECK(saved.substr(0, 8) == "slimpack");
}

TEST_CASE("a saved state says with which options it was saved") {
  OutlierDelayOptions options{
      .micro_batches = 5, .max_tokens = 900, .thresholds = {100, 200}, .max_delay = 3};
  options.release = OutlierRelease::balanced;
  options.target_imbalance = 1.25;
  options.refine = false;
  OutlierDelayStream stream(options, [](Tokens length) { return static_cast<double>(length); });
  static_cast<void>(stream.push(std::vector<Document>{{7, 150}, {8, 20}}));
  const std::string bytes = stream.save();
  CHECK(saved_options(bytes) == options);
  CHECK_THROWS_WITH(saved_options(bytes.substr(8)), Catch::Contains("no saved state"));
  CHECK_THROWS_WITH(saved_options(bytes.substr(0, bytes.size() - 8)), Catch::Contains("expected 8 times"));
  std::string changed = bytes;
  changed[40] ^= 1;
  CHECK_THROWS_WITH(saved_options(changed), Catch::Contains("checksum"));
}
