#include "slimpack/schedule/full_pack.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "slimpack/cost/memory.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/strategy/place_pipelines.hpp"

using namespace slimpack;

TEST_CASE("the largest pack of a full pipeline is where appendix B.1's line meets the memory") {
  const Transformer model = transformer_preset("llama-13b");
  const Device device = device_preset("a800");
  struct Case {
    std::int32_t tp, pp, pipelines;
  };
  for (const Case& c : {Case{8, 2, 1}, Case{4, 4, 2}, Case{8, 4, 3}, Case{4, 2, 4}}) {
    CAPTURE(c.tp, c.pp, c.pipelines);
    const Strategy strategy = place_pipelines(model, device, std::int64_t{c.tp} * c.pp * c.pipelines,
                                              {{{c.tp, 1, c.pp}, c.pipelines}});
    const PipelineSpec& spec = strategy.spec_of_kind(0);
    const auto memory = [&](double reserve) {
      return Memory(TransformerMemory(model, device, spec, c.pipelines, {.reserve_bytes = reserve}),
                    spec.layers, true);
    };
    // The first stage: its layers and the embedding, in bf16, with fp32 gradients and a share of the optimiser's 12 bytes.
    const double layer = 4.0 * 5120 * 5120 + 3.0 * 5120 * 13824 + 2 * 5120, embedding = 32000.0 * 5120;
    const double states = (6 + 12.0 / c.pipelines) / c.tp * (40.0 / c.pp * layer + embedding);
    // One pack for each stage: all layers' activations; keys' and values' gradients, and one layer's working set.
    const double per_token = (40 * (2.0 * (4 * 5120 + 2 * 128 * 80 + 3 * 13824) + 4 * 40) +
                              40.0 / c.pp * 2.0 * 2 * 5120 + 2.0 * 2 * 5120 + 2.0 * 2 * 13824) /
                             c.tp;
    for (const double reserve : {0.0, 6e9, 12e9}) {
      const double line = std::floor((85.2e9 - reserve - states) / per_token);
      CHECK(std::abs(static_cast<double>(largest_full_pack(memory(reserve), 0)) - line) <= 1.0);
    }
    const Tokens most = largest_full_pack(memory(6e9), 0);
    CHECK(full_pack_shortage(memory(6e9), most, 0) <= 0.0);
    CHECK(full_pack_shortage(memory(6e9), most + 1, 0) > 0.0);
    // The more layers are recomputed, the longer; more than there are count as all.
    const std::vector<Tokens> each = largest_full_packs(memory(6e9));
    REQUIRE(each.size() == static_cast<std::size_t>(40 / c.pp) + 1);
    CHECK(each.front() == most);
    CHECK(each.back() == largest_full_pack(memory(6e9), 1000));
    CHECK(each.back() > 2 * most);
  }
}
