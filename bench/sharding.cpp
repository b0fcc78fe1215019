// Sequences over context-parallel ranks, compared with what other systems do, written again here from their
// code: one binary, the same input. SLIMPACK_DOCUMENTS, SLIMPACK_WIKIPEDIA and SLIMPACK_WLB name files of
// lengths; if more are needed, they are drawn from the file at random. The last argument of a line says which
// of them (0, 1 or 2).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "bench/lengths.hpp"
#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/sharding/choose.hpp"
#include "slimpack/sharding/context.hpp"

namespace {

using namespace slimpack;

/// Sequences of exactly `tokens`, documents in their order; the last one of each is truncated.
std::vector<std::vector<Slice>> sequences(std::size_t count, Tokens tokens, std::int64_t source) {
  constexpr const char* files[] = {"SLIMPACK_DOCUMENTS", "SLIMPACK_WIKIPEDIA", "SLIMPACK_WLB"};
  const auto lengths = bench::lengths(60000, tokens, files[source]);
  std::vector<std::vector<Slice>> all(count);
  std::size_t next = 0;
  for (auto& documents : all) {
    for (Tokens left = tokens; left > 0;) {
      const Tokens n = std::min(left, lengths[next++ % lengths.size()]);
      documents.push_back({static_cast<SampleId>(documents.size()), 0, n});
      left -= n;
    }
  }
  return all;
}

// ---- One sequence into shards ----

/// Times `shard(documents, ranks)`. Arguments: tokens, ranks, source.
template <class Shard>
void shard_sequence(benchmark::State& state, Shard&& shard) {
  const auto documents = sequences(1, state.range(0), state.range(2)).front();
  const auto ranks = static_cast<std::int32_t>(state.range(1));
  ContextShards shards;
  for (auto _ : state) {
    shard(documents, ranks, shards);
    benchmark::DoNotOptimize(&shards);
  }
  const ShardBalance b = balance(shards);
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["documents"] = static_cast<double>(documents.size());
  state.counters["max_over_mean"] = b.max_over_mean();
  state.counters["token_spread"] = static_cast<double>(b.most_tokens - b.fewest_tokens);
  state.counters["chunks"] = static_cast<double>(shards.ranks.slices().size());
}

void per_document(benchmark::State& state) {
  ContextSharder sharder;
  std::vector<std::uint8_t> marks;
  shard_sequence(state, [&](const auto& documents, std::int32_t ranks, ContextShards& out) {
    marks.assign(documents.size(), 1);
    sharder.shard(documents, ranks, marks, out);
  });
}

void per_sequence(benchmark::State& state) {
  ContextSharder sharder;
  std::vector<std::uint8_t> marks;
  shard_sequence(state, [&](const auto& documents, std::int32_t ranks, ContextShards& out) {
    marks.assign(documents.size(), 0);
    sharder.shard(documents, ranks, marks, out);
  });
}

/// As WLB-LLM's authors do it: 2 · ranks chunks of each document, the tokens of the remainder one after
/// another to the next chunk of a round; a list of documents' chunks for each of the 2 · ranks places, of
/// which a rank gets two.
void wlb_authors(benchmark::State& state) {
  struct Shard {
    Tokens length, prefix;
    std::uint32_t document;
  };
  shard_sequence(state, [](const auto& documents, std::int32_t ranks, ContextShards& out) {
    const auto places = static_cast<std::size_t>(2 * ranks);
    std::vector<std::vector<std::optional<Shard>>> shards(places);
    std::size_t next = 0;
    for (std::uint32_t d = 0; d < documents.size(); ++d) {
      const Tokens size = documents[d].size(), chunk = size / (2 * ranks);
      std::vector<Tokens> lengths(places, chunk);
      for (Tokens left = size - chunk * 2 * ranks; left > 0; --left) {
        ++lengths[next];
        next = (next + 1) % places;
      }
      Tokens prefix = 0;
      for (std::size_t i = 0; i < places; ++i) {
        if (lengths[i] == 0) {
          shards[i].push_back(std::nullopt);
        } else {
          shards[i].push_back(Shard{lengths[i], prefix, d});
        }
        prefix += lengths[i];
      }
    }
    out.ranks.clear();
    for (std::size_t r = 0; r < places / 2; ++r) {
      for (const std::size_t place : {r, places - 1 - r}) {
        for (const auto& shard : shards[place]) {
          if (shard) out.ranks.add({shard->document, shard->prefix, shard->prefix + shard->length});
        }
      }
      out.ranks.close();
    }
  });
}

/// As MagiAttention does it: equal chunks of the sequence by decreasing work, each to the rank with the least
/// that still takes one. Arguments: tokens, ranks, source, chunks.
void magi_heap(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(3));
  shard_sequence(state, [&](const auto& documents, std::int32_t ranks, ContextShards& out) {
    const Tokens side = state.range(0) / state.range(3);
    std::vector<std::vector<Slice>> chunks(count);
    std::vector<double> work(count, 0.0);
    Tokens at = 0;
    for (std::uint32_t d = 0; d < documents.size(); ++d) {
      for (Tokens begin = 0; begin < documents[d].end;) {
        const auto chunk = static_cast<std::size_t>(at / side);
        const Tokens n = std::min(documents[d].end - begin, (at / side + 1) * side - at);
        chunks[chunk].push_back({d, begin, begin + n});
        work[chunk] += twice_causal_pairs(begin, begin + n);
        begin += n;
        at += n;
      }
    }
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return work[a] > work[b]; });
    using Rank = std::pair<double, std::size_t>;
    std::priority_queue<Rank, std::vector<Rank>, std::greater<>> open;
    std::vector<std::vector<std::uint32_t>> taken(static_cast<std::size_t>(ranks));
    for (std::size_t r = 0; r < taken.size(); ++r) open.push({0.0, r});
    for (const std::uint32_t i : order) {
      const auto [load, rank] = open.top();
      open.pop();
      taken[rank].push_back(i);
      if (taken[rank].size() < count / taken.size()) open.push({load + work[i], rank});
    }
    out.ranks.clear();
    for (auto& mine : taken) {
      std::sort(mine.begin(), mine.end());
      for (const std::uint32_t i : mine) {
        for (const Slice& piece : chunks[i]) out.ranks.add(piece);
      }
      out.ranks.close();
    }
  });
}

/// All ranks' index lists of a per-document sharding.
void index_lists(benchmark::State& state) {
  const auto documents = sequences(1, state.range(0), state.range(2)).front();
  const ContextShards shards = per_document_shards(documents, static_cast<std::int32_t>(state.range(1)));
  std::vector<std::int32_t> list;
  for (auto _ : state) {
    for (std::size_t r = 0; r < shards.ranks.size(); ++r) {
      token_indices(shards, r, list);
      benchmark::DoNotOptimize(list.data());
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void index_settings(benchmark::internal::Benchmark* b) {
  for (const std::int64_t source : {0, 1, 2}) {
    b->Args({131072, 8, source});
    b->Args({1 << 20, 32, source});
  }
  b->Unit(benchmark::kMicrosecond);
}
void chunk_settings(benchmark::internal::Benchmark* b) {
  for (const std::int64_t source : {0, 1, 2}) {
    for (const std::int64_t chunks : {512, 2048}) b->Args({1 << 20, 32, source, chunks});
  }
  b->Unit(benchmark::kMicrosecond);
}
BENCHMARK(per_document)->Apply(index_settings);
BENCHMARK(per_sequence)->Apply(index_settings);
BENCHMARK(wlb_authors)->Apply(index_settings);
BENCHMARK(magi_heap)->Apply(chunk_settings);
BENCHMARK(index_lists)->Apply(index_settings);

// ---- The choice for each micro-batch (WLB-LLM, Figure 15) ----

/// Sums over sequences of what the slowest rank takes.
struct Totals {
  double sequence = 0.0, document = 0.0, adaptive = 0.0, mixed = 0.0;

  void add(const ShardingChoice& choice, double rest) {
    const double s = choice.per_sequence_seconds.total(), d = choice.per_document_seconds.total();
    sequence += s + rest;
    document += d + rest;
    adaptive += std::min(s, d) + rest;
    mixed += choice.seconds.total() + rest;
  }
  void report(benchmark::State& state, const std::string& what) const {
    state.counters[what + "_document"] = sequence / document;
    state.counters[what + "_adaptive"] = sequence / adaptive;
    state.counters[what + "_mixed"] = sequence / mixed;
  }
};

/// Arguments: tokens of a sequence, ranks, tensor parallelism, source. Times a choice. Counters are speed-ups
/// over per-sequence sharding, forward and backward of one layer of the 7B model on H100: of attention, and
/// of attention and dense products.
void choose(benchmark::State& state) {
  const auto batch = sequences(200, state.range(0), state.range(3));
  const auto cp = static_cast<std::int32_t>(state.range(1)), tp = static_cast<std::int32_t>(state.range(2));
  const Transformer& model = transformer_preset("llama-7b");
  const Device& device = device_preset("h100");
  ShardingChooser chooser(AttentionKernel(assumed_attention_table(device), model, tp));
  ShardingChoice choice;
  std::size_t next = 0;
  for (auto _ : state) {
    chooser.choose(batch[next++ % batch.size()], cp, choice);
    benchmark::DoNotOptimize(&choice);
  }
  const double dense =
      (1.0 / device.gemm_efficiency + backward_linear_ratio / device.gemm_backward_efficiency) *
      linear_flops_per_token(model) * static_cast<double>(state.range(0)) / (cp * tp) / device.peak_flops;
  Totals attention, layer;
  double documents = 0.0, mixed = 0.0, by_document = 0.0;
  for (const auto& sequence : batch) {
    chooser.choose(sequence, cp, choice);
    attention.add(choice, 0.0);
    layer.add(choice, dense);
    documents += static_cast<double>(sequence.size()) / static_cast<double>(batch.size());
    mixed += choice.kind == Sharding::mixed ? 1.0 : 0.0;
    by_document += choice.per_document_seconds.total() < choice.per_sequence_seconds.total() ? 1.0 : 0.0;
  }
  attention.report(state, "attention");
  layer.report(state, "layer");
  state.counters["documents"] = documents;
  state.counters["mixed_share"] = mixed / static_cast<double>(batch.size());
  state.counters["document_share"] = by_document / static_cast<double>(batch.size());
}
void choices(benchmark::internal::Benchmark* b) {
  for (const std::int64_t source : {0, 1, 2}) {
    b->Args({65536, 4, 4, source});
    b->Args({131072, 4, 8, source});
    b->Args({131072, 8, 8, source});
  }
  b->Unit(benchmark::kMicrosecond);
}
BENCHMARK(choose)->Apply(choices);

}  // namespace
