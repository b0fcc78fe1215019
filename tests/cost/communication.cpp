#include "slimpack/cost/communication.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "slimpack/cost/links.hpp"
#include "slimpack/model/presets.hpp"

using namespace slimpack;

// Bytes are worked out by hand; links are the H100's: 360 GB/s in a node of 8 devices, 45 GB/s between nodes.

namespace {

constexpr double in_node = 360e9, between_nodes = 45e9;

struct Case {
  const char* model;
  std::int32_t tp, cp;
  double bytes, bandwidth;
};

/// Link of `ranks` devices from the first of a node on.
Link link(std::int64_t ranks) {
  std::vector<DeviceId> devices(static_cast<std::size_t>(ranks));
  std::iota(devices.begin(), devices.end(), DeviceId{0});
  return link_between(device_preset("h100"), devices);
}

ExchangeRates rates(const Case& c, KeyExchange exchange, Pass pass) {
  return exchange_rates(transformer_preset(c.model), c.tp, c.cp, link(std::int64_t{c.tp} * c.cp), exchange,
                        pass);
}

}  // namespace

TEST_CASE("tensor parallelism moves hidden states four times forward and six times backward") {
  // A token's 8192 numbers take 16384 bytes, of which a rank gets (tp - 1) / tp from others.
  const Case cases[] = {
      {"llama-70b", 2, 1, 8192, in_node},
      {"llama-70b", 8, 1, 14336, in_node},
      {"llama-70b", 8, 4, 3584, in_node},  // context parallelism crosses the node's border, these do not
      {"llama-70b", 16, 1, 15360, between_nodes},
  };
  const auto seconds = [](const Case& c, Pass pass) {
    return tensor_parallel_seconds(transformer_preset(c.model), c.tp, c.cp, link(c.tp), pass);
  };
  for (const Case& c : cases) {
    CAPTURE(c.tp, c.cp);
    CHECK(seconds(c, Pass::forward) == Approx(4 * c.bytes / c.bandwidth).epsilon(1e-12));
    CHECK(seconds(c, Pass::backward) == Approx(6 * c.bytes / c.bandwidth).epsilon(1e-12));
  }
  CHECK(seconds({"llama-70b", 1, 4, 0, 1}, Pass::forward) == 0.0);
  CHECK(seconds({"llama-70b", 1, 4, 0, 1}, Pass::backward) == 0.0);
}

TEST_CASE("a ring moves the keys and values of others, and backward their gradients; so does an all-gather") {
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
    for (const KeyExchange exchange : {KeyExchange::ring, KeyExchange::all_gather}) {
      CAPTURE(c.model, c.tp, c.cp, exchange_name(exchange));
      const ExchangeRates forward = rates(c, exchange, Pass::forward),
                          backward = rates(c, exchange, Pass::backward);
      CHECK(forward.per_key == Approx(c.bytes / c.bandwidth).epsilon(1e-12));
      CHECK(backward.per_key == Approx(2 * c.bytes / c.bandwidth).epsilon(1e-12));
      CHECK(forward.per_query + backward.per_query == 0.0);
      CHECK(forward.hidden == (exchange == KeyExchange::ring ? 1.0 : 0.0));
    }
  }
}

TEST_CASE("an all-to-all moves a rank's queries, keys, values and outputs to where their heads are") {
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
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const ExchangeRates r = rates(c, KeyExchange::all_to_all, pass);
      CHECK(r.per_query == Approx(c.bytes / c.bandwidth).epsilon(1e-12));
      CHECK(r.per_key == 0.0);
      CHECK(r.hidden == 0.0);
    }
  }
  CHECK(rates({"llama-13b", 8, 1, 0, 1}, KeyExchange::all_to_all, Pass::forward).seconds(0, 1000, 0.0) ==
        0.0);
}

TEST_CASE("ranks that heads can't be shared by have no all-to-all") {
  const ExchangeSet some{KeyExchange::ring, KeyExchange::all_to_all};
  CHECK(possible_exchanges(transformer_preset("llama-13b"), 1, 4, some) == some);
  CHECK(possible_exchanges(transformer_preset("llama-13b"), 1, 3, some) == ExchangeSet{KeyExchange::ring});
  CHECK(possible_exchanges(transformer_preset("llama-13b"), 1, 3, {KeyExchange::all_to_all}).empty());
  CHECK(possible_exchanges(transformer_preset("llama-70b"), 8, 2, some) == some);
  CHECK(exchange_names(some) == "ring or all_to_all");
  CHECK(exchange_names({}) == "none");
  CHECK(some.size() == 2);
}

TEST_CASE("the cheapest exchange is taken; attention hides the ring alone, and nothing hides memory") {
  const ExchangeRates ring{.per_key = 2.0, .hidden = 1.0, .per_prefix = 0.5},
      half{.per_key = 2.0, .hidden = 0.5};
  CHECK(ring.seconds(90, 100, 150.0) == 50.0 + 45.0);
  CHECK(ring.seconds(90, 100, 250.0) == 45.0);
  CHECK(ring.seconds(0, 1, 0.0) == 2.0);
  CHECK(half.seconds(90, 100, 60.0) == 140.0);
  CHECK(half.seconds(90, 100, 250.0) == 100.0);
  const ExchangeRates heads{.per_query = 7.0}, gather{.per_key = 30.0};
  CHECK(heads.seconds(90, 100, 1e6) == 70.0);
  CHECK(gather.seconds(90, 100, 1e6) == 3000.0);
  CheapestExchange cheapest;
  CHECK(cheapest.seconds(90, 100, 0.0) == 0.0);
  CHECK(cheapest.is_polynomial());
  cheapest.add(heads);
  CHECK(cheapest.is_polynomial());
  CHECK(cheapest.polynomial().per_query == 7.0);
  cheapest.add(ring);
  CHECK_FALSE(cheapest.is_polynomial());
  CHECK(cheapest.seconds(90, 100, 0.0) == 70.0);
  CHECK(cheapest.seconds(90, 100, 250.0) == 45.0);
  CheapestExchange hidden;
  hidden.add(ring);
  CHECK_FALSE(hidden.is_polynomial());
}

TEST_CASE("a prefix is read forward; backward it is read, and its gradients are written, read and added") {
  CHECK(prefix_bytes(100.0, 2.0, Pass::forward) == 100.0);
  CHECK(prefix_bytes(100.0, 2.0, Pass::backward) == 500.0);
  CHECK(prefix_bytes(100.0, 4.0, Pass::backward) == 700.0);
}

TEST_CASE("links follow from devices, and the slowest of a stage counts") {
  const Device d = device_preset("h100");
  const auto between = [&](std::vector<DeviceId> devices) { return link_between(d, devices).bandwidth; };
  CHECK(between({0, 7}) == in_node);
  CHECK(between({8, 15, 9}) == in_node);
  CHECK(between({7, 8}) == between_nodes);
  CHECK(between({3}) == in_node);
  // Two context ranks of two tensor ranks: (0, 1) and (2, 3); (6, 7) and (8, 9); (7, 8) and (9, 10).
  const PipelineSpec spec{
      .tp = 2, .cp = 2, .layers = {1, 1, 1}, .devices = {{0, 1, 2, 3}, {6, 7, 8, 9}, {7, 8, 9, 10}}};
  CHECK(tensor_link(d, spec, 0).bandwidth == in_node);
  CHECK(tensor_link(d, spec, 1).bandwidth == in_node);
  CHECK(tensor_link(d, spec, 2).bandwidth == between_nodes);
  CHECK(context_link(d, spec, 0).bandwidth == in_node);
  CHECK(context_link(d, spec, 1).bandwidth == between_nodes);
  CHECK(context_link(d, spec, 2).bandwidth == between_nodes);
  CHECK(stage_link(d, spec, 0).bandwidth == between_nodes);
  CHECK(stage_link(d, spec, 1).bandwidth == between_nodes);
  const PipelineSpec near{.tp = 2, .cp = 1, .layers = {1, 1}, .devices = {{0, 1}, {4, 5}}};
  CHECK(stage_link(d, near, 0).bandwidth == in_node);
  // A device whose nodes are connected better than its devices.
  Device odd = d;
  odd.inter_node.bandwidth = 1e12;
  CHECK(stage_link(odd, spec, 0).bandwidth ==
        in_node);  // ranks 2 and 3 reach devices 8 and 9, ranks 0 and 1 do not
  CHECK(tensor_link(odd, spec, 2).bandwidth == in_node);
}

TEST_CASE("tensor parallelism over whole nodes uses all of their network interfaces") {
  const auto link = [](const Device& device, std::int32_t tp) {
    PipelineSpec spec{.tp = tp, .cp = 1, .layers = {1}, .devices = {std::vector<DeviceId>(std::size_t(tp))}};
    std::iota(spec.devices[0].begin(), spec.devices[0].end(), DeviceId{0});
    return tensor_link(device, spec, 0).bandwidth;
  };
  Device d = device_preset("a800");
  for (const double bandwidth : {1e9, 5e9, 1e12}) {
    d.inter_node.bandwidth = bandwidth;
    CAPTURE(bandwidth);
    CHECK(link(d, 8) == d.intra_node.bandwidth);
    CHECK(link(d, 16) == std::min(8 * bandwidth, d.intra_node.bandwidth));
    CHECK(link(d, 32) == link(d, 16));
    // One rank on the second node has one interface alone.
    CHECK(link(d, 9) == std::min(bandwidth, d.intra_node.bandwidth));
  }
}

TEST_CASE("presets' links are of one direction, and achieve a share of what is stated for both") {
  struct Stated {
    const char* device;
    double nvlink, network;
  };
  for (const Stated& s :
       {Stated{"h100", 900e9, 400e9 / 8}, Stated{"h200", 900e9, 400e9 / 8}, Stated{"h800", 400e9, 400e9 / 8},
        Stated{"a800", 400e9, 200e9 / 8}, Stated{"a100", 600e9, 200e9 / 8}}) {
    CAPTURE(s.device);
    const Device& d = device_preset(s.device);
    CHECK(d.intra_node.bandwidth == Approx(0.8 * s.nvlink / 2));
    CHECK(d.inter_node.bandwidth == Approx(0.9 * s.network));
    CHECK(d.inter_node.bandwidth < d.intra_node.bandwidth);
  }
}
