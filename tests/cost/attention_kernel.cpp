#include "slimpack/cost/attention_kernel.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/model/presets.hpp"
#include "tests/cost/random_profile.hpp"

using namespace slimpack;

static_assert(AttentionModel<AttentionKernel> && AttentionModel<ProfiledAttention>);

namespace {

/// Tile after tile, and key after key.
double naive_padded_pairs(Tokens begin, Tokens end, Tokens tile) {
  double pairs = 0.0;
  for (Tokens first = begin; first < end; first += tile) {
    const Tokens last = std::min(first + tile, end);  // the last query sees keys [0, last)
    Tokens keys = 0;
    while (keys < last) keys += tile;
    pairs += static_cast<double>(tile) * static_cast<double>(keys);
  }
  return 2.0 * pairs;
}

AttentionRates rates(std::vector<double> values) {
  return {.tile = 64, .query_lengths = {64, 256}, .key_lengths = {128, 1024}, .flops_per_second = values};
}

AttentionKernel h100() {
  return AttentionKernel(assumed_attention_table(device_preset("h100")), transformer_preset("llama-7b"));
}

}  // namespace

TEST_CASE("padded pairs are those of the kernel's tiles", "[attention_kernel]") {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const Tokens begin = static_cast<Tokens>(random() % 700);
    const Tokens end = begin + 1 + static_cast<Tokens>(random() % 700);
    const Tokens tile = 1 + static_cast<Tokens>(random() % 200);
    INFO("seed " << seed << ": tokens " << begin << " to " << end << " in tiles of " << tile);
    CHECK(twice_padded_pairs(begin, end, tile) == naive_padded_pairs(begin, end, tile));
    CHECK(twice_padded_pairs(begin, end, 1) == twice_causal_pairs(begin, end));
  }
}

namespace {

/// @param queries, keys numbers of rows, before padding.
double achieved(const AttentionRates& rates, Tokens queries, Tokens keys) {
  const auto tiles = [&](Tokens rows) { return (rows + rates.tile - 1) / rates.tile; };
  return slimpack::detail::RateLookup(rates)(tiles(queries), tiles(keys));
}

}  // namespace

TEST_CASE("rates are the table's at its lengths, and lie between them elsewhere", "[attention_kernel]") {
  const AttentionRates table = rates({10.0, 20.0, 30.0, 60.0});
  CHECK(achieved(table, 64, 128) == 10.0);
  CHECK(achieved(table, 64, 1024) == 20.0);
  CHECK(achieved(table, 256, 128) == 30.0);
  CHECK(achieved(table, 256, 1024) == 60.0);
  CHECK(achieved(table, 1, 1) == 10.0);          // padded to a tile, and below the table
  CHECK(achieved(table, 10000, 50000) == 60.0);  // beyond it
  CHECK(achieved(table, 64, 576) == Approx(15.0));
  CHECK(achieved(table, 150, 128) == Approx(10.0 + 20.0 * 128.0 / 192.0));  // 192 rows
  CHECK(achieved(table, 192, 576) == Approx(15.0 + (45.0 - 15.0) * 128.0 / 192.0));
}

TEST_CASE("a kernel takes padded FLOPs over the achieved rate", "[attention_kernel]") {
  const Transformer model{"m", 2, 64, 8, 4, 16, 96, 300};
  const AttentionTable table{rates({1e9, 1e9, 1e9, 1e9}), rates({5e8, 5e8, 5e8, 5e8}), 3e-6, "made up"};
  const AttentionKernel kernel(table, model, 2);
  // 4 heads of size 16 on a device, 2 products, 2 FLOPs each: 64 x 64 tiles, 1 + 2 of them.
  const AttentionSeconds s = kernel.chunk_seconds(0, 65);
  CHECK(s.forward == Approx(4.0 * 4 * 16 * (64.0 * 64 * 3) / 1e9));
  CHECK(s.backward == Approx(2.5 * 2 * s.forward));
  CHECK(kernel.launch_seconds() == AttentionSeconds{3e-6, 3e-6});
  const std::vector<Slice> chunks{{0, 0, 65}, {1, 100, 164}};
  const AttentionSeconds both = attention_seconds(kernel, chunks);
  CHECK(both.forward == Approx(3e-6 + s.forward + kernel.chunk_seconds(100, 164).forward));
  CHECK(both.total() == both.forward + both.backward);
  CHECK(attention_seconds(kernel, {}) == AttentionSeconds{});
}

TEST_CASE("the assumed table shows the two effects of Figure 10", "[attention_kernel]") {
  const AttentionKernel kernel = h100();
  const auto latency = [&](Tokens queries, Tokens keys) {
    return kernel.chunk_seconds(keys - queries, keys).forward;
  };
  const auto useful_rate = [&](Tokens queries, Tokens keys) {
    return attention_flops_per_twice_pair(transformer_preset("llama-7b")) *
           twice_causal_pairs(keys - queries, keys) / latency(queries, keys);
  };
  for (const Tokens keys : {1024, 8192, 65536}) {
    INFO(keys << " keys");
    CHECK(latency(16, keys) == latency(128, keys));        // padded to a tile
    CHECK(latency(256, keys) > 1.4 * latency(128, keys));  // two tiles
    CHECK(latency(256, keys) < 1.7 * latency(128, keys));  // which share their loads
    CHECK(useful_rate(256, keys) > 1.2 * useful_rate(128, keys));
  }
  for (Tokens queries = 128; queries < 2048; queries *= 2) {
    CHECK(useful_rate(2 * queries, 65536) > useful_rate(queries, 65536));
  }
  const Device& device = device_preset("h100");
  CHECK(useful_rate(16384, 131072) == Approx(device.peak_flops * device.attention_forward).epsilon(0.01));
  CHECK_THAT(kernel.table().source, Catch::StartsWith("assumed"));
}

TEST_CASE("cutting a chunk that begins at a tile never makes its attention cheaper", "[attention_kernel]") {
  const AttentionKernel kernel = h100();
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    const Tokens begin = 128 * static_cast<Tokens>(random() % 50);
    const Tokens size = 2 + static_cast<Tokens>(random() % (seed % 2 == 0 ? 400 : 20000));
    const Tokens middle = begin + 1 + static_cast<Tokens>(random() % static_cast<std::uint64_t>(size - 1));
    INFO("seed " << seed << ": " << begin << ", " << middle << ", " << begin + size);
    const AttentionSeconds whole = kernel.chunk_seconds(begin, begin + size);
    AttentionSeconds parts = kernel.chunk_seconds(begin, middle);
    parts += kernel.chunk_seconds(middle, begin + size);
    CHECK(parts.forward >= (1.0 - 1e-12) * whole.forward);
    CHECK(parts.backward >= (1.0 - 1e-12) * whole.backward);
  }
}

TEST_CASE("rates from measured times give these times back", "[attention_kernel]") {
  const Transformer& model = transformer_preset("llama-7b");
  const double flops = attention_flops_per_twice_pair(model);
  const std::vector<Tokens> queries{128, 256, 1024}, keys{128, 1024, 4096};
  // Where there are more queries than keys nothing could be measured.
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> seconds{1e-5, 3e-5, 9e-5, none, 5e-5, 1.5e-4, none, 2e-4, 6e-4};
  const AttentionTable table{rates_from_seconds(queries, keys, seconds, flops),
                             rates_from_seconds(queries, keys, seconds, 2.5 * flops), 0.0, "measured"};
  const AttentionKernel kernel(table, model);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    for (std::size_t k = 0; k < keys.size(); ++k) {
      if (queries[i] > keys[k]) continue;
      const AttentionSeconds s = kernel.chunk_seconds(keys[k] - queries[i], keys[k]);
      CHECK(s.forward == Approx(seconds[3 * i + k]));
      CHECK(s.backward == Approx(seconds[3 * i + k]));
    }
  }
  CHECK(table.forward.flops_per_second[3] == table.forward.flops_per_second[4]);
}

TEST_CASE("attention as a profile prices it", "[attention_kernel]") {
  const Profile profile = testing::machine(3, true);
  const ProfiledAttention attention(profile);
  const PackRates& layer = profile.backward.layer;
  CHECK(attention.chunk_seconds(10, 30).backward ==
        Approx(layer.slice_seconds(10, 30) - 20 * layer.per_token));
  CHECK(attention.launch_seconds() == AttentionSeconds{});
}

TEST_CASE("tables that no kernel can have", "[attention_kernel]") {
  const Transformer& model = transformer_preset("llama-7b");
  const auto message = [&](auto change) -> std::string {
    AttentionTable table = assumed_attention_table(device_preset("h100"));
    change(table);
    try {
      AttentionKernel kernel(table, model);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message([](AttentionTable&) {}).empty());
  CHECK(message([](AttentionTable& t) { t.forward.tile = 0; }) ==
        "attention rates: tile is 0; expected a positive number of rows");
  CHECK(message([](AttentionTable& t) { t.backward.query_lengths[1] = 128; }) ==
        "attention rates: query_lengths[1] is 128; expected ascending lengths, here at least 129");
  CHECK(message([](AttentionTable& t) { t.forward.key_lengths.clear(); }) ==
        "attention rates: key_lengths is empty; expected at least one length");
  CHECK(message([](AttentionTable& t) { t.forward.flops_per_second.pop_back(); }) ==
        "attention rates: flops_per_second has 44 entries; expected 45, one for each pair of a query and a "
        "key length");
  CHECK(message([](AttentionTable& t) { t.forward.flops_per_second[7] = -1.0; }) ==
        "attention rates: flops_per_second[7] is -1; expected a positive number");
  CHECK(message([](AttentionTable& t) { t.launch_seconds = std::nan(""); }) ==
        "attention table: launch_seconds is nan; expected zero or a positive number");
  CHECK_THROWS_WITH(AttentionKernel(assumed_attention_table(device_preset("h100")), model, 3),
                    "tp is 3; expected a divisor of the 32 heads of model 'llama-7b'");
  CHECK_THROWS_WITH(rates_from_seconds({128, 256}, {128}, std::vector<double>{1.0, 1.0}, 1.0),
                    "attention rates: no key length is as long as query_lengths[1] = 256; expected at least "
                    "one");
  CHECK_THROWS_WITH(rates_from_seconds({128}, {128}, std::vector<double>{0.0}, 1.0),
                    "attention rates: 128 queries and 128 keys take 0 seconds; expected a positive number");
  CHECK_THROWS_WITH(rates_from_seconds({128}, {128}, std::vector<double>{}, 1.0),
                    Catch::StartsWith("attention rates: there are 0 times; expected 1"));
}
