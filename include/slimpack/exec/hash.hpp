#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "slimpack/core/hash.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack {

/// What a rank without a plan shows in place of a hash; no plan has it: a WordHash is never 0.
inline constexpr std::uint64_t no_plan_hash = 0;

namespace detail {

inline void add_pass(const PassPlan& pass, WordHash& hash) {
  hash.add(pass.packs.size());
  for (std::size_t k = 0; k < pass.packs.size(); ++k) {
    hash.add_all(pass.packs[k], [&](const Slice& slice) {
      hash.add(slice.sample);
      hash.add(slice.begin);
      hash.add(slice.end);
    });
  }
  hash.add(pass.pipelines.size());
  for (std::size_t k = 0; k < pass.pipelines.size(); ++k) hash.add_all(pass.pipelines[k]);
  hash.add_all(std::span(pass.sharding), [&](Sharding s) { hash.add(static_cast<std::uint8_t>(s)); });
  if (pass.per_document.size() > 0) hash.add(pass.per_document.size());
  for (std::size_t k = 0; k < pass.per_document.size(); ++k) hash.add_all(pass.per_document[k]);
  if (pass.block != 0) hash.add(static_cast<std::uint64_t>(pass.block));
  if (!pass.exchange.empty()) {
    hash.add_all(std::span(pass.exchange), [&](KeyExchange e) { hash.add(static_cast<std::uint8_t>(e)); });
  }
  for (std::size_t k = 0; k < pass.offload_layers.size(); ++k) hash.add_all(pass.offload_layers[k]);
  hash.add(pass.recompute_layers.size());
  for (std::size_t k = 0; k < pass.recompute_layers.size(); ++k) hash.add_all(pass.recompute_layers[k]);
}

inline void add_pipeline(const PipelinePlan& pipeline, WordHash& hash) {
  hash.add(pipeline.id);
  hash.add(pipeline.tp);
  hash.add(pipeline.cp);
  hash.add_all(std::span(pipeline.layers));
  for (const auto& devices : pipeline.devices) hash.add_all(std::span(devices));
  hash.add(pipeline.order.size());
  for (const auto& order : pipeline.order) {
    hash.add_all(std::span(order), [&](Task task) {
      hash.add(4 * std::uint64_t{task.pack} + static_cast<std::uint64_t>(task.pass));
    });
  }
}

}  // namespace detail

/// Hash of all that decides what ranks compute and exchange: lengths and deferred samples, document ids, packs with
/// their slices, pipelines, sharding with the slices by themselves and the block, exchange of keys, recomputed and
/// offloaded layers, the stages' layers, orders and devices, the model's sizes. Not of what only describes: planner,
/// names, device, durations, FLOPs, notes, the step's figures. The same on every platform. Two plans of the same shape
/// that differ in one number have different hashes; any others are equal by chance, one in 2^64. Never `no_plan_hash`.
/// @param salt whatever else ranks have to agree on, such as a hash of the trainer's settings.
/// Complexity: O(tasks + slices).
[[nodiscard]] inline std::uint64_t plan_hash(const Plan& plan, std::uint64_t salt = 0) {
  WordHash hash;
  hash.add(salt);
  const Transformer& m = plan.model;
  for (const std::int32_t size : {m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim, m.ffn, m.vocab}) {
    hash.add(size);
  }
  hash.add_all(std::span(plan.tokens));
  hash.add_all(std::span(plan.deferred));
  if (!plan.document_ids.empty()) hash.add_all(std::span(plan.document_ids));
  hash.add(plan.pipelines.size());
  for (const PipelinePlan& pipeline : plan.pipelines) detail::add_pipeline(pipeline, hash);
  detail::add_pass(plan.forward, hash);
  detail::add_pass(plan.backward, hash);
  return hash.value();
}

}  // namespace slimpack
