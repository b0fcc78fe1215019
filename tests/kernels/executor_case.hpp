#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/executor.hpp"
#include "slimpack/exec/context_members.hpp"
#include "tests/exec/plans.hpp"
#include "tests/kernels/drive.hpp"
#include "tests/kernels/reference.hpp"

// Training runs whose outcome the plain reference knows.
namespace slimpack::testing {

using Tensors = std::map<std::string, std::vector<double>>;

/// Takes numbers in that others hold as well: all have the same ones. NaN stands for what is not known.
inline void merge(const Tensors& from, Tensors& to, bool check_same = true) {
  for (const auto& [name, numbers] : from) {
    auto& known = to.try_emplace(name, numbers).first->second;
    bool same = true;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      same = same && (known[i] == numbers[i] || std::isnan(known[i]) || std::isnan(numbers[i]));
      if (std::isnan(known[i])) known[i] = numbers[i];
    }
    if (check_same) CHECK(same);
  }
}

/// Numbers that a rank has of the model's tensors, NaN where others have them.
template <class Real>
[[nodiscard]] Tensors whole_tensors(const kernels::WeightLayout& layout, std::span<const Real> numbers) {
  Tensors out;
  for (const kernels::WeightTensor& t : layout.tensors()) {
    std::vector<double>& whole = out[t.name];
    whole.assign(layout.whole_size(t), std::numeric_limits<double>::quiet_NaN());
    layout.for_each_run(t, [&](std::size_t here, std::size_t there, std::size_t count) {
      const auto run = numbers.subspan(t.offset + here, count);
      std::copy(run.begin(), run.end(), whole.begin() + static_cast<std::ptrdiff_t>(there));
    });
  }
  return out;
}

/// Takes a rank's gradients, and its weights, in: replicas have the same weights.
template <class Real>
void collect(const kernels::StageWeights<Real>& stage, Tensors& weights, Tensors& gradients) {
  merge(whole_tensors(stage.layout(), stage.parameters()), weights);
  merge(whole_tensors(stage.layout(), stage.gradients()), gradients);
}

struct ExecutorCase {
  Plan plan;
  Transformer model;
  Ragged<std::int32_t> ids;
  kernels::ExecutorOptions options;
  unsigned seed = 0;
  int steps = 1;

  /// What the plain transformer ends with, whatever numbers a run has and however its optimiser is shared.
  [[nodiscard]] Reference reference() const {
    Reference out(model);
    for (std::size_t s = 0; s < plan.pipelines[0].stages(); ++s) {  // which hold all layers, as any others do
      kernels::StageWeights<double> stage(kernels::stage_part(model, plan, 0, s));
      stage.initialise(options.init);
      Tensors ignored;
      collect(stage, out.weights, ignored);
    }
    std::map<std::string, std::vector<double>> first, second;
    for (int step = 1; step <= steps; ++step) {
      run_reference(out, plan, ids);
      for (auto& [name, w] : out.weights) {
        first[name].resize(w.size());
        second[name].resize(w.size());
        adamw(w, out.gradients.at(name), first[name], second[name], step);
      }
    }
    return out;
  }

  /// Compares a run's losses by rank, weights and (with an unsharded optimiser) gradients with the reference's.
  template <class Real>
  void check(const std::vector<double>& losses, const Tensors& weights, const Tensors& gradients,
             const Reference& reference) const {
    const double tolerance = std::is_same_v<Real, double> ? 1e-10 : 1e-4;
    for (const double loss : losses) {
      CHECK(loss == losses[0]);
      CHECK(loss == Approx(reference.loss).epsilon(20 * tolerance * steps));
    }
    if (!options.shard_optimiser)
      compare("gradients", gradients, reference.gradients, tolerance * (steps > 1 ? 1e3 : 1));
    // AdamW divides by the gradient's size: where that is tiny, rounding decides.
    compare("weights", weights, reference.weights, std::is_same_v<Real, double> ? 1e-6 : 1e-2);
  }

 private:
  /// All numbers of `result`: a rank alone has only its stage's, or its share of them.
  static void compare(const char* what, Tensors result, const Tensors& expected, double tolerance) {
    Tensors same;
    for (auto& [name, numbers] : result) {
      same[name] = expected.at(name);
      REQUIRE(numbers.size() == same[name].size());
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (std::isnan(numbers[i])) numbers[i] = same[name][i] = 0.0;
      }
    }
    const auto [difference, tensor] = worst(result, same);
    INFO(what << " of " << tensor);
    CHECK(difference < tolerance);
  }

  void adamw(std::vector<double>& w, const std::vector<double>& g, std::vector<double>& m,
             std::vector<double>& v, int step) const {
    const kernels::AdamWOptions& o = options.adamw;
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      const double unbiased = m[i] / (1 - std::pow(o.beta1, step));
      const double size = std::sqrt(v[i] / (1 - std::pow(o.beta2, step)));
      w[i] -= o.learning_rate * (unbiased / (size + o.epsilon) + o.weight_decay * w[i]);
    }
  }
};

/// Lets each sample's packs say how keys are exchanged, or say nothing. Packs have one sample's way; where they hold
/// several of different ways, all have the first one's.
inline void choose_exchanges(Plan& plan, std::mt19937& random) {
  constexpr KeyExchange ways[] = {KeyExchange::none, KeyExchange::ring, KeyExchange::all_to_all};
  // Samples that packs of any pass have in common get the same way.
  std::vector<SampleId> first(plan.tokens.size());
  std::iota(first.begin(), first.end(), SampleId{0});
  const auto root = [&](SampleId id) {
    while (first[id] != id) id = first[id];
    return id;
  };
  for (const PassPlan* pass : {&plan.forward, &plan.backward}) {
    for (std::size_t k = 0; k < pass->packs.size(); ++k) {
      for (const Slice& slice : pass->packs[k]) first[root(slice.sample)] = root(pass->packs[k][0].sample);
    }
  }
  std::vector<KeyExchange> chosen;
  for (std::size_t i = 0; i < plan.tokens.size(); ++i) chosen.push_back(ways[random() % 3]);
  for (PassPlan* pass : {&plan.forward, &plan.backward}) {
    for (std::size_t k = 0; k < pass->packs.size(); ++k) {
      const std::span<const Slice> pack = std::as_const(pass->packs)[k];
      pass->exchange.push_back(pack.empty() ? KeyExchange::none : chosen[root(pack[0].sample)]);
    }
  }
}

/// Lets merged packs share attention by heads, and gives the model heads that all groups of members divide.
inline void share_by_heads(ExecutorCase& c, std::mt19937& random) {
  c.options.stage.merged = kernels::MergedAttention::heads;
  if (random() % 2 == 0) choose_exchanges(c.plan, random);
  std::size_t divided = 1;
  for (std::size_t k = 0; k < c.plan.forward.packs.size(); ++k)
    divided = std::lcm(divided, c.plan.forward.pipelines[k].size());
  if (divided == 1) return;
  c.model.kv_heads = static_cast<std::int32_t>(divided);
  c.model.heads = c.model.kv_heads * static_cast<std::int32_t>(1 + random() % 2);
}

/// Number `i` of the small cases whose plans are of a kind, for so many ranks (0 = 2 to 12); sharded and not in turn.
[[nodiscard]] inline ExecutorCase executor_case(PlanKind kind, unsigned i, std::size_t ranks = 0) {
  unsigned found = 0;
  for (unsigned seed = 1;; ++seed) {
    REQUIRE(seed < 5000);
    auto plan = random_plan(kind, seed);
    if (plan && plan->pipelines[0].cp > 1) plan = context_ranks_as_members(*plan, 1 + Tokens(seed % 5));
    const std::size_t wanted = plan ? rank_count(*plan) : 0;
    if (wanted < 2 || wanted > 12 || (ranks != 0 && wanted != ranks)) continue;
    double work = 0.0;
    for (const Tokens length : plan->tokens) work += double(length) * (20.0 + double(length));
    if (work * plan->model.layers > 1e6 || found++ < i) continue;
    std::mt19937 random(seed);
    ExecutorCase c{
        .plan = *plan, .model = small_model(random, *plan), .ids = {}, .options = {}, .seed = seed};
    c.ids = random_ids(random, c.plan, c.model.vocab);
    c.options.stage = {.ring_tokens = 1 + random() % 30,
                       .page_tokens = 1 + random() % 40,
                       .head_chunk_tokens = 1 + random() % 40};
    c.options.init = {.seed = seed, .deviation = 0.4};
    c.options.shard_optimiser = i % 3 == 0;
    if (i % 2 == 1) share_by_heads(c, random);
    c.options.block = 1 + Tokens(seed % 5);
    if (seed % 2 == 0) c.plan.forward.block = c.plan.backward.block = 0;  // the option decides
    c.options.loop.window = 1 + seed % 3;
    return c;
  }
}

}  // namespace slimpack::testing
