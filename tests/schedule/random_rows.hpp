#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "slimpack/cost/exchange.hpp"
#include "slimpack/cost/memory_prices.hpp"
#include "slimpack/cost/prices.hpp"
#include "slimpack/schedule/pack_shares.hpp"
#include "slimpack/schedule/scheduler.hpp"
#include "tests/plan/held_tokens.hpp"

// Random packs of pipelines that share samples, models to price them with, and memory counted token by token.
namespace oracle {

using namespace slimpack;

/// A time model whose stages differ in all respects. Any number of pipelines can run packs together.
struct UnevenCost {
  std::vector<double> speed;  ///< [stage] seconds of a token
  std::vector<double> sent;   ///< [stage] seconds of a token to the next stage
  double members = 1.0;

  [[nodiscard]] std::size_t stages() const { return speed.size(); }
  [[nodiscard]] double slice_seconds(std::size_t s, Tokens begin, Tokens end, Pass pass) const {
    const auto tokens = static_cast<double>(end - begin), before = static_cast<double>(begin);
    const double forward = speed[s] * tokens * (1.0 + 0.02 * before) / members;
    return pass == Pass::forward ? forward : 1.7 * forward + 0.1;
  }
  [[nodiscard]] double pack_seconds(std::size_t s, Pass pass) const {
    return (pass == Pass::forward ? 0.5 : 0.7) + 0.1 * static_cast<double>(s);
  }
  [[nodiscard]] double transfer_seconds(std::size_t s, Tokens tokens, Pass pass) const {
    return (pass == Pass::forward ? 0.05 : 0.08) + sent[s] * static_cast<double>(tokens) / members;
  }
  [[nodiscard]] double recompute_seconds(std::size_t s, Tokens begin, Tokens end) const {
    return 0.3 * speed[s] * static_cast<double>(end - begin) / members;
  }
  [[nodiscard]] bool supports_context_parallel(std::int32_t) const { return true; }
  [[nodiscard]] UnevenCost with_context_parallel(std::int32_t group) const {
    return {speed, sent, double(group)};
  }
};
static_assert(MergeableCostModel<UnevenCost> && RecomputingCostModel<UnevenCost>);

inline UnevenCost random_cost(std::mt19937& random, std::size_t stages) {
  std::uniform_real_distribution<double> rate(0.05, 0.5);
  UnevenCost cost;
  for (std::size_t s = 0; s < stages; ++s) {
    cost.speed.push_back(rate(random));
    cost.sent.push_back(0.2 * rate(random));
  }
  return cost;
}

/// A memory model whose stages differ, with workspace and exchange that depend on all that they may depend on.
struct UnevenMemory {
  double capacity = 1e9;
  std::vector<std::int32_t> layers;  ///< [stage]

  [[nodiscard]] double capacity_bytes() const { return capacity; }
  [[nodiscard]] double static_bytes(std::size_t s) const { return 10.0 + static_cast<double>(s); }
  [[nodiscard]] double activation_bytes(std::size_t s, int recompute_layers) const {
    return 3.0 * layers[s] + 1.0 - 2.5 * recompute_layers;
  }
  [[nodiscard]] double kv_gradient_bytes(std::size_t s) const { return 0.25 * layers[s]; }
  [[nodiscard]] double workspace_bytes(std::size_t s, Pass pass, Tokens tokens, int recompute_layers) const {
    const double each = (pass == Pass::forward ? 0.5 : 0.75) + 0.1 * static_cast<double>(s) +
                        (recompute_layers > 0 ? 2.0 : 0.0);
    return each * static_cast<double>(tokens);
  }
  [[nodiscard]] double exchange_bytes(std::size_t, Pass, Tokens tokens, std::size_t members,
                                      KeyExchange exchange) const {
    const double each = 0.2 + 0.3 * static_cast<double>(exchange);
    return each * static_cast<double>(tokens) * static_cast<double>(members - 1);
  }
};
static_assert(ExchangingMemoryModel<UnevenMemory>);

/// Samples, each on pipelines of its own choice, cut into packs differently in both passes.
struct RandomRows {
  std::vector<Tokens> lengths;
  std::size_t pipelines = 1, stages = 1;
  std::vector<std::vector<std::uint32_t>> teams;  ///< sets of pipelines that run samples together
  std::vector<std::size_t> team;                  ///< [sample]
  PackRows forward, backward;

  explicit RandomRows(std::mt19937& random) {
    const auto pick = [&](int lo, int hi) {
      return static_cast<std::size_t>(std::uniform_int_distribution<int>(lo, hi)(random));
    };
    pipelines = pick(1, 4);
    stages = pick(1, 4);
    const std::size_t count = pick(1, 4);
    for (std::size_t t = 0; t < count; ++t) {
      std::vector<std::uint32_t>& own = teams.emplace_back();
      for (std::uint32_t p = 0; p < pipelines; ++p) {
        if (pick(0, 1) == 1) own.push_back(p);
      }
      if (own.empty()) own.push_back(static_cast<std::uint32_t>(pick(0, static_cast<int>(pipelines) - 1)));
    }
    for (std::uint32_t p = 0; p < pipelines; ++p) {  // each pipeline has something to do
      if (std::none_of(teams.begin(), teams.end(),
                       [&](const auto& own) { return own.back() == p || own.front() == p; }))
        teams.push_back({p});
    }
    const std::size_t samples = teams.size() + pick(0, 6);
    for (std::size_t i = 0; i < samples; ++i) {
      lengths.push_back(static_cast<Tokens>(pick(1, 30)));
      team.push_back(i < teams.size() ? i : pick(0, static_cast<int>(teams.size()) - 1));
    }
    forward = cut(random, Pass::forward);
    backward = cut(random, Pass::backward);
  }

  /// @param block of samples that several pipelines share, by position; 0: they share them equally.
  [[nodiscard]] Schedule schedule(Tokens block = 0) const {
    Schedule out;
    out.pipelines = pipelines;
    out.forward = forward;
    out.backward = backward;
    for (const auto& [rows, times] :
         {std::pair(&forward, &out.forward_times), std::pair(&backward, &out.backward_times)}) {
      times->sharing.block = block;
      for (const std::uint32_t members : rows->sharers)
        times->sharing.sharding.push_back(members > 1 && block > 0 ? Sharding::by_position : Sharding::none);
    }
    return out;
  }

  /// Says how members of a schedule's packs exchange keys: in all ways in turn.
  static void exchange_in_turn(Schedule& schedule) {
    for (const auto& [rows, times] : {std::pair(&schedule.forward, &schedule.forward_times),
                                      std::pair(&schedule.backward, &schedule.backward_times)}) {
      for (std::size_t k = 0; k < rows->packs.size(); ++k)
        times->sharing.exchange.push_back(rows->sharers[k] > 1 ? key_exchanges[k % key_exchanges.size()]
                                                               : KeyExchange::none);
    }
  }

 private:
  /// Takes the next tokens of some samples of any team, until none are left; now and then a pack is empty.
  PackRows cut(std::mt19937& random, Pass pass) const {
    const auto pick = [&](Tokens lo, Tokens hi) {
      return std::uniform_int_distribution<Tokens>(lo, hi)(random);
    };
    std::vector<Tokens> left = lengths;
    Packs packs;
    Ragged<std::uint32_t> members;
    while (std::any_of(left.begin(), left.end(), [](Tokens n) { return n > 0; })) {
      const auto t = static_cast<std::size_t>(pick(0, static_cast<Tokens>(teams.size()) - 1));
      Tokens taken = 0;
      for (SampleId id = 0; id < lengths.size(); ++id) {
        if (team[id] != t || left[id] == 0 || pick(0, 2) == 0) continue;
        const Tokens n = pick(1, left[id]);
        const Tokens begin = pass == Pass::forward ? lengths[id] - left[id] : left[id] - n;
        packs.add({id, begin, begin + n});
        left[id] -= n;
        taken += n;
      }
      if (taken == 0 && pick(0, 9) > 0) continue;
      packs.close();
      for (const std::uint32_t p : teams[t]) members.add(p);
      members.close();
    }
    return in_rows(std::move(packs), std::move(members), pipelines);
  }
};

/// Which backward pack each token of each sample is in.
inline std::vector<std::vector<PackId>> packs_of_tokens(std::span<const Tokens> lengths, const Packs& packs) {
  std::vector<std::vector<PackId>> out;
  for (const Tokens length : lengths) out.emplace_back(static_cast<std::size_t>(length));
  for (std::size_t k = 0; k < packs.size(); ++k) {
    for (const Slice& slice : packs[k]) {
      for (Tokens t = slice.begin; t < slice.end; ++t)
        out[slice.sample][static_cast<std::size_t>(t)] = static_cast<PackId>(k);
    }
  }
  return out;
}

/// Tokens that a member of a pack holds of a slice, and the same without what rounding adds to sums of parts.
inline double held_tokens(const Slice& slice, std::size_t members, std::size_t place,
                          const PackSharing& sharing) {
  if (sharing.block == 0) return static_cast<double>(slice.size()) / static_cast<double>(members);
  return slimpack::testing::held_by_position(slice, members, place, 1, sharing.block);
}
inline Tokens whole(double tokens) { return static_cast<Tokens>(std::ceil(tokens - 1e-9)); }

/// Peak bytes of a stage: its tasks one by one, its tokens one by one.
inline double peak_bytes(const Schedule& schedule, std::span<const Tokens> lengths, std::size_t p,
                         std::size_t s, const UnevenMemory& memory) {
  const auto backward_of = packs_of_tokens(lengths, schedule.backward.packs);
  std::vector<char> begun(lengths.size(), 0);
  const auto orders = stage_orders(schedule);
  double held = 0.0, peak = 0.0;
  for (const Task task : orders[p][s]) {
    const bool forward = task.pass == Pass::forward;
    const PackRows& rows = forward ? schedule.forward : schedule.backward;
    const PackSharing& sharing = (forward ? schedule.forward_times : schedule.backward_times).sharing;
    const auto team = rows.members[task.pack];
    const auto place = static_cast<std::size_t>(std::find(team.begin(), team.end(), p) - team.begin());
    const auto held_of = [&](const Slice& slice) { return held_tokens(slice, team.size(), place, sharing); };
    double freed = 0.0, own = 0.0;
    Tokens tokens = 0;
    for (const Slice& slice : rows.packs[task.pack]) {
      tokens += slice.size();
      if (!forward && begun[slice.sample] == 0) {
        begun[slice.sample] = 1;
        held += memory.kv_gradient_bytes(s) * held_of({slice.sample, 0, lengths[slice.sample]});
      }
      for (Tokens t = slice.begin; t < slice.end; ++t) {
        const PackId later = backward_of[slice.sample][static_cast<std::size_t>(t)];
        const double share = held_of({slice.sample, t, t + 1});
        const double bytes = memory.activation_bytes(s, schedule.recompute(later, s)) * share;
        own += share;
        if (forward) {
          held += bytes;
        } else {
          freed += bytes + memory.kv_gradient_bytes(s) * share;
        }
      }
    }
    const KeyExchange way = PackShares{rows, sharing}.exchange(task.pack);
    const double exchanged = exchange_bytes(memory, s, task.pass, tokens, team.size(), way);
    const int recompute_layers = forward ? 0 : schedule.recompute(task.pack, s);
    peak =
        std::max(peak, held + memory.workspace_bytes(s, task.pass, whole(own), recompute_layers) + exchanged);
    held -= freed;
  }
  return memory.static_bytes(s) + peak;
}

}  // namespace oracle
