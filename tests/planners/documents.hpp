#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "oracle.hpp"
#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "slimpack/cost/memory.hpp"
#include "slimpack/stream/document.hpp"

namespace oracle {

/// Of all batches here.
inline constexpr Tokens largest_context = 2048;

/// A small job on a 4D layout, and models of its time and memory as WLB-LLM runs it.
struct Job4d {
  Job job;
  CalibratedCost cost;
  TransformerMemory memory;
  AttentionKernel attention;

  explicit Job4d(const Job& j)
      : job(j),
        cost(j, {.exchanges = {KeyExchange::all_gather}}),
        memory(j, {.reserve_bytes = 0.0, .gathers_keys = true}),
        attention(assumed_attention_table(j.device), j.model, j.layout.tp) {}
};

/// Layouts, models and memories of many kinds; some have to recompute.
inline Job4d random_job_4d(std::mt19937& random) {
  const auto pick = [&](std::int32_t lo, std::int32_t hi) {
    return std::uniform_int_distribution<std::int32_t>(lo, hi)(random);
  };
  Job job = random_job(random, pick(1, 3), 1e11);
  job.layout.cp = pick(1, 4);
  job.device.pack_overhead = 1e-6;
  const TransformerMemory empty(job, {.reserve_bytes = 0.0});
  double fixed = 0.0;
  for (std::size_t s = 0; s < static_cast<std::size_t>(job.layout.pp); ++s)
    fixed = std::max(fixed, empty.static_bytes(s));
  job.device.memory_bytes = fixed + 3e7 * pick(1, 8);
  return Job4d(job);
}

/// Global batches of documents with a heavy tail, each of at most `batch_tokens`; ids are distinct.
inline std::vector<std::vector<Document>> random_batches(std::mt19937& random, std::size_t count,
                                                         Tokens batch_tokens, Tokens longest) {
  std::lognormal_distribution<double> body(4.0, 1.0);
  std::uniform_real_distribution<double> share(0.3, 1.0);
  std::vector<std::vector<Document>> batches(count);
  std::uint64_t id = random() % 1000;
  for (auto& batch : batches) {
    for (Tokens room = batch_tokens; room > 0;) {
      const double draw = random() % 20 == 0 ? share(random) * static_cast<double>(longest) : body(random);
      const Tokens length = std::min(room, std::clamp<Tokens>(static_cast<Tokens>(draw), 1, longest));
      room -= length;
      batch.push_back({id, length});
      id += 1 + random() % 3;
    }
  }
  return batches;
}

}  // namespace oracle
