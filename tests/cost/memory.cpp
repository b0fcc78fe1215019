#include "slimpack/cost/memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "slimpack/model/presets.hpp"

using namespace slimpack;

static_assert(MemoryModel<TransformerMemory>);

namespace {

Job llama_13b(std::int32_t tp = 1, std::int32_t cp = 1) {
  return {transformer_preset("llama-13b"), device_preset("h100"), {.dp = 2, .tp = tp, .cp = cp, .pp = 8}};
}

}  // namespace

TEST_CASE("memory counts weights, gradients, optimiser and activations") {
  Job one = llama_13b();
  one.layout = {.dp = 4, .tp = 2, .cp = 1, .pp = 8};
  const double parameters = 5 * (4.0 * 5120 * 5120 + 3.0 * 5120 * 13824 + 2 * 5120) / 2;
  const double expected[] = {18.0, 2 + 4 + 12.0 / 4, 2 + 4.0 / 4 + 12.0 / 4, 18.0 / 4};
  for (int zero = 0; zero <= 3; ++zero) {
    const TransformerMemory memory(one, {.zero_stage = zero, .reserve_bytes = 1e9});
    CHECK(memory.static_bytes(3) == Approx(parameters * expected[zero] + 1e9));
  }
  const TransformerMemory memory(one);
  const double layer = (2.0 * (4 * 5120 + 2 * 128 * 80 + 3 * 13824) + 4 * 40) / 2,
               kept = (2.0 * 5120 + 4.0 * 5120) / 2;
  CHECK(memory.activation_bytes(3, 0) == Approx(5 * layer));
  CHECK(memory.activation_bytes(3, 2) == Approx(3 * layer + 2 * kept));
  CHECK(memory.kv_gradient_bytes(3) == Approx(5 * 2.0 * 2 * 5120 / 2));
  CHECK(memory.workspace_bytes(7, Pass::forward, 1000, 0) >
        memory.workspace_bytes(3, Pass::forward, 1000, 0));
  CHECK(memory.workspace_bytes(3, Pass::backward, 1000, 1) >
        memory.workspace_bytes(3, Pass::backward, 1000, 0));
  CHECK_THROWS_WITH(TransformerMemory(one, {.zero_stage = 4}), Catch::Contains("zero_stage is 4"));
}

TEST_CASE("memory counts working sets, chunks of logits and buffers for host transfers") {
  Job one = llama_13b();
  one.layout = {.dp = 4, .tp = 2, .cp = 3, .pp = 8};
  const double ranks = 6, layer = (2.0 * (4 * 5120 + 2 * 128 * 80 + 3 * 13824) + 4 * 40) / ranks;
  const double working = (2.0 * 2 * 5120 + 2.0 * 2 * 13824) / ranks;
  const TransformerMemory plain(one, {.head_chunk_tokens = 250, .kv_gradient_element_bytes = 4});
  CHECK(plain.workspace_bytes(3, Pass::forward, 900, 0) == Approx(900 * working));
  CHECK(plain.workspace_bytes(3, Pass::forward, 900, 2) == Approx(900 * working));
  CHECK(plain.workspace_bytes(3, Pass::backward, 900, 0) == Approx(900 * working));
  CHECK(plain.workspace_bytes(3, Pass::backward, 900, 2) == Approx(900 * (working + layer)));
  CHECK(plain.workspace_bytes(7, Pass::forward, 900, 0) == Approx(900 * working + 250 * 6.0 * 32000 / 2));
  CHECK(plain.workspace_bytes(7, Pass::forward, 300, 0) == Approx(300 * working + 100 * 6.0 * 32000 / 2));
  CHECK(plain.kv_gradient_bytes(3) == Approx(5 * 4.0 * 2 * 5120 / ranks));

  const TransformerMemory offloaded(one, {.offload = 0.75});
  CHECK(offloaded.activation_bytes(3, 0) == Approx(5 * layer * 0.25));
  CHECK(offloaded.activation_bytes(3, 4) == Approx(plain.activation_bytes(3, 4) * 0.25));
  CHECK(offloaded.workspace_bytes(3, Pass::forward, 900, 0) == Approx(900 * (working + 2 * 0.75 * layer)));
  CHECK(offloaded.static_bytes(3) == TransformerMemory(one).static_bytes(3));
  CHECK_THROWS_WITH(TransformerMemory(one, {.offload = 1.5}), Catch::Contains("offload is 1.5"));
  CHECK_THROWS_WITH(TransformerMemory(one, {.head_chunk_tokens = 0}),
                    Catch::Contains("head_chunk_tokens is 0"));
}

TEST_CASE("layers wait in the host's memory with all but their keys and values, which stay") {
  Job one = llama_13b();
  one.layout = {.dp = 4, .tp = 2, .cp = 3, .pp = 8};
  const TransformerMemory memory(one);
  const double ranks = 6, layer = (2.0 * (4 * 5120 + 2 * 128 * 80 + 3 * 13824) + 4 * 40) / ranks,
               keys_values = 2.0 * 2 * 5120 / ranks, input = 2.0 * 5120 / ranks;
  for (int r = 0; r <= 5; ++r) {
    for (int o = 0; o <= 5; ++o) {
      INFO(r << " layers recomputed, " << o << " offloaded");
      const int inputs = std::max(0, o + r - 5);
      CHECK(memory.host_bytes(3, r, o) == Approx((o - inputs) * (layer - keys_values) + inputs * input));
      CHECK(memory.activation_bytes(3, r, o) + memory.host_bytes(3, r, o) ==
            Approx(memory.activation_bytes(3, r)));
    }
  }
  CHECK(memory.activation_bytes(3, 2, 5) == Approx(5 * keys_values));
  CHECK(memory.transit_bytes(3, 900) == Approx(2 * 900 * layer));
}

TEST_CASE("offloaded layers follow the recomputed ones, and reach back where too few follow") {
  CHECK(offloaded_layers(6, 0, 2).first == 0);
  CHECK(offloaded_layers(6, 3, 2).first == 3);
  CHECK(offloaded_layers(6, 5, 2).first == 4);
  CHECK(offloaded_layers(6, 6, 6).first == 0);
  CHECK(offloaded_layers(6, 6, 6).end == 6);
  CHECK(offloaded_layers(6, 4, 0).size() == 0);
}

TEST_CASE("gathered keys and values, and backward their gradients, are held while a pack runs") {
  const TransformerMemory without(llama_13b(2, 4)), with(llama_13b(2, 4), {.gathers_keys = true});
  const double bytes = 3000.0 * 3.0 / 4.0 * kv_bytes_per_token(llama_13b().model, 2);
  for (const std::size_t stage : {std::size_t{0}, std::size_t{7}}) {
    CHECK(with.workspace_bytes(stage, Pass::forward, 3000, 0) ==
          Approx(without.workspace_bytes(stage, Pass::forward, 3000, 0) + bytes));
    CHECK(with.workspace_bytes(stage, Pass::backward, 3000, 1) ==
          Approx(without.workspace_bytes(stage, Pass::backward, 3000, 1) + 2 * bytes));
  }
}

TEST_CASE("merged pipelines that gather keys hold those of the others") {
  const TransformerMemory memory(llama_13b(2, 4)), gathers(llama_13b(2, 4), {.gathers_keys = true});
  const double bytes = 3000.0 * 2.0 / 3.0 * kv_bytes_per_token(llama_13b().model, 2);
  CHECK(exchange_bytes(memory, 0, Pass::forward, 3000, 3, KeyExchange::all_gather) == Approx(bytes));
  CHECK(exchange_bytes(memory, 0, Pass::backward, 3000, 3, KeyExchange::all_gather) == Approx(2 * bytes));
  CHECK(exchange_bytes(gathers, 0, Pass::forward, 3000, 3) == Approx(bytes));
  CHECK(exchange_bytes(gathers, 0, Pass::forward, 3000, 3, KeyExchange::ring) == 0.0);
  CHECK(exchange_bytes(memory, 0, Pass::forward, 3000, 3) == 0.0);
  CHECK(exchange_bytes(memory, 0, Pass::forward, 3000, 1, KeyExchange::all_gather) == 0.0);
}

TEST_CASE("a pipeline's stages hold what its spec says") {
  const Transformer model = transformer_preset("llama-13b");
  const Device device = device_preset("h100");
  const PipelineSpec spec{.tp = 2, .cp = 1, .layers = {7, 20, 13}, .devices = {{0, 1}, {2, 3}, {4, 5}}};
  const TransformerMemory memory(model, device, spec, 3, {.reserve_bytes = 0.0});
  REQUIRE(memory.stages() == 3);
  // bf16 parameters, fp32 gradients, and a third of 12 bytes of the optimiser, on each of two ranks.
  const double layer = layer_parameters(model), ends = embedding_parameters(model);
  CHECK(memory.static_bytes(0) == Approx(10.0 / 2 * (7 * layer + ends)));
  CHECK(memory.static_bytes(1) == Approx(10.0 / 2 * 20 * layer));
  CHECK(memory.static_bytes(2) == Approx(10.0 / 2 * (13 * layer + ends + model.hidden)));
  CHECK(memory.activation_bytes(1, 5) / memory.activation_bytes(2, 0) ==
        Approx((15 * memory.activation_bytes(0, 0) / 7 + 5 * memory.activation_bytes(0, 7) / 7) /
               (13 * memory.activation_bytes(0, 0) / 7)));
  const PipelineSpec wrong{.tp = 2, .cp = 1, .layers = {7, 20}, .devices = {{0, 1}, {2, 3}}};
  CHECK_THROWS_WITH(TransformerMemory(model, device, wrong, 3),
                    Catch::Contains("the stages hold 27 layers; expected the 40"));
  CHECK_THROWS_WITH(TransformerMemory(model, device, spec, 0), Catch::Contains("replicas is 0"));
}
