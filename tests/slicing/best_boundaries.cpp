#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "slimpack/slicing/micropack.hpp"
#include "tests/slicing/streams.hpp"

using namespace slimpack;
using test::cut_micropacks;

namespace {

/// A few samples, longest first, of at most ten tiles together; some end within a tile.
std::vector<Tokens> random_lengths(std::mt19937& random, Tokens tile) {
  std::vector<Tokens> lengths;
  for (Tokens left = 10; left > 0;) {
    const Tokens tiles = std::uniform_int_distribution<Tokens>(1, std::min<Tokens>(left, 6))(random);
    lengths.push_back(tiles * tile - std::uniform_int_distribution<Tokens>(0, tile - 1)(random));
    left -= tiles + (random() % 2 == 0 ? 1 : 0);
  }
  std::sort(lengths.begin(), lengths.end(), std::greater<>{});
  return lengths;
}

/// Seconds of the largest pack, made as small as can be: tries every pack for every tile, as long as the tiles of
/// a sample keep the order of the pass.
double least_largest_pack(const std::vector<Tokens>& lengths, std::size_t packs, Tokens tile,
                          const CalibratedCost& cost, Pass pass) {
  struct Part {
    Tokens begin, end;
    bool first;  // of its sample
  };
  std::vector<Part> parts;
  for (const Tokens length : lengths) {
    std::vector<Part> own;
    for (Tokens begin = 0; begin < length; begin += tile)
      own.push_back({begin, std::min(length, begin + tile), false});
    if (pass == Pass::backward) std::reverse(own.begin(), own.end());
    own[0].first = true;
    parts.insert(parts.end(), own.begin(), own.end());
  }
  double best = std::numeric_limits<double>::infinity();
  std::vector<double> load(packs, 0.0);
  // Neighbouring tiles in one pack are one slice, which costs less than they do apart. `slice` is that of the last one.
  const std::function<void(std::size_t, std::size_t, Part)> place = [&](std::size_t i, std::size_t last,
                                                                        Part slice) {
    if (i == parts.size()) {
      best = std::min(best, *std::max_element(load.begin(), load.end()));
      return;
    }
    const auto price = [&](const Part& part) { return cost.pipeline_seconds(part.begin, part.end, pass); };
    const Part& part = parts[i];
    for (std::size_t k = part.first ? 0 : last; k < packs; ++k) {
      const bool joins = !part.first && k == last;
      const Part whole{joins ? std::min(slice.begin, part.begin) : part.begin,
                       joins ? std::max(slice.end, part.end) : part.end, false};
      const double before = load[k];
      load[k] += price(whole) - (joins ? price(slice) : 0.0);
      place(i + 1, k, whole);
      load[k] = before;
    }
  };
  place(0, 0, parts[0]);
  return best;
}

}  // namespace

TEST_CASE("the largest pack is within a tile of the best slice boundaries") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    std::mt19937 random(seed);
    const Tokens tile = 2048;
    const std::vector<Tokens> lengths = random_lengths(random, tile);
    const std::size_t packs = 2 + random() % 3;
    const CalibratedCost cost = test::cost_of(1);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      INFO("seed " << seed << ", " << packs << " packs");
      const auto samples = test::stream(lengths, cost, pass, 10);
      Packs cut;
      cut_micropacks(std::span<const StreamSample>(samples), packs, SlicePrices(Prices(cost), pass),
                     {.tile = tile}, cut);
      double largest = 0.0;
      for (std::size_t k = 0; k < cut.size(); ++k) {
        double seconds = 0.0;
        for (const Slice& slice : cut[k]) seconds += cost.pipeline_seconds(slice.begin, slice.end, pass);
        largest = std::max(largest, seconds);
      }
      const double best = least_largest_pack(lengths, packs, tile, cost, pass);
      const double last_tile =
          cost.pipeline_seconds(std::max<Tokens>(lengths[0] - tile, 0), lengths[0], pass);
      CHECK(best <= largest * (1 + 1e-9));
      CHECK(largest <= best + last_tile);
    }
  }
}
