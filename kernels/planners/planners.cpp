// slimpack::planners: what the planners' headers only declare where SLIMPACK_COMPILED_PLANNERS is defined.
#include "slimpack/planners/bytescale.hpp"
#include "slimpack/planners/bytescale_search.hpp"
#include "slimpack/planners/chunk_pipelines.hpp"
#include "slimpack/planners/chunk_search.hpp"
#include "slimpack/planners/deepspeed.hpp"
#include "slimpack/planners/deepspeed_search.hpp"
#include "slimpack/planners/dynamic_cp.hpp"
#include "slimpack/planners/dynamic_cp_search.hpp"
#include "slimpack/planners/dynapipe.hpp"
#include "slimpack/planners/dynapipe_search.hpp"
#include "slimpack/planners/flexsp.hpp"
#include "slimpack/planners/flexsp_search.hpp"
#include "slimpack/planners/hotspa.hpp"
#include "slimpack/planners/hotspa_search.hpp"
#include "slimpack/planners/hydraulis.hpp"
#include "slimpack/planners/hydraulis_search.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/megatron_search.hpp"
#include "slimpack/planners/micro_batch_search.hpp"
#include "slimpack/planners/micro_batches.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "slimpack/planners/slimpack_search.hpp"

namespace slimpack {

Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices, const Memory& memory,
                   const MegatronOptions& options) {
  return detail::search_megatron(lengths, job, prices, memory, options);
}

Plan plan_megatron(std::span<const Tokens> lengths, const Job& job, const MegatronOptions& options) {
  return plan_megatron(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job),
                       options);
}

Plan plan_dynapipe(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices, const Memory& memory,
                   const DynaPipeOptions& options) {
  return detail::search_dynapipe(lengths, job, prices, memory, options);
}

Plan plan_dynapipe(std::span<const Tokens> lengths, const Job& job, const DynaPipeOptions& options) {
  return plan_dynapipe(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job),
                       options);
}

Plan plan_bytescale(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                    const Memory& memory, const ByteScaleOptions& options) {
  return detail::search_bytescale(lengths, job, prices, memory, options);
}

Plan plan_bytescale(std::span<const Tokens> lengths, const Job& job, const ByteScaleOptions& options) {
  return plan_bytescale(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job),
                        options);
}

Plan plan_dynamic_cp(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                     const Memory& memory, const DynamicCpOptions& options) {
  return detail::search_dynamic_cp(lengths, job, prices, memory, options);
}

Plan plan_dynamic_cp(std::span<const Tokens> lengths, const Job& job, const DynamicCpOptions& options) {
  return plan_dynamic_cp(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job),
                         options);
}

Plan plan_chunks(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                 GroupPrices& prices, const Memory& memory, const ChunkPlanOptions& options) {
  return detail::search_chunks(planner, lengths, job, prices, memory, options);
}

Plan plan_chunks(std::string_view planner, std::span<const Tokens> lengths, const Job& job,
                 const ChunkPlanOptions& options) {
  return plan_chunks(planner, lengths, job, CalibratedCost(job), TransformerMemory(job),
                     assumed_attention(job), options);
}

Plan plan_deepspeed(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices,
                    const Memory& memory, const DeepSpeedOptions& options) {
  return detail::search_deepspeed(lengths, job, prices, memory, options);
}

Plan plan_deepspeed(std::span<const Tokens> lengths, const Job& job, const DeepSpeedOptions& options) {
  const UlyssesOptions own = ulysses_options();
  return plan_deepspeed(lengths, job, CalibratedCost(job, own.cost), TransformerMemory(job, own.memory),
                        assumed_attention(job), options);
}

Plan plan_flexsp(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices, const Memory& memory,
                 const FlexSpOptions& options) {
  return detail::search_flexsp(lengths, job, prices, memory, options);
}

Plan plan_flexsp(std::span<const Tokens> lengths, const Job& job, const FlexSpOptions& options) {
  const UlyssesOptions own = ulysses_options();
  return plan_flexsp(lengths, job, CalibratedCost(job, own.cost), TransformerMemory(job, own.memory),
                     assumed_attention(job), options);
}

Plan MicroBatchPlanner::plan(std::string_view planner, std::span<const Tokens> lengths,
                             const Packs& micro_batches) {
  return detail::plan_micro_batches(planner, lengths, micro_batches, job_, models_, options_);
}

Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, GroupPrices& prices, const Memory& memory,
                   const SlimPackOptions& options) {
  return detail::search_slimpack(lengths, job, prices, memory, options);
}

Plan plan_slimpack(std::span<const Tokens> lengths, const Job& job, const SlimPackOptions& options) {
  return plan_slimpack(lengths, job, CalibratedCost(job), TransformerMemory(job), assumed_attention(job),
                       options);
}

Plan plan_hotspa(std::span<const Tokens> lengths, const Transformer& model, const Device& device,
                 std::span<const Strategy> strategies, const MakeKindModels& make,
                 const HotSpaOptions& options) {
  return detail::search_hotspa(lengths, model, device, strategies, make, options);
}

Plan HydraulisPlanner::operator()(std::span<const Tokens> lengths) {
  return detail::search_hydraulis(lengths, model_, device_, *set_, options_);
}

}  // namespace slimpack
