#include "ablation.hpp"

#include <functional>
#include <span>
#include <utility>

namespace slimpack::command {

namespace {

/// Something that a planner does to make steps shorter, and how to do without it.
struct Technique {
  std::string name;
  std::function<void(Variant&)> leave_out;
};

/// A planner without any of its techniques, and all of them in the order in which they are added.
struct Techniques {
  std::string whole_samples;  ///< the planner to compare with, which moves whole samples
  std::string none;           ///< what is left without all techniques
  std::vector<Technique> all;
};

/// Plans with two packs for each stage.
Plan plan_two_packs_per_stage(std::span<const Tokens> lengths, const JobOptions& options) {
  JobOptions own = options;
  own.slimpack.packs = 2 * static_cast<std::size_t>(options.job.layout.pp);
  return find_planner("slimpack").plan(lengths, own);
}

Techniques slimpack_techniques(const JobOptions& given) {
  Techniques own{.whole_samples = "megatron", .none = "slices", .all = {}};
  if (given.slimpack.packs == 0) {
    own.none = "slices, 2 packs for each stage";
    own.all.push_back({"number of packs", [](Variant& v) { v.planner.plan = &plan_two_packs_per_stage; }});
  }
  const auto add = [&](std::string name, auto&& leave_out) {
    own.all.push_back({std::move(name), [leave_out](Variant& v) { leave_out(v.options.slimpack); }});
  };
  add("tail filling", [](SlimPackOptions& o) { o.fill = false; });
  add("asymmetric partition", [](SlimPackOptions& o) { o.asymmetric = false; });
  add("injection", [](SlimPackOptions& o) { o.inject = false; });
  add("DP-Merge", [](SlimPackOptions& o) { o.merge = false; });
  if (given.slimpack.packs == 0)
    add("rows of groups", [](SlimPackOptions& o) { o.search.rank_rows = false; });
  return own;
}

/// Limits the ways to shard a micro-batch over its context-parallel ranks.
Technique sharding(std::string name, ShardingPolicy before) {
  return {std::move(name), [before](Variant& v) { v.options.documents.sharding = before; }};
}

Techniques wlb_techniques(const JobOptions& given) {
  Techniques own{.whole_samples = "plain-4d", .none = "packs of varying length", .all = {}};
  const auto no_delay = [](Variant& v) { v.options.documents.queues = std::vector<Tokens>{}; };
  if (!given.documents.queues) own.all.push_back({"delay", no_delay});
  if (!given.documents.sharding) {
    own.all.push_back(sharding("sharding by document", ShardingPolicy::per_sequence));
    own.all.push_back(sharding("mixed shards", ShardingPolicy::adaptive));
  }
  own.all.push_back({"order", [](Variant& v) { v.options.documents.given_order = true; }});
  return own;
}

Techniques techniques_of(const std::string& planner, const JobOptions& given) {
  if (planner == "slimpack") return slimpack_techniques(given);
  require(planner == "wlb", "--ablation is given for the planner ", planner, "; expected slimpack or wlb");
  return wlb_techniques(given);
}

}  // namespace

std::vector<Variant> ablation(const std::string& planner, const JobOptions& options) {
  const Techniques own = techniques_of(planner, options);
  const auto variant = [&](std::string name, std::span<const Technique> left_out) {
    Variant v{find_planner(planner), options};
    v.planner.name = std::move(name);
    // The last one first: of several that limit the same choice, the one that limits it most counts.
    for (std::size_t i = left_out.size(); i-- > 0;) left_out[i].leave_out(v);
    return v;
  };
  const std::span<const Technique> all = own.all;
  std::vector<Variant> variants;
  variants.push_back({find_planner(own.whole_samples), options});
  variants.back().planner.name = concat("whole samples: ", own.whole_samples);
  variants.push_back(variant(own.none, all));
  for (std::size_t i = 0; i < all.size(); ++i)
    variants.push_back(variant("+ " + all[i].name, all.subspan(i + 1)));
  variants.back().planner.name += " = " + planner;
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    variants.push_back(variant("all but " + all[i].name, all.subspan(i, 1)));
  return variants;
}

}  // namespace slimpack::command
