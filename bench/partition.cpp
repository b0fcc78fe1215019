// Numbers into bins, next to what the field's own code does, written again here from its description: one
// binary, the same input. SLIMPACK_DOCUMENTS and SLIMPACK_WIKIPEDIA name files of lengths, from which more are
// drawn where they end; the last argument of a line says which of the two (0 or 1).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "bench/lengths.hpp"
#include "slimpack/partition/bounds.hpp"
#include "slimpack/partition/exact.hpp"
#include "slimpack/partition/greedy.hpp"
#include "slimpack/partition/karmarkar_karp.hpp"
#include "slimpack/partition/least_slack.hpp"
#include "slimpack/partition/local_search.hpp"
#include "slimpack/partition/packing.hpp"
#include "slimpack/slicing/micropack.hpp"

namespace {

using namespace slimpack;

std::vector<Tokens> documents(std::size_t count, std::int64_t source, Tokens most = Tokens{1} << 40) {
  return source == 0 ? bench::lengths(count, std::min<Tokens>(most, 262144), "SLIMPACK_DOCUMENTS")
                     : bench::lengths(count, most, "SLIMPACK_WIKIPEDIA");
}

/// A document's work: 24576 a token, and its square.
double document_work(Tokens length) {
  const auto s = static_cast<double>(length);
  return 24576.0 * s + s * s;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double max_over_mean(const std::vector<double>& loads) {
  return *std::max_element(loads.begin(), loads.end()) * static_cast<double>(loads.size()) / sum_of(loads);
}

/// Sums of the items' weights, by their bins.
std::vector<double> loads_of(const std::vector<double>& weights, const std::vector<std::uint32_t>& bin,
                             std::size_t bins) {
  std::vector<double> loads(bins, 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) loads[bin[i]] += weights[i];
  return loads;
}

// ---- Whole documents over ranks ----

/// Times `assign(work, ranks)`, which returns the bin of each item. Arguments: documents, ranks, source.
template <class Assign>
void balance(benchmark::State& state, Assign&& assign) {
  const auto ranks = static_cast<std::size_t>(state.range(1));
  std::vector<double> work;
  for (const Tokens s : documents(static_cast<std::size_t>(state.range(0)), state.range(2)))
    work.push_back(document_work(s));
  std::vector<std::uint32_t> bin;
  for (auto _ : state) {
    bin = assign(work, ranks);
    benchmark::DoNotOptimize(bin.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  const double mean = sum_of(work) / static_cast<double>(ranks);
  state.counters["max_over_mean"] = max_over_mean(loads_of(work, bin, ranks));
  state.counters["bound"] = makespan_lower_bound(work, ranks) / mean;
}

void lpt_into_bins(benchmark::State& state) {
  LptSolver solver;
  const std::vector<double> empty(static_cast<std::size_t>(state.range(1)), 0.0);
  balance(state, [&](const auto& work, std::size_t) { return solver.solve(work, empty).bin; });
}

void differencing(benchmark::State& state) {
  KarmarkarKarpSolver<double> solver;
  balance(state, [&](const auto& work, std::size_t ranks) { return solver.solve(work, ranks).bin; });
}

/// As verl does it: every tuple holds all bins with their items, and each join sorts them.
std::vector<std::uint32_t> differencing_of_tuples(const std::vector<double>& work, std::size_t ranks) {
  struct Part {
    double sum = 0.0;
    std::vector<std::uint32_t> items = {};
  };
  struct Tuple {
    std::vector<Part> parts;
    [[nodiscard]] double spread() const { return parts.front().sum - parts.back().sum; }
  };
  const auto narrower = [](const Tuple& a, const Tuple& b) { return a.spread() < b.spread(); };
  std::vector<Tuple> heap;
  for (std::size_t i = 0; i < work.size(); ++i) {
    heap.push_back({std::vector<Part>(ranks)});
    heap.back().parts[0] = {work[i], {static_cast<std::uint32_t>(i)}};
  }
  std::make_heap(heap.begin(), heap.end(), narrower);
  while (heap.size() > 1) {
    std::pop_heap(heap.begin(), heap.end(), narrower);
    Tuple first = std::move(heap.back());
    heap.pop_back();
    std::pop_heap(heap.begin(), heap.end(), narrower);
    const Tuple& second = heap.back();
    for (std::size_t b = 0; b < ranks; ++b) {
      const Part& other = second.parts[ranks - 1 - b];
      first.parts[b].sum += other.sum;
      first.parts[b].items.insert(first.parts[b].items.end(), other.items.begin(), other.items.end());
    }
    std::sort(first.parts.begin(), first.parts.end(),
              [](const Part& a, const Part& b) { return a.sum > b.sum; });
    heap.back() = std::move(first);
    std::push_heap(heap.begin(), heap.end(), narrower);
  }
  std::vector<std::uint32_t> bin(work.size());
  for (std::size_t b = 0; b < ranks; ++b) {
    for (const std::uint32_t i : heap[0].parts[b].items) bin[i] = static_cast<std::uint32_t>(b);
  }
  return bin;
}
void verl_differencing(benchmark::State& state) { balance(state, differencing_of_tuples); }

void rank_settings(benchmark::internal::Benchmark* b) {
  for (const std::int64_t source : {0, 1}) {
    for (const std::int64_t k : {8, 32, 128}) b->Args({2048, k, source});
  }
  b->Unit(benchmark::kMicrosecond);
}
BENCHMARK(lpt_into_bins)->Apply(rank_settings)->Args({65536, 512, 0});
BENCHMARK(differencing)->Apply(rank_settings)->Args({65536, 512, 0});
BENCHMARK(verl_differencing)->Apply(rank_settings);

// ---- Equal numbers of chunks per context-parallel rank ----

/// As MagiAttention does it: chunks by falling work, each to the rank that has least and still takes one.
std::vector<std::uint32_t> least_loaded(const std::vector<double>& work, std::size_t ranks) {
  using Rank = std::pair<double, std::uint32_t>;
  std::vector<std::uint32_t> order(work.size()), bin(work.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return work[a] > work[b]; });
  std::priority_queue<Rank, std::vector<Rank>, std::greater<>> open;
  for (std::uint32_t r = 0; r < ranks; ++r) open.push({0.0, r});
  std::vector<std::size_t> taken(ranks, 0);
  for (const std::uint32_t i : order) {
    const auto [load, rank] = open.top();
    open.pop();
    bin[i] = rank;
    if (++taken[rank] < work.size() / ranks) open.push({load + work[i], rank});
  }
  return bin;
}

/// Causal attention of the chunks of a row of documents.
std::vector<double> chunk_work(std::size_t chunks, Tokens chunk, std::int64_t source) {
  const auto lengths = documents(4096, source);
  std::vector<double> work(chunks, 0.0);
  std::size_t document = 0;
  Tokens inside = 0;
  for (std::size_t c = 0; c < chunks; ++c) {
    for (Tokens left = chunk; left > 0;) {
      const Tokens n = std::min(left, lengths[document % lengths.size()] - inside);
      work[c] += static_cast<double>(n) * static_cast<double>(2 * inside + n + 1) / 2.0;
      left -= n;
      inside += n;
      if (inside == lengths[document % lengths.size()]) ++document, inside = 0;
    }
  }
  return work;
}

/// Arguments: chunks of 2^20 tokens, ranks, source.
template <class Assign>
void balance_chunks(benchmark::State& state, Assign&& assign) {
  const auto chunks = static_cast<std::size_t>(state.range(0)),
             ranks = static_cast<std::size_t>(state.range(1));
  const auto work = chunk_work(chunks, (Tokens{1} << 20) / state.range(0), state.range(2));
  std::vector<std::uint32_t> bin;
  for (auto _ : state) {
    bin = assign(work, ranks);
    benchmark::DoNotOptimize(bin.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["max_over_mean"] = max_over_mean(loads_of(work, bin, ranks));
}
void chunks_by_differencing(benchmark::State& state) {
  KarmarkarKarpSolver<double> solver;
  balance_chunks(state, [&](const auto& work, std::size_t ranks) {
    return solver.solve(work, ranks, {.equal_counts = true}).bin;
  });
}
void chunks_by_differencing_and_swaps(benchmark::State& state) {
  KarmarkarKarpSolver<double> solver;
  balance_chunks(state, [&](const auto& work, std::size_t ranks) {
    auto answer = solver.solve(work, ranks, {.equal_counts = true});
    improve_assignment(work, answer, {.keep_counts = true});
    return answer.bin;
  });
}
void chunks_magiattention(benchmark::State& state) { balance_chunks(state, least_loaded); }

void chunks(benchmark::internal::Benchmark* b) {
  for (const std::int64_t source : {0, 1}) b->Args({512, 32, source})->Args({2048, 32, source});
  b->Unit(benchmark::kMicrosecond);
}
BENCHMARK(chunks_by_differencing)->Apply(chunks);
BENCHMARK(chunks_by_differencing_and_swaps)->Apply(chunks);
BENCHMARK(chunks_magiattention)->Apply(chunks);

// ---- Slices of documents over ranks ----

/// Work of tokens [begin, end): `per_token` each, and what the square of the length grows by.
struct SquareWork {
  double per_token = 24576.0;

  [[nodiscard]] std::size_t stages() const { return 1; }
  [[nodiscard]] double slice_seconds(std::size_t, Tokens begin, Tokens end, Pass) const {
    return coefficients(0, Pass::forward).seconds(begin, end);
  }
  [[nodiscard]] double pack_seconds(std::size_t, Pass) const { return 0.0; }
  [[nodiscard]] double transfer_seconds(std::size_t, Tokens, Pass) const { return 0.0; }
  [[nodiscard]] bool is_polynomial() const { return true; }
  [[nodiscard]] SliceCoefficients coefficients(std::size_t, Pass) const {
    return {.per_token = per_token - 1.0, .per_twice_pair = 1.0};
  }
};

/// Times `slice(lengths, ranks, work)`, which returns the work of each rank. Arguments: documents, ranks,
/// source.
template <class Slicing>
void balance_slices(benchmark::State& state, Slicing&& slice) {
  const auto lengths = documents(static_cast<std::size_t>(state.range(0)), state.range(2));
  std::vector<double> loads;
  for (auto _ : state) {
    loads = slice(lengths, static_cast<std::size_t>(state.range(1)));
    benchmark::DoNotOptimize(loads.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["max_over_mean"] = max_over_mean(loads);
}

/// Ours: documents by falling length, cut where a rank is full. The sort and the loads are part of it.
std::vector<double> equal_slices(const std::vector<Tokens>& lengths, std::size_t ranks,
                                 const SquareWork& work, MicroPackCutter& cutter) {
  std::vector<StreamSample> samples;
  samples.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i)
    samples.push_back(
        {static_cast<SampleId>(i), lengths[i], work.slice_seconds(0, 0, lengths[i], Pass::forward)});
  std::sort(samples.begin(), samples.end(), [](const StreamSample& a, const StreamSample& b) {
    return a.length > b.length || (a.length == b.length && a.id < b.id);
  });
  Packs packs;
  const Prices prices(work);
  cutter.cut({.samples = samples}, ranks, SlicePrices(prices, Pass::forward), {.tile = 128}, packs);
  std::vector<double> loads(ranks, 0.0);
  for (std::size_t r = 0; r < packs.size(); ++r) {
    for (const Slice& s : packs[r]) loads[r] += work.slice_seconds(0, s.begin, s.end, Pass::forward);
  }
  return loads;
}
void slices(benchmark::State& state) {
  MicroPackCutter cutter;
  balance_slices(state, [&](const auto& l, std::size_t k) { return equal_slices(l, k, {}, cutter); });
}
void slices_attention_alone(benchmark::State& state) {
  MicroPackCutter cutter;
  balance_slices(
      state, [&](const auto& l, std::size_t k) { return equal_slices(l, k, {.per_token = 1.0}, cutter); });
}

/// As Seq1F1B does it: every document into as many slices of equal work as there are ranks, from its end;
/// each rounded down, the first one gets the rest. In closed form instead of by a computer algebra system.
std::vector<double> seq1f1b_slices(const std::vector<Tokens>& lengths, std::size_t ranks) {
  const SquareWork work;
  std::vector<double> loads(ranks, 0.0);
  for (const Tokens length : lengths) {
    const double share = work.slice_seconds(0, 0, length, Pass::forward) / static_cast<double>(ranks);
    Tokens end = length;
    for (std::size_t r = ranks; r-- > 1;) {
      const double tokens = tokens_before(work.coefficients(0, Pass::forward), end, share);
      const Tokens begin = end - std::min(end, static_cast<Tokens>(tokens));
      loads[r] += work.slice_seconds(0, begin, end, Pass::forward);
      end = begin;
    }
    loads[0] += work.slice_seconds(0, 0, end, Pass::forward);
  }
  return loads;
}
void slices_seq1f1b(benchmark::State& state) { balance_slices(state, seq1f1b_slices); }

/// DistCA's planner, which moves attention alone. An item is tokens from the front of a document and as many
/// from its back, so that each pair costs length + 1.
class DistcaPlanner {
 public:
  DistcaPlanner(const std::vector<Tokens>& lengths, std::size_t ranks) : surplus_(ranks, 0.0) {
    lay_out(lengths);
    for (const Item& item : items_) surplus_[item.rank] += flops(item);
    mean_ = sum_of(surplus_) / static_cast<double>(ranks);
    for (double& s : surplus_) s -= mean_;
  }

  /// Ranks that lack work take it, whoever lacks most first, until they are within the tolerance.
  std::vector<double> run(double tolerance) {
    std::vector<std::size_t> takers;
    for (std::size_t r = 0; r < surplus_.size(); ++r)
      if (surplus_[r] < 0.0) takers.push_back(r);
    std::sort(takers.begin(), takers.end(), [&](auto a, auto b) { return surplus_[a] < surplus_[b]; });
    for (const std::size_t taker : takers) {
      while (-surplus_[taker] > tolerance * mean_ && move_cheapest(taker)) {
      }
    }
    std::vector<double> loads(surplus_.size(), 0.0);
    for (const Item& item : items_) loads[item.rank] += flops(item);
    return loads;
  }

 private:
  struct Item {
    Tokens length;   ///< of the document
    Tokens outside;  ///< tokens of it before the item, and as many after it
    Tokens pairs;    ///< its tokens on either side
    std::size_t rank;
  };
  static double flops(const Item& item) {
    return static_cast<double>(item.pairs) * static_cast<double>(item.length + 1);
  }

  /// Documents one after another over ranks of equal numbers of tokens, cut where a rank is full.
  void lay_out(const std::vector<Tokens>& lengths) {
    Tokens pairs = 0;
    for (const Tokens s : lengths) pairs += (s + 1) / 2;
    const auto ranks = static_cast<Tokens>(surplus_.size());
    const Tokens budget = (pairs + ranks - 1) / ranks;
    std::size_t rank = 0;
    Tokens room = budget;
    for (const Tokens s : lengths) {
      const Tokens all = (s + 1) / 2;
      for (Tokens done = 0; done < all;) {
        if (room == 0) ++rank, room = budget;
        const Tokens n = std::min(room, all - done);
        items_.push_back({2 * all, done, n, rank});
        done += n;
        room -= n;
      }
    }
  }

  /// Moves from the item with the least bytes for its work, of those on ranks with too much.
  bool move_cheapest(std::size_t taker) {
    Item* cheapest = nullptr;
    double least = 0.0, moved = 0.0;
    for (Item& item : items_) {
      if (surplus_[item.rank] <= 0.0 || item.pairs == 0) continue;
      const double most = std::min({surplus_[item.rank], -surplus_[taker], flops(item)});
      const auto length = static_cast<double>(item.length + 1);
      const double bytes = most / length + 2.0 * length;  // queries, keys and values of equal width
      if (cheapest == nullptr || bytes / most < least) {
        cheapest = &item;
        least = bytes / most;
        moved = most;
      }
    }
    if (cheapest == nullptr) return false;
    const Tokens pairs =
        std::min(cheapest->pairs, static_cast<Tokens>(moved / static_cast<double>(cheapest->length + 1)));
    if (pairs == 0) return false;
    cheapest->pairs -= pairs;
    const Item part{cheapest->length, cheapest->outside + cheapest->pairs, pairs, taker};
    surplus_[cheapest->rank] -= flops(part);
    surplus_[taker] += flops(part);
    items_.push_back(part);
    return true;
  }

  std::vector<double> surplus_;
  double mean_ = 0.0;
  std::vector<Item> items_;
};
void slices_distca(benchmark::State& state) {
  balance_slices(state, [](const auto& l, std::size_t k) { return DistcaPlanner(l, k).run(0.02); });
}
void slices_distca_strict(benchmark::State& state) {
  balance_slices(state, [](const auto& l, std::size_t k) { return DistcaPlanner(l, k).run(0.002); });
}

void over_ranks(benchmark::internal::Benchmark* b) {
  for (const std::int64_t source : {0, 1}) b->Args({2048, 32, source});
  b->Unit(benchmark::kMicrosecond);
}
BENCHMARK(slices)->Apply(over_ranks)->Args({65536, 512, 0});
BENCHMARK(slices_seq1f1b)->Apply(over_ranks);
BENCHMARK(slices_attention_alone)->Apply(over_ranks);
BENCHMARK(slices_distca)->Apply(over_ranks);
BENCHMARK(slices_distca_strict)->Apply(over_ranks);

// ---- Lengths into bins of a capacity ----

/// The usual way: open bins in a balanced tree by the room that is left.
std::size_t multiset_best_fit(std::vector<std::int64_t> weights, std::int64_t capacity) {
  std::sort(weights.begin(), weights.end(), std::greater<>{});
  std::multimap<std::int64_t, std::uint32_t> open;
  std::uint32_t bins = 0;
  for (const std::int64_t weight : weights) {
    const auto fits = open.lower_bound(weight);
    if (fits == open.end()) {
      open.emplace(capacity - weight, bins++);
    } else {
      const auto [room, bin] = *fits;
      open.erase(fits);
      open.emplace(room - weight, bin);
    }
  }
  return bins;
}

/// As axolotl does it: first fit in the order of arrival, in groups of 100,000, at most 200 a bin, bins one
/// by one.
std::size_t axolotl_first_fit(const std::vector<std::int64_t>& weights, std::int64_t capacity) {
  constexpr std::size_t group = 100000, most = 200;
  std::size_t bins = 0;
  std::vector<std::int64_t> room;
  std::vector<std::vector<std::uint32_t>> items;
  for (std::size_t begin = 0; begin < weights.size(); begin += group) {
    room.clear();
    items.clear();
    for (std::size_t i = begin; i < std::min(weights.size(), begin + group); ++i) {
      std::size_t b = 0;
      while (b < room.size() && (room[b] < weights[i] || items[b].size() == most)) ++b;
      if (b == room.size()) room.push_back(capacity), items.emplace_back();
      room[b] -= weights[i];
      items[b].push_back(static_cast<std::uint32_t>(i));
    }
    bins += room.size();
  }
  return bins;
}

/// As TRL does it: best-fit decreasing, the rooms that exist in a segment tree of maxima.
std::size_t trl_best_fit(const std::vector<std::int64_t>& weights, std::int64_t capacity) {
  std::vector<std::uint32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
  const std::size_t leaves = std::bit_ceil(static_cast<std::size_t>(capacity) + 1);
  std::vector<std::int64_t> tree(2 * leaves, 0);
  std::vector<std::deque<std::uint32_t>> with_room(leaves);
  const auto set = [&](std::int64_t room, std::int64_t value) {
    std::size_t node = leaves + static_cast<std::size_t>(room);
    tree[node] = value;
    while ((node /= 2) > 0) tree[node] = std::max(tree[2 * node], tree[2 * node + 1]);
  };
  std::vector<std::vector<std::uint32_t>> bins;
  set(capacity, capacity);
  for (const std::uint32_t item : order) {
    // The leftmost leaf whose value is not below the weight: where all of the left half is below, go right.
    std::size_t node = 1;
    while (node < leaves) node = 2 * node + (tree[2 * node] < weights[item] ? 1 : 0);
    const std::int64_t room = tree[node];
    auto& bins_with_room = with_room[static_cast<std::size_t>(room)];
    std::uint32_t bin = 0;
    if (room == capacity) {
      bin = static_cast<std::uint32_t>(bins.size());
      bins.emplace_back();
    } else {
      bin = bins_with_room.front();
      bins_with_room.pop_front();
      if (bins_with_room.empty()) set(room, 0);
    }
    bins[bin].push_back(item);
    const std::int64_t left = room - weights[item];
    if (left > 0) {
      with_room[static_cast<std::size_t>(left)].push_back(bin);
      set(left, left);
    }
  }
  return bins.size();
}

/// Arguments: lengths, capacity, source; longer ones are cut.
template <class Pack>
void pack_lengths(benchmark::State& state, Pack&& pack) {
  const std::int64_t capacity = state.range(1);
  const auto lengths = documents(static_cast<std::size_t>(state.range(0)), state.range(2), capacity);
  std::size_t bins = 0;
  for (auto _ : state) bins = pack(lengths, capacity);
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["bins"] = static_cast<double>(bins);
  state.counters["bound"] = static_cast<double>(packing_lower_bound(lengths, capacity));
}
void best_fit(benchmark::State& state) {
  pack_lengths(state, [](const auto& l, std::int64_t c) { return best_fit_decreasing(l, c).load.size(); });
}
void first_fit(benchmark::State& state) {
  pack_lengths(state, [](const auto& l, std::int64_t c) { return first_fit_decreasing(l, c).load.size(); });
}
void best_fit_in_a_tree(benchmark::State& state) { pack_lengths(state, multiset_best_fit); }
void first_fit_axolotl(benchmark::State& state) { pack_lengths(state, axolotl_first_fit); }
void best_fit_trl(benchmark::State& state) { pack_lengths(state, trl_best_fit); }

void packings(benchmark::internal::Benchmark* b) {
  b->Args({2048, 262144, 0})->Args({1000000, 32768, 1})->Unit(benchmark::kMillisecond);
}
BENCHMARK(best_fit)->Apply(packings);
BENCHMARK(first_fit)->Apply(packings);
BENCHMARK(best_fit_in_a_tree)->Apply(packings);
BENCHMARK(first_fit_axolotl)->Apply(packings);
BENCHMARK(best_fit_trl)->Apply(packings);

// ---- Light tails, where heuristics differ ----

/// Arguments: items of 500 to 1000, bins.
template <class Assign>
void balance_even_items(benchmark::State& state, Assign&& assign) {
  const auto bins = static_cast<std::size_t>(state.range(1));
  std::mt19937_64 random(1);
  std::vector<double> weights(static_cast<std::size_t>(state.range(0)));
  for (double& w : weights) w = std::uniform_real_distribution<double>(500.0, 1000.0)(random);
  Assignment answer;
  for (auto _ : state) answer = assign(weights, bins);
  state.SetItemsProcessed(state.iterations() * state.range(0));
  const double bound = makespan_lower_bound(weights, bins);
  state.counters["over_bound"] = answer.makespan() / bound;
}
void even_items_lpt(benchmark::State& state) {
  balance_even_items(state, [](const auto& w, std::size_t k) { return lpt(w, k); });
}
void even_items_differencing(benchmark::State& state) {
  balance_even_items(state, [](const auto& w, std::size_t k) { return karmarkar_karp(w, k); });
}
void even_items_local_search(benchmark::State& state) {
  balance_even_items(state, [](const auto& w, std::size_t k) {
    auto answer = karmarkar_karp(w, k);
    improve_assignment(w, answer);
    return answer;
  });
}
void even_items_branch_and_bound(benchmark::State& state) {
  balance_even_items(state, [](const auto& w, std::size_t k) { return exact_assignment(w, k).assignment; });
}

void even_items(benchmark::internal::Benchmark* b) {
  b->Args({16, 5})->Args({100, 16})->Args({300, 64})->Args({2048, 128})->Unit(benchmark::kMicrosecond);
}
BENCHMARK(even_items_lpt)->Apply(even_items);
BENCHMARK(even_items_differencing)->Apply(even_items);
BENCHMARK(even_items_local_search)->Apply(even_items);
BENCHMARK(even_items_branch_and_bound)->Apply(even_items);

/// 20 packings of items uniform up to 100. Arguments: items, least item, capacity.
void packings_branch_and_bound(benchmark::State& state) {
  std::vector<std::vector<std::int64_t>> instances(20);
  for (std::size_t seed = 0; seed < instances.size(); ++seed) {
    std::mt19937_64 random(seed);
    instances[seed].resize(static_cast<std::size_t>(state.range(0)));
    for (auto& w : instances[seed])
      w = std::uniform_int_distribution<std::int64_t>(state.range(1), 100)(random);
  }
  std::size_t proven = 0, bins = 0, bound = 0, first_fit_bins = 0, least_slack_bins = 0;
  for (auto _ : state) {
    proven = bins = bound = 0;
    for (const auto& weights : instances) {
      const ExactPacking answer = exact_packing(weights, state.range(2), {.max_steps = 20000000});
      proven += answer.status == SolveStatus::optimal ? 1 : 0;
      bins += answer.packing.load.size();
      bound += answer.bound;
    }
  }
  for (const auto& weights : instances) {
    first_fit_bins += first_fit_decreasing(weights, state.range(2)).load.size();
    least_slack_bins += least_slack_packing(weights, state.range(2)).load.size();
  }
  state.SetItemsProcessed(state.iterations() * 20);
  state.counters["proven"] = static_cast<double>(proven);
  state.counters["bins"] = static_cast<double>(bins);
  state.counters["bound"] = static_cast<double>(bound);
  state.counters["least_slack_bins"] = static_cast<double>(least_slack_bins);
  state.counters["first_fit_bins"] = static_cast<double>(first_fit_bins);
}
BENCHMARK(packings_branch_and_bound)
    ->ArgsProduct({{20, 50, 200}, {1, 20}, {100, 150}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
