#include "slimpack/strategy/switch_seconds.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "slimpack/model/presets.hpp"

using namespace slimpack;

namespace {

/// One pipeline of one stage on these devices, with tensor parallelism.
Strategy one_stage(const Transformer& model, const std::vector<DeviceId>& devices) {
  return strategy_of({{.tp = static_cast<std::int32_t>(devices.size()),
                       .cp = 1,
                       .layers = {model.layers},
                       .devices = {devices}}});
}

}  // namespace

TEST_CASE("a switch moves parameters once and gradients once, over the link that is between the devices") {
  const Transformer model = transformer_preset("llama-7b");
  Device device = device_preset("h100");
  device.devices_per_node = 4;
  const std::vector<std::int64_t> sizes = unit_sizes(model);
  const auto over = [&](const Link& link, double share, double number_bytes) {
    double seconds = 0.0;
    for (const std::int64_t n : sizes) seconds += link.seconds(share * static_cast<double>(n) * number_bytes);
    return seconds;
  };
  constexpr double weight = 2.0, gradient = 4.0;
  const Strategy first = one_stage(model, {0}), near = one_stage(model, {1}), far = one_stage(model, {4}),
                 both = one_stage(model, {0, 1});
  const auto seconds = [&](const Strategy& from, const Strategy& to) {
    return switch_seconds(from, to, model, device, weight, gradient);
  };
  CHECK(seconds(first, near) ==
        Approx(over(device.intra_node, 1.0, weight) + over(device.intra_node, 1.0, gradient)));
  CHECK(seconds(first, far) ==
        Approx(over(device.inter_node, 1.0, weight) + over(device.inter_node, 1.0, gradient)));
  // A half stays where it is.
  CHECK(seconds(first, both) ==
        Approx(over(device.intra_node, 0.5, weight) + over(device.intra_node, 0.5, gradient)));
  CHECK(seconds(first, both) == Approx(seconds(both, first)));
  CHECK_THROWS_WITH(switch_seconds(first, near, model, device, 0.0, gradient),
                    Catch::Contains("number_bytes is 0"));
}

TEST_CASE("gradients go to the optimiser of the strategy that follows") {
  const Transformer model = transformer_preset("llama-7b");
  Device device = device_preset("h100");
  device.devices_per_node = 1;
  const PipelineSpec left = one_stage(model, {0}).pipelines.front(),
                     right = one_stage(model, {1}).pipelines.front();
  const Strategy one = strategy_of({left}), two = strategy_of({left, right});
  // Two replicas share the optimiser; one has all of it. Parameters go to the replica that is new, and stay otherwise.
  const double weights_alone =
      switch_seconds(one, two, model, device, 2.0, 1e-9) - switch_seconds(two, one, model, device, 2.0, 1e-9);
  double moved = 0.0;
  for (const std::int64_t n : unit_sizes(model)) moved += 2.0 * static_cast<double>(n);
  CHECK(weights_alone == Approx(moved / device.inter_node.bandwidth).epsilon(0.2));
  const double half = switch_seconds(one, two, model, device, 1e-9, 4.0),
               all = switch_seconds(two, one, model, device, 1e-9, 4.0);
  CHECK(all == Approx(2.0 * half).epsilon(0.05));
}
