#include "slimpack/cost/communication.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "slimpack/model/presets.hpp"

using namespace slimpack;

// Bytes are worked out by hand; links are the H100's: 360 GB/s in a node of 8 devices, 45 GB/s between nodes.

namespace {

constexpr double in_node = 360e9, between_nodes = 45e9;

Job job(const char* model, std::int32_t tp, std::int32_t cp) {
  return {transformer_preset(model), device_preset("h100"), {.dp = 1, .tp = tp, .cp = cp, .pp = 1}};
}

struct Case {
  const char* model;
  std::int32_t tp, cp;
  double bytes, bandwidth;
};

}  // namespace

TEST_CASE("tensor parallelism moves hidden states four times forward and six times backward") {
  // A token's 8192 numbers take 16384 bytes, of which a rank gets (tp - 1) / tp from others.
  const Case cases[] = {
      {"llama-70b", 2, 1, 8192, in_node},
      {"llama-70b", 8, 1, 14336, in_node},
      {"llama-70b", 8, 4, 3584, in_node},  // context parallelism crosses the node's border, these do not
      {"llama-70b", 16, 1, 15360, between_nodes},
  };
  for (const Case& c : cases) {
    CAPTURE(c.tp, c.cp);
    const Job on = job(c.model, c.tp, c.cp);
    CHECK(tensor_parallel_seconds(on, Pass::forward) == Approx(4 * c.bytes / c.bandwidth).epsilon(1e-12));
    CHECK(tensor_parallel_seconds(on, Pass::backward) == Approx(6 * c.bytes / c.bandwidth).epsilon(1e-12));
  }
  CHECK(tensor_parallel_seconds(job("llama-70b", 1, 4), Pass::forward) == 0.0);
  CHECK(tensor_parallel_seconds(job("llama-70b", 1, 4), Pass::backward) == 0.0);
}

TEST_CASE("a ring moves the keys and values of others, and backward their gradients too") {
  // Keys and values of a token: 2 * 2 bytes * 128 * 40 = 20480 for 13B; with 8 groups of heads 4096 for 70B.
  const Case cases[] = {
      {"llama-13b", 1, 2, 10240, in_node},
      {"llama-13b", 1, 4, 15360, in_node},
      {"llama-13b", 8, 2, 1280, between_nodes},
      {"llama-70b", 1, 2, 2048, in_node},
      {"llama-70b", 1, 4, 3072, in_node},
      {"llama-70b", 4, 2, 512, in_node},
      {"llama-70b", 4, 4, 768, between_nodes},
      {"llama-70b", 16, 2, 256, between_nodes},  // a rank of 16 holds one of 8 key heads, as a rank of 8 does
  };
  for (const Case& c : cases) {
    CAPTURE(c.model, c.tp, c.cp);
    const Job on = job(c.model, c.tp, c.cp);
    const auto forward = context_parallel_rates(on, ContextExchange::ring, Pass::forward);
    const auto backward = context_parallel_rates(on, ContextExchange::ring, Pass::backward);
    CHECK(forward.ring_per_key == Approx(c.bytes / c.bandwidth).epsilon(1e-12));
    CHECK(backward.ring_per_key == Approx(2 * c.bytes / c.bandwidth).epsilon(1e-12));
    for (const auto& rates : {forward, backward}) {
      CHECK(std::isinf(rates.ulysses_per_query));
      CHECK(std::isinf(rates.gather_per_key));
    }
    CHECK(context_parallel_rates(on, ContextExchange::cheapest, Pass::forward).ring_per_key ==
          forward.ring_per_key);
  }
}

TEST_CASE("Ulysses moves a rank's queries, keys, values and outputs to where their heads are") {
  // Of a token: 2 bytes * 128 * (2 * 40 + 2 * 40) = 40960 for 13B, 2 bytes * 128 * (2 * 64 + 2 * 8) = 36864
  // for 70B. A rank has 1 / cp of the tokens and sends (cp - 1) / cp of that.
  const Case cases[] = {
      {"llama-13b", 1, 2, 10240, in_node},
      {"llama-13b", 1, 4, 7680, in_node},
      {"llama-13b", 2, 4, 3840, in_node},
      {"llama-13b", 5, 2, 2048, between_nodes},
      {"llama-70b", 1, 2, 9216, in_node},
      {"llama-70b", 1, 4, 6912, in_node},
      {"llama-70b", 4, 2, 2304, in_node},
      // Here 16 or 64 ranks have one of 8 key heads each, of 2 bytes * 2 * 128 a token.
      {"llama-70b", 8, 2, (4 + 1) * 512 / 2, between_nodes},
      {"llama-70b", 8, 8, (1 + 1) * 512 * 7 / 8, between_nodes},
  };
  for (const Case& c : cases) {
    CAPTURE(c.model, c.tp, c.cp);
    const Job on = job(c.model, c.tp, c.cp);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const auto rates = context_parallel_rates(on, ContextExchange::ulysses, pass);
      CHECK(rates.ulysses_per_query == Approx(c.bytes / c.bandwidth).epsilon(1e-12));
      CHECK(std::isinf(rates.ring_per_key));
      CHECK(std::isinf(rates.gather_per_key));
      CHECK(context_parallel_rates(on, ContextExchange::cheapest, pass).ulysses_per_query ==
            rates.ulysses_per_query);
    }
  }
  const auto three = context_parallel_rates(job("llama-13b", 1, 3), ContextExchange::cheapest, Pass::forward);
  CHECK(std::isinf(three.ulysses_per_query));  // 40 heads on 3 ranks
}

TEST_CASE("the ring is paid for every key less what attention hides, the all-to-all for every query") {
  const ContextParallelRates rates{.ring_per_key = 2.0, .ulysses_per_query = 7.0, .gather_per_key = 30.0};
  CHECK(rates.seconds(90, 100, 150.0) == 50.0);
  CHECK(rates.seconds(90, 100, 250.0) == 0.0);
  CHECK(rates.seconds(90, 100, 0.0) == 70.0);
  CHECK(rates.seconds(0, 1, 0.0) == 2.0);
  const double never = std::numeric_limits<double>::infinity();
  CHECK(ContextParallelRates{never, never, 30.0}.seconds(90, 100, 1e6) == 3000.0);
  const auto alone = context_parallel_rates(job("llama-13b", 8, 1), ContextExchange::ulysses, Pass::forward);
  CHECK(alone.seconds(0, 1000, 0.0) == 0.0);
}
