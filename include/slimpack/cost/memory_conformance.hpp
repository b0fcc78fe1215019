#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/conformance_findings.hpp"
#include "slimpack/cost/exchange.hpp"

namespace slimpack {

namespace detail {

/// What a stage that recomputes `r` layers keeps where, one more offloaded layer after the other.
template <OffloadingMemoryModel M>
void check_offloading(const M& memory, std::size_t s, std::int32_t r, std::int32_t layers, double tolerance,
                      Findings& findings) {
  double device = memory.activation_bytes(s, r), host = 0.0;
  for (std::int32_t o = 0; o <= layers; ++o) {
    const double left = memory.activation_bytes(s, r, o), there = memory.host_bytes(s, r, o);
    const double slack = tolerance * (std::abs(device) + std::abs(host));
    findings.expect(left >= 0.0 && there >= 0.0 && std::isfinite(left + there), "non-negative",
                    "activation_bytes and host_bytes of stage ", s, " with ", o, " layers offloaded are ",
                    left, " and ", there);
    findings.expect(left <= device + slack && there >= host - slack && (o > 0 || left >= device - slack),
                    "offload", "of stage ", s, " with ", r, " layers recomputed and ", o,
                    " offloaded, the device keeps ", left, " and the host ", there, "; with one less ",
                    device, " and ", host);
    device = left, host = there;
  }
}

}  // namespace detail

/// Examines a memory model with random packs, for its author's own tests, as `check_cost_model` does a cost model.
/// @param layers of each stage. A violation begins with the property that does not hold:
/// - `capacity`: a positive number.
/// - `non-negative`: all bytes are finite and not negative.
/// - `recompute`: one more recomputed layer leaves no more to keep for each token.
/// - `offload`: where the model knows of layers in the host's memory, one more there leaves no more on the device, nor less
///   in the host's memory; and none there leaves what `activation_bytes` says without them.
/// - `monotone`: more tokens need no less workspace, nor less for what members of a group exchange.
/// @returns one sentence for each property that is violated, with the numbers; empty if all hold.
/// Complexity: O(trials * stages) calls of the model, and for each stage as many as pairs of its layers.
template <MemoryModel M>
[[nodiscard]] std::vector<std::string> check_memory_model(const M& memory,
                                                          std::span<const std::int32_t> layers,
                                                          const ConformanceOptions& options = {}) {
  detail::Findings findings(options.seed);
  std::mt19937 random(options.seed);
  const auto not_negative = [&](double bytes, const auto&... what) {
    findings.expect(bytes >= 0.0 && std::isfinite(bytes), "non-negative", what..., " is ", bytes);
  };
  const double capacity = memory.capacity_bytes();
  findings.expect(capacity > 0.0 && std::isfinite(capacity), "capacity", "capacity_bytes is ", capacity);
  for (std::size_t s = 0; s < layers.size(); ++s) {
    not_negative(memory.static_bytes(s), "static_bytes of stage ", s);
    not_negative(memory.kv_gradient_bytes(s), "kv_gradient_bytes of stage ", s);
    for (std::int32_t r = 0; r <= layers[s]; ++r) {
      const double bytes = memory.activation_bytes(s, r);
      not_negative(bytes, "activation_bytes of stage ", s, " with ", r, " layers recomputed");
      if constexpr (OffloadingMemoryModel<M>)
        detail::check_offloading(memory, s, r, layers[s], options.tolerance, findings);
      if (r == 0) continue;
      const double before = memory.activation_bytes(s, r - 1);
      findings.expect(bytes <= before * (1.0 + options.tolerance), "recompute", "activation_bytes of stage ",
                      s, " is ", bytes, " with ", r, " layers recomputed, and ", before, " with ", r - 1);
    }
  }
  for (int trial = 0; trial < options.trials; ++trial) {
    for (std::size_t s = 0; s < layers.size(); ++s) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        const detail::RandomCuts cuts(random, options.longest);
        const auto r = std::uniform_int_distribution<std::int32_t>(0, layers[s])(random);
        const auto group = static_cast<std::size_t>(std::uniform_int_distribution<int>(2, 8)(random));
        const auto check = [&](const char* name, const auto& bytes_of) {
          const double few = bytes_of(cuts.middle), many = bytes_of(cuts.high);
          not_negative(few, name, " of ", cuts.middle, " tokens on stage ", s);
          findings.expect(few <= many * (1.0 + options.tolerance), "monotone", name, " on stage ", s, ", ",
                          detail::pass_text(pass), ", is ", few, " for ", cuts.middle, " tokens and ", many,
                          " for ", cuts.high);
        };
        check("workspace_bytes", [&](Tokens n) { return double(memory.workspace_bytes(s, pass, n, r)); });
        check("exchange_bytes", [&](Tokens n) { return exchange_bytes(memory, s, pass, n, group); });
        for (const KeyExchange e : key_exchanges)
          check("exchange_bytes", [&](Tokens n) { return exchange_bytes(memory, s, pass, n, group, e); });
        check("transit_bytes", [&](Tokens n) { return transit_bytes(memory, s, n); });
      }
    }
  }
  return findings.take();
}

}  // namespace slimpack
