#include "slimpack/stream/fixed_length_packing.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "slimpack/stream/sequences.hpp"
#include "tests/stream/corpus.hpp"

using namespace slimpack;
using test::work_of;

namespace {

std::vector<Tokens> random_lengths(unsigned seed, std::size_t count, Tokens longest) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> body(7.5, 1.4);
  std::vector<Tokens> lengths(count);
  for (Tokens& length : lengths) length = std::clamp<Tokens>(static_cast<Tokens>(body(random)), 1, longest);
  return lengths;
}

std::vector<Document> documents_of(const std::vector<Tokens>& lengths) {
  std::vector<Document> documents;
  for (std::size_t i = 0; i < lengths.size(); ++i) documents.push_back({100 + i, lengths[i]});
  return documents;
}

double sum_of_largest(const FixedLengthWindow& window) {
  double sum = 0.0;
  for (const PackedIteration& iteration : window.iterations)
    sum += *std::max_element(iteration.workload.begin(), iteration.workload.end());
  return sum;
}

}  // namespace

TEST_CASE("sequences hold all documents in order, and are cut as they should be") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    const Tokens context = 3000 + 500 * (seed % 7);
    for (const SequenceEnd end : {SequenceEnd::next, SequenceEnd::split, SequenceEnd::truncate}) {
      const Tokens longest = end == SequenceEnd::next ? context : 10 * context;
      const std::vector<Tokens> lengths = random_lengths(seed, 60, longest);
      const Sequences filled = fill_sequences(lengths, context, end);
      std::vector<Tokens> next(lengths.size(), 0);
      std::uint32_t last = 0;
      Tokens total = 0;
      for (std::size_t s = 0; s < filled.sequences.size(); ++s) {
        const Tokens held = count_tokens(filled.sequences[s]);
        CHECK(held > 0);
        CHECK(held <= context);
        if (end != SequenceEnd::next && s + 1 < filled.sequences.size()) CHECK(held == context);
        if (end == SequenceEnd::next && s + 1 < filled.sequences.size())
          CHECK(held + lengths[filled.sequences[s + 1][0].sample] > context);
        total += held;
        for (const Slice& slice : filled.sequences[s]) {
          CHECK(slice.sample >= last);
          CHECK(slice.begin == next[slice.sample]);
          next[slice.sample] = slice.end;
          last = slice.sample;
        }
      }
      const Tokens given = std::accumulate(lengths.begin(), lengths.end(), Tokens{0});
      CHECK(total + filled.dropped == given);
      CHECK((end == SequenceEnd::truncate || next == lengths));
      CHECK((end == SequenceEnd::truncate) == (filled.dropped > 0));
    }
  }
}

TEST_CASE("global batches are what fills their sequences") {
  const std::vector<Tokens> lengths{6, 4, 5, 3, 9, 2, 7};
  CHECK(global_batches(lengths, 10, 2) == std::vector<std::size_t>{0, 4, 7});
  CHECK(global_batches(lengths, 10, 1) == std::vector<std::size_t>{0, 2, 4, 5, 7});
  CHECK(global_batches(std::vector<Tokens>{}, 10, 2) == std::vector<std::size_t>{0});
}

TEST_CASE("a window is packed whole into its sequences by every method, and better by the better ones") {
  std::map<FixedLengthMethod, double> largest;
  std::size_t proven = 0, windows = 0;
  for (unsigned seed = 0; seed < 24; ++seed) {
    const std::size_t micro_batches = 2 + seed % 3, window = std::size_t{1} << seed % 4;
    const SequenceEnd end = seed % 2 == 0 ? SequenceEnd::next : SequenceEnd::split;
    const std::vector<Tokens> lengths = random_lengths(seed, 1500, 60000);
    const auto documents = documents_of(lengths);
    const Packs sequences = fill_sequences(lengths, 65536, end).sequences;
    INFO("seed " << seed << ", window " << window);
    const std::size_t size = std::min(window * micro_batches, sequences.size());
    REQUIRE(size == window * micro_batches);
    std::map<std::uint64_t, Tokens> expected;
    for (std::size_t s = 0; s < size; ++s) {
      for (const Slice& slice : sequences[s]) expected[documents[slice.sample].id] += slice.size();
    }
    for (const auto method :
         {FixedLengthMethod::original, FixedLengthMethod::greedy, FixedLengthMethod::search}) {
      const auto packed =
          pack_fixed_length(documents, sequences, 0, size, 7,
                            {.micro_batches = micro_batches, .context = 65536, .method = method}, work_of);
      REQUIRE(packed.iterations.size() == window);
      std::map<std::uint64_t, Tokens> seen;
      double heaviest = 0.0, tokens = 0.0, late = 0.0, shifted = 0.0;
      for (std::size_t t = 0; t < window; ++t) {
        const PackedIteration& iteration = packed.iterations[t];
        CHECK(iteration.iteration == static_cast<std::int64_t>(7 + t));
        REQUIRE(iteration.micro_batches() == micro_batches);
        for (std::size_t m = 0; m < micro_batches; ++m) {
          double work = 0.0;
          CHECK(iteration.tokens[m] <= 65536);
          for (const PackedDocument& document : iteration.micro_batch(m)) {
            work += work_of(document.length);
            seen[document.id] += document.length;
            const auto length = static_cast<double>(document.length);
            tokens += length;
            late += length * static_cast<double>(std::max<std::int64_t>(document.delay, 0));
            shifted += length * static_cast<double>(std::abs(document.delay));
          }
          CHECK(iteration.workload[m] == Approx(work));
          heaviest = std::max(heaviest, work);
        }
      }
      CHECK(seen == expected);
      CHECK(packed.largest == Approx(heaviest));
      CHECK(packed.bound <= packed.largest * (1.0 + 1e-12));
      CHECK(packed.mean_token_delay == Approx(late / tokens));
      CHECK(packed.mean_token_shift == Approx(shifted / tokens));
      if (method == FixedLengthMethod::original || window == 1) CHECK(packed.mean_token_shift == 0.0);
      largest[method] += sum_of_largest(packed);
      if (method == FixedLengthMethod::search) {
        proven += packed.largest <= 1.005 * packed.bound ? 1 : 0;
        ++windows;
      }
    }
  }
  CHECK(largest[FixedLengthMethod::greedy] < largest[FixedLengthMethod::original]);
  CHECK(largest[FixedLengthMethod::search] < largest[FixedLengthMethod::greedy]);
  CHECK(4 * proven >= 3 * windows);
}

TEST_CASE("the original order is the original order, and the last window may be short") {
  const std::vector<Tokens> lengths{6, 4, 5, 3, 9, 2, 7, 5};
  const auto documents = documents_of(lengths);
  const Packs sequences = fill_sequences(lengths, 10).sequences;
  const FixedLengthOptions options{.micro_batches = 2, .context = 10, .method = FixedLengthMethod::original};
  const auto packed = pack_fixed_length(documents, sequences, 2, 5, 1, options, work_of);
  REQUIRE(packed.iterations.size() == 2);
  CHECK(packed.iterations[0].micro_batch(0)[0] == PackedDocument{104, 9, 0});
  CHECK(packed.iterations[0].micro_batch(1)[1] == PackedDocument{106, 7, 0});
  CHECK(packed.iterations[1].tokens == std::vector<Tokens>{5, 0});
}

TEST_CASE("fixed-length packing refuses what it can't pack") {
  const std::vector<Tokens> lengths{6, 4, 5, 3};
  const auto documents = documents_of(lengths);
  const Packs sequences = fill_sequences(lengths, 10).sequences;
  const auto pack = [&](std::size_t begin, std::size_t end, const FixedLengthOptions& options,
                        std::size_t known = 4) {
    return pack_fixed_length(std::span(documents).first(known), sequences, begin, end, 0, options, work_of);
  };
  CHECK_THROWS_WITH(pack(0, 2, {.micro_batches = 0, .context = 10}), Catch::Contains("micro_batches is 0"));
  CHECK_THROWS_WITH(pack(1, 1, {.context = 10}), Catch::Contains("sequences 1 to 1"));
  CHECK_THROWS_WITH(pack(0, 3, {.context = 10}), Catch::Contains("sequences 0 to 3"));
  CHECK_THROWS_WITH(pack(0, 2, {.context = 9}), Catch::Contains("sequence 0 holds 10 tokens"));
  CHECK_THROWS_WITH(pack(0, 2, {.context = 10}, 3), Catch::Contains("document number 3"));
  CHECK_THROWS_WITH(fill_sequences(lengths, 0), Catch::Contains("context is 0"));
  CHECK_THROWS_WITH(fill_sequences(lengths, 5), Catch::Contains("document 0 has 6 tokens"));
  CHECK_THROWS_WITH(fill_sequences(std::vector<Tokens>{1, 0}, 5), Catch::Contains("document 1 has 0"));
  CHECK_THROWS_WITH(global_batches(lengths, 10, 0), Catch::Contains("0 micro-batches"));
}
