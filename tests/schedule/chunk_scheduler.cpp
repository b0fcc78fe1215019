#include "slimpack/schedule/chunk_scheduler.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "random_rows.hpp"
#include "slimpack/slicing/chunk_ways.hpp"

using namespace slimpack;

TEST_CASE("the number of kept chunks that is searched is the best of all that are tried one by one") {
  int differing = 0, several = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t stages = 1 + random() % 4;
    std::vector<Tokens> lengths(1 + random() % 8);
    for (Tokens& length : lengths) length = static_cast<Tokens>(1 + random() % 60);
    std::vector<SampleId> ids(lengths.size());
    std::iota(ids.begin(), ids.end(), SampleId{0});
    GroupPrices prices{Prices(oracle::random_cost(random, stages))};
    const std::vector<std::int32_t> layers(stages, 2);
    const double room = std::uniform_real_distribution(50.0, 900.0)(random);
    const Memory memory(oracle::UnevenMemory{.capacity = room, .layers = layers}, layers, true);
    const SlicePrices backward(prices.alone(), Pass::backward);
    const Chunks chunks = even_chunks(lengths, ids, backward, static_cast<Tokens>(4 + random() % 20));
    const Ragged<PackId> sequences = chunk_sequences(chunks.packs, lengths);
    std::size_t longest = 1;
    for (std::size_t q = 0; q < sequences.size(); ++q) longest = std::max(longest, sequences[q].size());

    ChunkScheduler scheduler(lengths, prices, memory, {.recompute = ChunkRecompute::oldest, .kept = 0});
    const double searched = scheduler(chunks.packs).schedule.seconds;
    std::vector<double> each;
    for (std::size_t kept = 1; kept < 2 * longest; kept *= 2) {
      scheduler.options().kept = std::min(kept, longest);
      each.push_back(scheduler(chunks.packs).schedule.seconds);
    }
    CHECK(searched == *std::min_element(each.begin(), each.end()));
    several += each.size() > 1 ? 1 : 0;
    differing += searched < each.front() ? 1 : 0;
  }
  CHECK(several > 50);
  CHECK(differing > 20);
}
