#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/cost/fit.hpp"
#include "slimpack/cost/links.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/cost/priced_models.hpp"
#include "slimpack/cost/synchronise.hpp"
#include "slimpack/schedule/full_pack.hpp"
#include "slimpack/strategy/schemes.hpp"
#include "slimpack/strategy/strategy_models.hpp"

namespace slimpack {

/// What was measured on a pipeline of a scheme: samples alone, on the stage that takes longest.
struct SchemeProfile {
  Scheme scheme;
  std::vector<ProfileRow> forward, backward;
};

/// T(l, P) of a scheme, by pass.
struct SchemeFit {
  Scheme scheme;
  QuadraticFit forward, backward;

  /// Of both passes.
  [[nodiscard]] QuadraticFit both() const {
    return {.a = forward.a + backward.a, .b = forward.b + backward.b, .c = forward.c + backward.c};
  }
};

namespace detail {

[[nodiscard]] inline QuadraticFit fit_pass(const Scheme& scheme, const char* pass,
                                           std::span<const ProfileRow> rows) {
  const std::string place = concat("profile of (", to_text(scheme), "), ", pass, ": ");
  QuadraticFit fit;
  try {
    fit = fit_quadratic(rows);
  } catch (const InvalidInput& error) {
    throw InvalidInput(place + error.what());
  }
  const auto longest = static_cast<double>(std::ranges::max_element(rows, {}, &ProfileRow::tokens)->tokens);
  // Of equal times, a fit has an exact constant and slopes that are rounding alone.
  require(fit.seconds(longest) - fit.c > 1e-9 * fit.c, place, "a constant of ", fit.c,
          " seconds fits best; expected longer samples that take longer");
  return fit;
}

}  // namespace detail

/// Fits T(l, P) to the profile of each scheme. Look at the fits' errors before you plan with them.
/// @throws InvalidInput naming the scheme, pass and row of a profile that says too little, or two profiles of one scheme.
/// Source: Hydraulis, appendix B.2. O(rows + schemes²).
[[nodiscard]] inline std::vector<SchemeFit> fit_schemes(std::span<const SchemeProfile> profiles) {
  require(!profiles.empty(), "there are no profiles; expected one for each scheme");
  std::vector<SchemeFit> fits;
  for (const SchemeProfile& each : profiles) {
    for (std::size_t i = 0; i < fits.size(); ++i)
      require(fits[i].scheme != each.scheme, "profiles ", i, " and ", fits.size(), " are both of (",
              to_text(each.scheme), "); expected one for each scheme");
    fits.push_back({each.scheme, detail::fit_pass(each.scheme, "forward", each.forward),
                    detail::fit_pass(each.scheme, "backward", each.backward)});
  }
  return fits;
}

/// What profiles do not say.
struct ProfiledOptions {
  /// Packs should reach this share of a scheme's best efficiency, UtilLen(P); more of them are made only where so few do not fit.
  double useful_share = 0.85;
  SyncOptions sync = {};
  MemoryOptions memory = {};
};

/// The cost model of a kind of pipelines from fits to its scheme's profile. What is sent from stage to stage, and the
/// synchronisation at the end of a step, follow from the links of the devices. All stages take as long as the one that
/// was measured.
class ProfiledCost : public FittedCost {
 public:
  /// @throws InvalidInput if a pipeline can't train this model, or an option is impossible.
  ProfiledCost(const SchemeFit& fit, const Transformer& model, const Device& device, const Strategy& strategy,
               std::uint32_t kind, const SyncOptions& sync = {})
      : FittedCost(fit.forward, fit.backward, strategy.spec_of_kind(kind).stages(), device.intra_node, 0.0),
        sync_seconds_(slimpack::sync_seconds(strategy, model, device, sync)) {
    const PipelineSpec& spec = strategy.spec_of_kind(kind);
    bytes_per_token_ = bytes_per_bf16 * model.hidden / static_cast<double>(spec.ranks_per_stage());
    for (std::size_t s = 0; s + 1 < spec.stages(); ++s) links_.push_back(stage_link(device, spec, s));
  }

  [[nodiscard]] double transfer_seconds(std::size_t stage, Tokens tokens, Pass) const {
    return links_[stage].seconds(static_cast<double>(tokens) * bytes_per_token_);
  }
  [[nodiscard]] double sync_seconds() const { return sync_seconds_; }

 private:
  double sync_seconds_;
  double bytes_per_token_ = 0.0;
  std::vector<Link> links_;  // [stage], to the one after it
};

/// Makes what `plan_hydraulis` and `candidate_strategies` ask for, of schemes that were profiled. Schemes without a
/// profile are not used. MaxLen(P) comes from the transformer's memory model, without recomputation, which profiles do
/// not price.
/// @param fits as `fit_schemes` gives them. @throws InvalidInput if there are none, or an option is impossible; what is
/// made throws it for a scheme without a profile. Source: Hydraulis, appendices B and C.
[[nodiscard]] inline MakeKindModels profiled_kinds(const Transformer& model, const Device& device,
                                                   std::vector<SchemeFit> fits,
                                                   const ProfiledOptions& options = {}) {
  require(!fits.empty(), "there are no fits; expected one for each scheme");
  require(options.useful_share >= 0.0 && options.useful_share <= 1.0, "useful_share is ",
          options.useful_share, "; expected a share in [0, 1]");
  return [model, device, fits = std::move(fits), options](const Strategy& strategy, std::uint32_t kind) {
    const PipelineSpec& spec = strategy.spec_of_kind(kind);
    const Scheme scheme{.tp = spec.tp, .cp = spec.cp, .pp = static_cast<std::int32_t>(spec.stages())};
    const auto fit =
        std::find_if(fits.begin(), fits.end(), [&](const SchemeFit& each) { return each.scheme == scheme; });
    std::string known;
    for (const SchemeFit& each : fits)
      known += concat(known.empty() ? "" : ", ", "(", to_text(each.scheme), ")");
    require(fit != fits.end(), "there is no profile of (", to_text(scheme), "); expected one of ", known);
    const TransformerMemory memory(model, device, spec, sharing_pipelines(strategy, kind), options.memory);
    PricedModels models = price_models(spec, ProfiledCost(*fit, model, device, strategy, kind, options.sync),
                                       memory, NoAttentionModel{});
    const Tokens longest = largest_full_pack(models.memory, 0);
    if (options.useful_share > 0.0 && longest > 0)
      models.useful_tokens = useful_tokens(fit->both(), longest, options.useful_share);
    return models;
  };
}

}  // namespace slimpack
