#include "planners.hpp"

#include <array>
#include <cstdint>
#include <memory>

#include "document_models.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/auto.hpp"
#include "slimpack/planners/bytescale.hpp"
#include "slimpack/planners/chunk_pipelines.hpp"
#include "slimpack/planners/deepspeed.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/dynapipe.hpp"
#include "slimpack/planners/flexsp.hpp"
#include "slimpack/planners/hotspa.hpp"
#include "slimpack/planners/hydraulis.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"

namespace slimpack::command {

namespace {

struct Megatron {
  template <CostModel C, MemoryModel M, class A = NoAttentionModel>
  static Plan plan(std::span<const Tokens> lengths, const JobOptions& o, const C& cost, const M& memory,
                   const A& attention = {}) {
    return plan_megatron(lengths, o.job, cost, memory, attention, o.megatron);
  }
  static Plan plan_on_cpu(std::span<const Tokens> lengths, const JobOptions& o, const RankCost& cost,
                          const RankMemory& memory) {
    return plan(lengths, o, cost.unmerged(), memory);
  }
};

struct SlimPack {
  template <CostModel C, MemoryModel M, class A = NoAttentionModel>
  static Plan plan(std::span<const Tokens> lengths, const JobOptions& o, const C& cost, const M& memory,
                   const A& attention = {}) {
    return plan_slimpack(lengths, o.job, cost, memory, attention, o.slimpack);
  }
  static Plan plan_on_cpu(std::span<const Tokens> lengths, const JobOptions& o, const RankCost& cost,
                          const RankMemory& memory) {
    return plan(lengths, o, cost, memory);
  }
};

struct DynamicCp {
  template <CostModel C, MemoryModel M, class A = NoAttentionModel>
  static Plan plan(std::span<const Tokens> lengths, const JobOptions& o, const C& cost, const M& memory,
                   const A& attention = {}) {
    return plan_dynamic_cp(lengths, o.job, cost, memory, attention, o.dynamic_cp);
  }
  static Plan plan_on_cpu(std::span<const Tokens> lengths, const JobOptions& o, const RankCost& cost,
                          const RankMemory& memory) {
    return plan(lengths, o, cost, memory);
  }
};

struct DynaPipe {
  template <CostModel C, MemoryModel M, class A = NoAttentionModel>
  static Plan plan(std::span<const Tokens> lengths, const JobOptions& o, const C& cost, const M& memory,
                   const A& attention = {}) {
    return plan_dynapipe(lengths, o.job, cost, memory, attention, o.dynapipe);
  }
  static Plan plan_on_cpu(std::span<const Tokens> lengths, const JobOptions& o, const RankCost& cost,
                          const RankMemory& memory) {
    return plan(lengths, o, cost.unmerged(), memory);
  }
};

struct ByteScale {
  template <CostModel C, MemoryModel M, class A = NoAttentionModel>
  static Plan plan(std::span<const Tokens> lengths, const JobOptions& o, const C& cost, const M& memory,
                   const A& attention = {}) {
    return plan_bytescale(lengths, o.job, cost, memory, attention, o.bytescale);
  }
  static Plan plan_on_cpu(std::span<const Tokens> lengths, const JobOptions& o, const RankCost& cost,
                          const RankMemory& memory) {
    return plan(lengths, o, cost, memory);
  }
};

struct InfiniPipe {
  static constexpr const char* name = "infinipipe";
  static ChunkPlanOptions options(const JobOptions& o) { return o.infinipipe; }
};

/// Another system's options, with the tile and the number of slices that were asked for.
template <ChunkPlanOptions (*Base)()>
ChunkPlanOptions chunk_options(const JobOptions& o) {
  ChunkPlanOptions own = Base();
  own.tile = o.infinipipe.tile;
  own.slices = o.infinipipe.slices;
  return own;
}

struct Seq1F1B {
  static constexpr const char* name = "seq1f1b";
  static ChunkPlanOptions options(const JobOptions& o) { return chunk_options<seq1f1b_options>(o); }
};

struct TeraPipe {
  static constexpr const char* name = "terapipe";
  static ChunkPlanOptions options(const JobOptions& o) { return chunk_options<terapipe_options>(o); }
};

struct ChunkFlow {
  static constexpr const char* name = "chunkflow";
  static ChunkPlanOptions options(const JobOptions& o) { return chunk_options<chunkflow_options>(o); }
};

/// Pipelines of chunks, as one of the systems above makes them.
template <class System>
struct Chunked {
  template <CostModel C, MemoryModel M, class A = NoAttentionModel>
  static Plan plan(std::span<const Tokens> lengths, const JobOptions& o, const C& cost, const M& memory,
                   const A& attention = {}) {
    return plan_chunks(System::name, lengths, o.job, cost, memory, attention, System::options(o));
  }
  static Plan plan_on_cpu(std::span<const Tokens> lengths, const JobOptions& o, const RankCost& cost,
                          const RankMemory& memory) {
    return plan(lengths, o, cost.unmerged(), memory);
  }
};

struct DeepSpeed {
  static constexpr const char* name = "deepspeed";
  template <CostModel C, MemoryModel M, class A>
  static Plan plan(std::span<const Tokens> lengths, const JobOptions& o, const C& cost, const M& memory,
                   const A& attention) {
    return plan_deepspeed(lengths, o.job, cost, memory, attention, o.deepspeed);
  }
};

struct FlexSp {
  static constexpr const char* name = "flexsp";
  template <CostModel C, MemoryModel M, class A>
  static Plan plan(std::span<const Tokens> lengths, const JobOptions& o, const C& cost, const M& memory,
                   const A& attention) {
    return plan_flexsp(lengths, o.job, cost, memory, attention, o.flexsp);
  }
};

/// Keys of merged packs go round in a ring unless `all_to_all` is asked for.
bool by_heads(const JobOptions& o) { return o.cost.exchanges == ExchangeSet{KeyExchange::all_to_all}; }

}  // namespace

RankCost profiled_cost(const JobOptions& o) {
  const Job& job = o.job;
  return MeasuredCost(
      *o.profile, job.model, layout_pipeline(job.model, job.layout, 0),
      {.replicas = job.layout.dp, .exchange = by_heads(o) ? KeyExchange::all_to_all : KeyExchange::ring});
}

namespace {

/// Plans by a recipe with the models of the job's devices or its profile.
template <class Recipe>
Plan plan_by(std::span<const Tokens> lengths, const JobOptions& o) {
  if (o.profile) return Recipe::plan_on_cpu(lengths, o, profiled_cost(o), profiled_memory(o));
  return with_models(o, [&](const auto& cost, const auto& memory, const auto& attention) {
    return Recipe::plan(lengths, o, cost, memory, attention);
  });
}

/// A layout whose context-parallel ranks are in the domain that groups are made from: each is a pipeline.
Layout one_domain(const Layout& layout) {
  Layout domain = layout;
  domain.dp *= domain.cp;
  domain.cp = 1;
  return domain;
}

template <class Recipe>
Plan plan_in_domain(std::span<const Tokens> lengths, const JobOptions& o) {
  JobOptions own = o;
  own.job.layout = one_domain(o.job.layout);
  return plan_by<Recipe>(lengths, own);
}

/// All ranks are for samples: no tensor parallelism, one stage.
bool has_sequence_parallelism_alone(const Layout& layout) { return layout.tp == 1 && layout.pp == 1; }

/// The options with the models of Ulysses and ZeRO-3.
JobOptions with_ulysses(const JobOptions& o) {
  require(!o.profile,
          "profiles measure no ZeRO-3, which planners deepspeed and flexsp run with; expected no --profile");
  JobOptions own = o;
  const UlyssesOptions models = ulysses_options(o.cost, o.memory);
  own.cost = models.cost;
  own.memory = models.memory;
  return own;
}

/// Plans on any layout of ranks for samples. `Domain` gives the layout that the recipe takes in place of another one.
template <class Recipe, Layout (*Domain)(const Layout&)>
Plan plan_by_ulysses(std::span<const Tokens> lengths, const JobOptions& o) {
  JobOptions own = with_ulysses(o);
  own.job.layout = Domain(o.job.layout);
  require_sequence_parallel(Recipe::name, own.job.layout);
  return with_models(own, [&](const auto& cost, const auto& memory, const auto& attention) {
    return Recipe::plan(lengths, own, cost, memory, attention);
  });
}

Layout same_layout(const Layout& layout) { return layout; }

/// A recipe with the models of Ulysses and ZeRO-3.
template <class Recipe, Layout (*Domain)(const Layout&)>
Planner ulysses_planner() {
  return {.name = Recipe::name,
          .plan = &plan_by_ulysses<Recipe, Domain>,
          .plan_on_cpu = nullptr,
          .plans_on = Domain,
          .takes = &has_sequence_parallelism_alone,
          .chooses_pipelines = false,
          .with_own_models = &with_ulysses};
}

/// Models of all kinds of pipelines, to be used while this lives.
MakeKindModels kind_models(const JobOptions& o) {
  if (!o.keep_optimiser) return calibrated_kinds(o.job.model, o.job.device, o.cost, o.memory);
  const auto home = std::make_shared<const Strategy>(layout_strategy(o.job));
  CalibratedOptions cost = o.cost;
  cost.sync.shards = home.get();
  return [home, make = calibrated_kinds(o.job.model, o.job.device, cost, o.memory)](
             const Strategy& strategy, std::uint32_t kind) { return make(strategy, kind); };
}

/// Unequal pipelines on as many devices as the layout has; strategies are proposed for the batch.
Plan plan_by_hydraulis(std::span<const Tokens> lengths, const JobOptions& o, bool slices) {
  require(!o.profile,
          "profiles measure pipelines of one kind, and planners hydraulis and hydraulis-slices choose among "
          "many; expected no --profile");
  HydraulisOptions options = o.hydraulis;
  options.slices = slices;
  options.slimpack = o.slimpack;
  return plan_hydraulis(lengths, o.job, LengthHistogram(lengths), options, {}, kind_models(o));
}

/// Homogeneous strategies one after another on as many devices as the layout has.
Plan plan_by_hotspa(std::span<const Tokens> lengths, const JobOptions& o) {
  require(!o.profile,
          "profiles measure pipelines of one kind, and planner hotspa chooses among many; expected no "
          "--profile");
  return plan_hotspa(lengths, o.job, o.hotspa, kind_models(o));
}

template <bool slices>
Planner hydraulis_planner(const char* name) {
  return {.name = name,
          .plan = [](std::span<const Tokens> lengths,
                     const JobOptions& o) { return plan_by_hydraulis(lengths, o, slices); },
          .plan_on_cpu = nullptr,
          .chooses_pipelines = true};
}

/// A recipe with these models, or with those of the CPU back end.
template <class Recipe>
Planner planner(const char* name) {
  return {name, &plan_by<Recipe>, &Recipe::plan_on_cpu, nullptr};
}

/// The same for one that makes groups of all context-parallel ranks.
template <class Recipe>
Planner domain_planner(const char* name) {
  return {.name = name,
          .plan = &plan_in_domain<Recipe>,
          .plan_on_cpu = &Recipe::plan_on_cpu,
          .plans_on = &one_domain};
}

/// The best plan of all planners that know ranks of a back end.
Plan plan_auto_on_cpu(std::span<const Tokens> lengths, const JobOptions& o, const RankCost& cost,
                      const RankMemory& memory) {
  std::vector<NamedPlanner> rivals;
  for (const Planner& planner : planners()) {
    if (planner.is_best_of_all() || planner.plan_on_cpu == nullptr) continue;
    rivals.push_back({planner.name, [&](std::span<const Tokens> tokens, const Job&) {
                        return planner.plan_on_cpu(tokens, o, cost, memory);
                      }});
  }
  return plan_auto(lengths, o.job, rivals);
}

}  // namespace

RankMemory profiled_memory(const JobOptions& o) {
  const Job& job = o.job;
  const std::vector<std::int32_t> layers = layout_strategy(job).pipelines.front().layers;
  const bool gpu = o.profile->device.has_value();
  const auto stage = stage_options(gpu, by_heads(o), job.device.memory_bytes);
  const double weight_bytes = o.profile->weight_bytes();
  return {gpu, job.model, layers, weight_bytes, stage, 2.0 / job.layout.dp};
}

std::span<const Planner> planners() {
  static const std::array all{
      planner<Megatron>("megatron"),
      planner<SlimPack>("slimpack"),
      domain_planner<DynamicCp>("dynamic-cp"),
      domain_planner<ByteScale>("bytescale"),
      planner<DynaPipe>("dynapipe"),
      planner<Chunked<InfiniPipe>>(InfiniPipe::name),
      planner<Chunked<Seq1F1B>>(Seq1F1B::name),
      planner<Chunked<TeraPipe>>(TeraPipe::name),
      planner<Chunked<ChunkFlow>>(ChunkFlow::name),
      ulysses_planner<DeepSpeed, &same_layout>(),
      ulysses_planner<FlexSp, &one_domain>(),
      Planner{.name = "hotspa", .plan = &plan_by_hotspa, .plan_on_cpu = nullptr, .chooses_pipelines = true},
      hydraulis_planner<false>("hydraulis"),
      hydraulis_planner<true>("hydraulis-slices"),
      Planner{"plain-4d", &plan_plain_4d_batch, &plan_plain_4d_on_cpu, nullptr},
      Planner{"fixed-4d", nullptr, &plan_fixed_4d_on_cpu, &start_fixed_4d, &start_fixed_4d_on_cpu},
      Planner{"wlb", nullptr, nullptr, &start_wlb, &start_wlb_on_cpu, true},
      Planner{"auto", nullptr, &plan_auto_on_cpu, nullptr},
  };
  return all;
}

const Planner& find_planner(const std::string& name) {
  return detail::find_preset(planners(), "planner", name);
}

Plan plan_batch(const Planner& planner, std::span<const Tokens> tokens, const JobOptions& options,
                const Lengths& lengths, std::size_t iteration) {
  try {
    return planner.plan(tokens, options);
  } catch (const InvalidInput& error) {
    throw InvalidInput(with_line(error.what(), options, lengths, iteration));
  }
}

}  // namespace slimpack::command
