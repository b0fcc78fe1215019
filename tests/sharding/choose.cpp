#include "slimpack/sharding/choose.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/model/presets.hpp"
#include "tests/sharding/documents.hpp"

using namespace slimpack;

namespace {

AttentionKernel h100(std::int32_t tp = 8) {
  return AttentionKernel(assumed_attention_table(device_preset("h100")), transformer_preset("llama-7b"), tp);
}

/// A kernel without tiles: a price for each chunk and for each pair.
struct PerChunk {
  double chunk = 0.0;
  [[nodiscard]] AttentionSeconds chunk_seconds(Tokens begin, Tokens end) const {
    const double pairs = twice_causal_pairs(begin, end);
    return {chunk + pairs, 2.0 * pairs};
  }
  [[nodiscard]] AttentionSeconds launch_seconds() const { return {}; }
};

/// Seconds of the slowest rank of actual shards.
template <class M>
AttentionSeconds slowest(const M& model, const ContextShards& shards) {
  AttentionSeconds most;
  for (std::size_t r = 0; r < shards.ranks.size(); ++r) {
    const AttentionSeconds s = attention_seconds(model, shards.ranks[r]);
    most.forward = std::max(most.forward, s.forward);
    most.backward = std::max(most.backward, s.backward);
  }
  return most;
}

void check_equal(const AttentionSeconds& a, const AttentionSeconds& b) {
  CHECK(a.forward == Approx(b.forward).epsilon(1e-12));
  CHECK(a.backward == Approx(b.backward).epsilon(1e-12));
}

/// The least weighted seconds over all subsets of documents.
template <class M>
double least(ShardingChooser<M>& chooser, const std::vector<Slice>& documents, std::int32_t cp) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<std::uint8_t> marks(documents.size());
  for (unsigned subset = 0; subset >> documents.size() == 0; ++subset) {
    for (std::size_t d = 0; d < marks.size(); ++d) marks[d] = subset >> d & 1;
    best = std::min(best, chooser.predict(documents, cp, marks).total());
  }
  return best;
}

}  // namespace

TEST_CASE("the choice is what its shards take, and no worse than the better of the two") {
  const AttentionKernel kernel = h100();
  ShardingChooser chooser(kernel);
  ShardingChooser plain(kernel, {.mixed = false});
  ShardingChoice choice, other;
  int kinds[4] = {}, plain_kinds[4] = {};
  double mixed_gain = 0.0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    const auto documents =
        test::random_documents(seed, 1 + seed / 6 % 40, 100 + seed * 7919 % 40000, seed % 5 == 0);
    const auto cp = static_cast<std::int32_t>(std::min<Tokens>(1 + seed / 6 % 17, count_tokens(documents)));
    INFO("seed " << seed << ", cp " << cp << ": " << test::print(documents));
    chooser.choose(documents, cp, choice);
    check_equal(choice.seconds, slowest(kernel, mixed_shards(documents, cp, choice.per_document)));
    check_equal(choice.seconds, chooser.predict(documents, cp, choice.per_document));
    check_equal(choice.per_sequence_seconds, slowest(kernel, per_sequence_shards(documents, cp)));
    check_equal(choice.per_document_seconds, slowest(kernel, per_document_shards(documents, cp)));
    const double better = std::min(choice.per_sequence_seconds.total(), choice.per_document_seconds.total());
    CHECK(choice.seconds.total() <= better);
    ++kinds[static_cast<std::size_t>(choice.kind)];

    plain.choose(documents, cp, other);
    ++plain_kinds[static_cast<std::size_t>(other.kind)];
    CHECK(other.kind != Sharding::mixed);
    CHECK(other.seconds.total() == better);
    CHECK(other.per_document_seconds == choice.per_document_seconds);
    CHECK(other.per_document ==
          std::vector<std::uint8_t>(documents.size(), other.kind == Sharding::per_document ? 1 : 0));
    mixed_gain = std::max(mixed_gain, better / choice.seconds.total());

    const auto marked = static_cast<std::size_t>(
        std::count(choice.per_document.begin(), choice.per_document.end(), std::uint8_t{1}));
    CHECK((choice.kind == Sharding::mixed) == (marked > 0 && marked < documents.size()));
    CHECK((choice.kind == Sharding::per_document) == (marked == documents.size()));
  }
  CHECK(kinds[static_cast<int>(Sharding::none)] == 0);
  CHECK(kinds[static_cast<int>(Sharding::per_sequence)] > 50);
  CHECK(kinds[static_cast<int>(Sharding::mixed)] > 100);
  CHECK(plain_kinds[static_cast<int>(Sharding::per_sequence)] > 100);
  CHECK(plain_kinds[static_cast<int>(Sharding::per_document)] > 50);
  CHECK(mixed_gain > 1.2);
}

TEST_CASE("the mixed choice against all subsets of up to ten documents") {
  ShardingChooser chooser(h100());
  double excess = 0.0, worst = 0.0;
  std::size_t cases = 0, optimal = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    const auto documents = test::random_documents(seed, 1 + seed / 6 % 10, 200 + seed * 7919 % 30000);
    const auto cp = static_cast<std::int32_t>(2 + seed / 60 % 7);
    if (count_tokens(documents) < cp) continue;
    INFO("seed " << seed << ", cp " << cp << ": " << test::print(documents));
    ShardingChoice choice;
    chooser.choose(documents, cp, choice);
    const double best = least(chooser, documents, cp);
    const double ratio = choice.seconds.total() / best;
    CHECK(ratio >= 1.0 - 1e-12);
    // All subsets of six documents are tried; it stops early only if close to perfect division.
    if (documents.size() <= 6) CHECK(ratio <= 1.002);
    excess += ratio - 1.0;
    worst = std::max(worst, ratio);
    optimal += ratio <= 1.0 + 1e-12 ? 1 : 0;
    ++cases;
  }
  CHECK(excess / static_cast<double>(cases) < 0.003);
  CHECK(worst < 1.15);
  CHECK(10 * optimal > 8 * cases);
}

TEST_CASE("with enough changes nothing that one or two documents could do is left") {
  const AttentionKernel kernel = h100();
  ShardingChooser chooser(kernel, {.changes = 1'000'000, .close_enough = 0.0});
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto documents = test::random_documents(6 * seed, 24, 30000);
    const auto cp = static_cast<std::int32_t>(2 + seed % 7);
    INFO("seed " << seed << ", cp " << cp << ": " << test::print(documents));
    ShardingChoice choice;
    chooser.choose(documents, cp, choice);
    auto marks = choice.per_document;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      for (std::size_t j = i; j < marks.size(); ++j) {
        marks[i] ^= 1;
        if (j != i) marks[j] ^= 1;
        CHECK(chooser.predict(documents, cp, marks).total() >= choice.seconds.total());
        marks = choice.per_document;
      }
    }
  }
}

TEST_CASE("many short documents are sharded as a sequence, and one long document among them by itself") {
  ShardingChooser chooser(h100());
  ShardingChoice choice;
  std::vector<Tokens> lengths(256, 256);
  chooser.choose(whole_documents(lengths), 4, choice);
  CHECK(choice.kind == Sharding::per_sequence);
  lengths[100] = 40000;
  chooser.choose(whole_documents(lengths), 4, choice);
  CHECK(choice.kind == Sharding::mixed);
  std::vector<std::uint8_t> expected(256, 0);
  expected[100] = 1;
  CHECK(choice.per_document == expected);
  // Two long documents: sharded as a sequence, each half of the ranks would get one of them.
  chooser.choose(whole_documents(std::vector<Tokens>{65536, 32768}), 4, choice);
  CHECK(choice.kind == Sharding::per_document);
}

TEST_CASE("weights say which pass counts, and a user's own model decides") {
  // Backward takes no chunks into account: only balance counts there.
  const auto documents = whole_documents(std::vector<Tokens>{100, 300, 50, 600, 20, 40, 80});
  ShardingChoice forward, backward;
  ShardingChooser(PerChunk{1e9}, {.backward_weight = 0.0}).choose(documents, 4, forward);
  ShardingChooser(PerChunk{1e9}, {.forward_weight = 0.0}).choose(documents, 4, backward);
  CHECK(forward.kind == Sharding::per_sequence);
  CHECK(backward.seconds.backward < forward.seconds.backward);
  CHECK(backward.seconds.forward > forward.seconds.forward);
  const ShardingChoice again = choose_sharding(std::vector<Tokens>{100, 300, 50, 600, 20, 40, 80}, 4,
                                               PerChunk{1e9}, {.forward_weight = 0.0});
  CHECK(again.per_document == backward.per_document);
  CHECK(again.seconds == backward.seconds);
}

TEST_CASE("limits of the search keep the guarantee") {
  const AttentionKernel kernel = h100();
  for (unsigned seed = 0; seed < 60; ++seed) {
    const auto documents = test::random_documents(6 * seed, 60, 20000);
    INFO("seed " << seed << ": " << test::print(documents));
    ShardingChoice choice, more;
    ShardingChooser(kernel, {.thresholds = 1, .changes = 0}).choose(documents, 8, choice);
    CHECK(choice.seconds.total() <=
          std::min(choice.per_sequence_seconds.total(), choice.per_document_seconds.total()));
    ShardingChooser(kernel, {.thresholds = 1, .changes = 1000}).choose(documents, 8, more);
    CHECK(more.seconds.total() <= choice.seconds.total());
  }
}

TEST_CASE("one rank, and one document") {
  const ShardingChoice one = choose_sharding(std::vector<Tokens>{5, 2000, 1}, 1, h100());
  CHECK(one.kind == Sharding::per_sequence);
  CHECK(one.seconds == one.per_document_seconds);
  const ShardingChoice even = choose_sharding(std::vector<Tokens>{8192}, 4, h100());
  CHECK(even.kind == Sharding::per_sequence);
}

TEST_CASE("choices refuse what can't be chosen") {
  const AttentionKernel kernel = h100();
  CHECK_THROWS_WITH(choose_sharding(std::vector<Tokens>{3, 4}, 8, kernel),
                    "cp is 8; expected at most the 7 tokens of the sequence");
  CHECK_THROWS_WITH(choose_sharding(std::vector<Tokens>{3, 0}, 2, kernel),
                    "document 1 has 0 tokens; expected a positive number");
  CHECK_THROWS_WITH(ShardingChooser(kernel, {.forward_weight = -1.0}),
                    "a weight of a pass is -1; expected zero or a positive number");
  CHECK_THROWS_WITH(ShardingChooser(kernel, {.forward_weight = 0.0, .backward_weight = 0.0}),
                    "the weights of both passes are zero; expected a positive one");
  ShardingChooser chooser(kernel);
  CHECK_THROWS_WITH(chooser.predict(whole_documents(std::vector<Tokens>{3, 4}), 2, {}),
                    "there are marks for 0 of 2 documents; expected one each");
}
