#include "slimpack/schedule/pack_orders.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/priced_models.hpp"
#include "slimpack/model/presets.hpp"

using namespace slimpack;

TEST_CASE("packs in another order have the prices that they would be given in that order") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const Job job{.model = transformer_preset("llama-7b"),
                  .device = device_preset("a800"),
                  .layout = {.dp = 1, .tp = 2, .cp = seed % 2 == 0 ? 2 : 1, .pp = 4}};
    std::vector<Tokens> lengths;
    for (std::size_t i = 0; i < 12; ++i)
      lengths.push_back(1 + static_cast<Tokens>(random() % (seed % 3 == 0 ? 40000 : 6000)));
    PricedModels models =
        price_models(job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job));
    Scheduler scheduler(lengths, models.prices, models.memory);
    Packs packs;
    for (SampleId i = 0; i < lengths.size(); ++i) {
      packs.add({i, 0, lengths[i]});
      if (random() % 2 == 0 || i + 1 == lengths.size()) packs.close();
    }
    Schedule given;
    given.pipelines = 1;
    given.forward = given.backward = in_rows(std::move(packs));
    scheduler(given, {.fit = FitPolicy::recompute, .each_pack = true});
    if (!given.fits()) continue;
    if (given.recompute.any()) scheduler.price_as_shared(given);
    std::vector<std::uint32_t> order(given.forward.packs.size());
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    const Schedule other = reordered(given, order);
    Schedule priced = other;
    scheduler.price_as_shared(priced);
    CHECK(other.forward_times.seconds == priced.forward_times.seconds);
    CHECK(other.forward_times.transfer == priced.forward_times.transfer);
    CHECK(other.backward_times.seconds == priced.backward_times.seconds);
    CHECK(other.backward_times.transfer == priced.backward_times.transfer);
  }
}
