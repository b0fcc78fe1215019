#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/model/parallel.hpp"
#include "slimpack/model/strategy.hpp"

namespace slimpack {

/// Which layouts of a number of devices are looked at.
struct LayoutSpace {
  std::int64_t devices = 0;                             ///< of the job: dp * tp * cp * pp
  Layout given = {.dp = 0, .tp = 0, .cp = 0, .pp = 0};  ///< sizes that are fixed; 0: any
  bool tp_across_nodes = false;  ///< else tensor parallelism stays within a node, unless it is given
};

/// A layout as text, such as "dp 16, tp 4, cp 1, pp 2".
[[nodiscard]] inline std::string to_text(const Layout& layout) {
  return concat("dp ", layout.dp, ", tp ", layout.tp, ", cp ", layout.cp, ", pp ", layout.pp);
}

namespace detail {

/// Divisors in ascending order. O(sqrt(number)).
[[nodiscard]] inline std::vector<std::int32_t> divisors(std::int64_t number) {
  std::vector<std::int32_t> small, large;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    small.push_back(static_cast<std::int32_t>(d));
    if (d != number / d) large.push_back(static_cast<std::int32_t>(number / d));
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

inline void validate_space(const Transformer& model, const Device& device, const LayoutSpace& space) {
  validate(model);
  validate(device);
  constexpr std::int64_t most = most_listed_devices;
  require(space.devices > 0 && space.devices <= most, "the number of devices is ", space.devices,
          "; expected 1 to ", most);
  struct Size {
    const char* name;
    std::int32_t value;
  };
  const Layout& given = space.given;
  for (const Size size :
       std::array<Size, 4>{{{"dp", given.dp}, {"tp", given.tp}, {"cp", given.cp}, {"pp", given.pp}}})
    require(size.value >= 0, size.name, " is ", size.value, "; expected a positive number, or 0 for any");
}

/// What is given of a space, for messages: " with tp 3, pp 2", or nothing.
[[nodiscard]] inline std::string given_text(const Layout& given) {
  std::string text;
  const auto add = [&](const char* name, std::int32_t value) {
    if (value > 0) text += concat(text.empty() ? " with " : ", ", name, ' ', value);
  };
  add("dp", given.dp);
  add("tp", given.tp);
  add("cp", given.cp);
  add("pp", given.pp);
  return text;
}

}  // namespace detail

/// All layouts of a number of devices on which a model can be trained: tp divides the model's heads and, unless it may
/// cross nodes, the devices of a node; stages have at least one layer, and as even numbers of layers as can be.
/// Ascending by tp, then cp, then pp.
/// @throws InvalidInput if there is none, or the model, the device or a size is impossible.
/// Complexity: O(sqrt(devices)) and the cube of the number of divisors.
[[nodiscard]] inline std::vector<Layout> layouts(const Transformer& model, const Device& device,
                                                 const LayoutSpace& space) {
  detail::validate_space(model, device, space);
  const Layout& given = space.given;
  const auto allowed = [](std::int32_t wanted, std::int32_t size) { return wanted == 0 || wanted == size; };
  const auto in_node = [&](std::int32_t tp) {
    return space.tp_across_nodes || given.tp > 0 || device.devices_per_node % tp == 0;
  };
  std::vector<Layout> all;
  for (const std::int32_t tp : detail::divisors(space.devices)) {
    if (!allowed(given.tp, tp) || model.heads % tp != 0 || !in_node(tp)) continue;
    for (const std::int32_t cp : detail::divisors(space.devices / tp)) {
      if (!allowed(given.cp, cp)) continue;
      const std::int64_t rest = space.devices / tp / cp;
      for (const std::int32_t pp : detail::divisors(rest)) {
        const auto dp = static_cast<std::int32_t>(rest / pp);
        if (pp > model.layers || !allowed(given.pp, pp) || !allowed(given.dp, dp)) continue;
        all.push_back({.dp = dp, .tp = tp, .cp = cp, .pp = pp});
      }
    }
  }
  require(!all.empty(), space.devices, " devices have no layout", detail::given_text(given), " for model '",
          visible(model.name), "'; expected dp * tp * cp * pp to be the devices, tp to divide the ",
          model.heads, " heads",
          given.tp > 0 || space.tp_across_nodes
              ? ""
              : concat(" and the ", device.devices_per_node, " devices of a node"),
          ", and pp to be at most the ", model.layers, " layers");
  return all;
}

}  // namespace slimpack
