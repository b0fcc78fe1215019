#include "slimpack/schedule/memory_fit.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "slimpack/schedule/schedule.hpp"
#include "tests/schedule/random_rows.hpp"

using namespace slimpack;

namespace {

/// Random packs with a full lead of either order, and memory of which parts can be taken.
struct FitInstance {
  oracle::RandomRows rows;
  oracle::UnevenMemory model;
  Schedule schedule;
  std::vector<std::uint32_t> required;

  explicit FitInstance(std::mt19937& random)
      : rows(random), schedule(rows.schedule(static_cast<Tokens>(random() % 6))) {
    for (std::size_t s = 0; s < rows.stages; ++s)
      model.layers.push_back(std::uniform_int_distribution<std::int32_t>(1, 3)(random));
    std::vector<std::uint32_t> ended;
    required_rows(rows.lengths, rows.forward, rows.backward, ended, required);
    const std::size_t forward = rows.forward.rows.size();
    if (std::bernoulli_distribution(0.3)(random)) {
      gpipe_leads(forward, required.size(), rows.stages, schedule.leads);
    } else {
      packflow_leads(required, forward, rows.stages, schedule.leads);
    }
    schedule.recompute = Recompute(std::vector<std::int32_t>(rows.stages, 0));
    oracle::RandomRows::exchange_in_turn(schedule);
  }

  [[nodiscard]] Memory memory() const { return Memory(model, model.layers, true); }

  [[nodiscard]] Recompute random_recompute(std::mt19937& random, bool per_pack) const {
    std::vector<std::int32_t> layers;
    for (std::size_t k = 0; k < (per_pack ? rows.backward.packs.size() : 1); ++k) {
      for (const std::int32_t held : model.layers)
        layers.push_back(std::uniform_int_distribution<std::int32_t>(0, held)(random));
    }
    return per_pack ? Recompute(rows.stages, std::move(layers)) : Recompute(std::move(layers));
  }

  /// The same number of layers on all packs of a stage, no others recomputed.
  [[nodiscard]] Recompute uniform(std::size_t s, std::int32_t recompute_layers) const {
    std::vector<std::int32_t> layers(rows.stages, 0);
    layers[s] = recompute_layers;
    return Recompute(std::move(layers));
  }

  /// The largest peak of a stage, token by token.
  [[nodiscard]] double peak(std::size_t s) const {
    double most = 0.0;
    for (std::size_t p = 0; p < rows.pipelines; ++p)
      most = std::max(most, oracle::peak_bytes(schedule, rows.lengths, p, s, model));
    return most;
  }

  /// Tokens of a slice that a member of a team holds.
  [[nodiscard]] double share(std::span<const std::uint32_t> team, std::size_t p, const Slice& slice) const {
    const auto place = static_cast<std::size_t>(std::find(team.begin(), team.end(), p) - team.begin());
    return oracle::held_tokens(slice, team.size(), place, schedule.forward_times.sharing);
  }

  /// Bytes of activations and KV gradients that a pipeline holds while it runs backward row `k`, if it has run `n`
  /// forward rows before; token by token.
  [[nodiscard]] double held(std::size_t p, std::size_t s, std::size_t n, std::size_t k) const {
    const auto later = oracle::packs_of_tokens(rows.lengths, rows.backward.packs);
    std::vector<char> begun(rows.lengths.size(), 0);
    double bytes = 0.0;
    const auto add = [&](const PackRows& of, std::size_t r, const auto& each) {
      for (const PackId pack : of.rows[r]) {
        const auto members = of.members[pack];
        if (std::find(members.begin(), members.end(), p) == members.end()) continue;
        for (const Slice& slice : of.packs[pack]) {
          for (Tokens t = slice.begin; t < slice.end; ++t)
            bytes +=
                each(slice.sample, static_cast<std::size_t>(t)) * share(members, p, {slice.sample, t, t + 1});
        }
      }
    };
    const auto activation = [&](SampleId id, std::size_t t) {
      return model.activation_bytes(s, schedule.recompute(later[id][t], s));
    };
    const double gradient = model.kv_gradient_bytes(s);
    for (std::size_t r = 0; r < n; ++r) add(rows.forward, r, activation);
    for (std::size_t r = 0; r < k; ++r)
      add(rows.backward, r, [&](SampleId id, std::size_t t) { return -activation(id, t) - gradient; });
    for (std::size_t r = 0; r <= k; ++r) {
      for (const PackId pack : rows.backward.rows[r]) {
        for (const Slice& slice : rows.backward.packs[pack]) begun[slice.sample] = 1;
      }
    }
    for (SampleId id = 0; id < rows.lengths.size(); ++id) {
      const auto& team = rows.teams[rows.team[id]];
      if (begun[id] == 1 && std::find(team.begin(), team.end(), p) != team.end())
        bytes += gradient * share(team, p, {id, 0, rows.lengths[id]});
    }
    return bytes;
  }

  /// The largest workspace of a pipeline's tasks; of backward tasks, with the most layers that any recomputes.
  [[nodiscard]] double most_workspace(std::size_t p, std::size_t s) const {
    std::int32_t recompute_layers = 0;
    for (std::size_t k = 0; k < rows.backward.packs.size(); ++k)
      recompute_layers = std::max(recompute_layers, schedule.recompute(k, s));
    double most = 0.0;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const PackRows& of = pass == Pass::forward ? rows.forward : rows.backward;
      const PassTimes& times = pass == Pass::forward ? schedule.forward_times : schedule.backward_times;
      for (std::size_t k = 0; k < of.packs.size(); ++k) {
        const auto members = of.members[k];
        if (std::find(members.begin(), members.end(), p) == members.end()) continue;
        double own = 0.0;
        for (const Slice& slice : of.packs[k]) own += share(members, p, slice);
        const double exchanged = members.size() > 1
                                     ? model.exchange_bytes(s, pass, count_tokens(of.packs[k]),
                                                            members.size(), times.sharing.exchange[k])
                                     : 0.0;
        const double bytes = exchanged + model.workspace_bytes(s, pass, oracle::whole(own),
                                                               pass == Pass::forward ? 0 : recompute_layers);
        most = std::max(most, bytes);
      }
    }
    return most;
  }
};

}  // namespace

TEST_CASE("peaks of memory are those of counting each token at each task") {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    FitInstance in(random);
    const Memory memory = in.memory();
    MemoryFit fit(in.rows.lengths, memory);
    fit.load(in.schedule);
    for (const bool per_pack : {false, true, false}) {
      in.schedule.recompute = in.random_recompute(random, per_pack);
      for (std::size_t p = 0; p < in.rows.pipelines; ++p) {
        for (std::size_t s = 0; s < in.rows.stages; ++s) {
          INFO("pipeline " << p << " stage " << s << (per_pack ? ", per pack" : ", uniform"));
          CHECK(fit.peak_bytes(p, s, in.schedule.leads, in.schedule.recompute) ==
                Approx(oracle::peak_bytes(in.schedule, in.rows.lengths, p, s, in.model)).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE("a stage fits if its largest peak does") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    FitInstance in(random);
    for (const bool per_pack : {false, true}) {
      in.schedule.recompute = in.random_recompute(random, per_pack);
      for (std::size_t s = 0; s < in.rows.stages; ++s) {
        const double peak = in.peak(s);
        for (const double share : {1.0 - 1e-9, 1.0 + 1e-9}) {
          in.model.capacity = peak * share;
          const Memory memory = in.memory();
          MemoryFit fit(in.rows.lengths, memory);
          fit.load(in.schedule);
          CHECK(fit.fits(in.schedule.leads, s, in.schedule.recompute) == (share > 1.0));
        }
      }
    }
  }
}

TEST_CASE("no fewer layers than the least recomputation fit") {
  int some = 0, none = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    FitInstance in(random);
    for (std::size_t s = 0; s < in.rows.stages; ++s) {
      in.schedule.recompute = in.uniform(s, 0);
      const double full = in.peak(s) - in.model.static_bytes(s);
      in.model.capacity = in.model.static_bytes(in.rows.stages - 1) +
                          full * std::uniform_real_distribution<double>(0.2, 1.1)(random);
      const Memory memory = in.memory();
      MemoryFit fit(in.rows.lengths, memory);
      fit.load(in.schedule);
      std::int32_t expected = -1;
      for (std::int32_t r = 0; r <= in.model.layers[s] && expected < 0; ++r) {
        in.schedule.recompute = in.uniform(s, r);
        if (in.peak(s) <= in.model.capacity) expected = r;
      }
      CHECK(fit.least_recompute(in.schedule.leads, s) == expected);
      some += expected > 0 ? 1 : 0;
      none += expected < 0 ? 1 : 0;
    }
  }
  CHECK(some > 100);
  CHECK(none > 100);
}

TEST_CASE("leads under a memory limit are the largest that fit and keep stages ahead of those after them") {
  int limited = 0, hopeless = 0;
  for (unsigned seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    FitInstance in(random);
    in.schedule.recompute = in.random_recompute(random, seed % 2 == 0);
    const LeadTable full = in.schedule.leads;
    double peak = 0.0;
    for (std::size_t s = 0; s < in.rows.stages; ++s) peak = std::max(peak, in.peak(s));
    in.model.capacity = std::max(peak * std::uniform_real_distribution<double>(0.6, 1.05)(random), 20.0);
    const Memory memory = in.memory();
    MemoryFit fit(in.rows.lengths, memory);
    fit.load(in.schedule);
    const bool fits = fit.limit(in.required, in.schedule.recompute, in.schedule.leads);
    const auto all = static_cast<std::uint32_t>(in.rows.forward.rows.size());
    bool hope = true;
    for (std::size_t s = 0; s < in.rows.stages && hope; ++s) {
      const double room = in.model.capacity - in.model.static_bytes(s);
      const auto within = [&](std::size_t n, std::size_t k) {
        for (std::size_t p = 0; p < in.rows.pipelines; ++p) {
          if (in.held(p, s, n, k) + in.most_workspace(p, s) > room * (1.0 + 1e-12)) return false;
        }
        return true;
      };
      std::uint32_t next = all;
      for (std::size_t k = in.required.size(); k-- > 0;) {
        std::uint32_t n = std::min(next, full(k, s));
        if (s > 0) {
          // The stage before stays ahead, unless it has run all its forward rows, one backward row ago.
          const std::uint32_t before = in.schedule.leads(k, s - 1);
          const bool done = before == all && (k == 0 || in.schedule.leads(k - 1, s - 1) == all);
          if (!done) n = std::min(n, before - 1);
        }
        while (n > in.required[k] && !within(n, k)) --n;
        n = std::max(n, in.required[k]);
        CHECK(in.schedule.leads(k, s) == n);
        hope = hope && within(n, k);
        next = n;
      }
      if (hope) CHECK(in.peak(s) <= in.model.capacity * (1.0 + 1e-12));
      for (std::size_t k = 0; k < in.required.size() && hope; ++k) {
        CHECK((k == 0 || in.schedule.leads(k, s) >= in.schedule.leads(k - 1, s)));
        CHECK((s == 0 || in.schedule.leads(k, s) <= in.schedule.leads(k, s - 1)));
        limited += in.schedule.leads(k, s) < full(k, s) ? 1 : 0;
      }
    }
    CHECK(fits == hope);
    hopeless += hope ? 0 : 1;
  }
  CHECK(limited > 50);
  CHECK(hopeless > 50);
}
