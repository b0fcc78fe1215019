#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "document_models.hpp"
#include "plain_attention.hpp"
#include "slimpack/planners/fixed_4d.hpp"
#include "slimpack/planners/plain_4d.hpp"

namespace slimpack::command {

namespace {

Fixed4dOptions fixed_options(const JobOptions& o) {
  return {.context = o.context, .window = o.documents.window, .micro_batches = o.documents.micro_batches};
}

/// A window's batches, and what was planned of the windows before.
struct Window {
  std::vector<std::vector<Document>> batches;
  double late = 0.0, tokens = 0.0;
};

/// Plans a window with its documents' own ids.
template <class C, class M, class A>
std::vector<Plan> plan_window(Window& window, const JobOptions& o, const C& cost, const M& memory,
                              const A& attention, ShardingPolicy sharding) {
  if (window.batches.empty()) return {};
  std::vector<Tokens> lengths;
  std::vector<std::uint64_t> ids;
  std::vector<std::size_t> begin{0};
  for (const auto& batch : window.batches) {
    for (const Document& document : batch) {
      lengths.push_back(document.length);
      ids.push_back(document.id);
    }
    begin.push_back(lengths.size());
  }
  Fixed4dPlans made =
      plan_fixed_4d_sharded(lengths, begin, o.job, cost, memory, attention, sharding, fixed_options(o));
  for (Plan& plan : made.plans) {
    for (std::uint64_t& id : plan.document_ids) id = ids[id];
  }
  const auto tokens = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), Tokens{0}));
  window.late += tokens * made.mean_token_delay;
  window.tokens += tokens;
  window.batches.clear();
  return std::move(made.plans);
}

/// @param plan makes a window's plans.
template <class PlanWindow>
PlanRun run_of(const JobOptions& o, const PlanWindow& plan) {
  const auto window = std::make_shared<Window>();
  return {.push =
              [window, plan, size = o.documents.window](const std::vector<Document>& batch) {
                window->batches.push_back(batch);
                return window->batches.size() == size ? plan(*window) : std::vector<Plan>{};
              },
          .finish = [window, plan] { return plan(*window); },
          .token_delay = [window] { return window->tokens > 0.0 ? window->late / window->tokens : 0.0; }};
}

}  // namespace

std::vector<PlanRun> start_fixed_4d(const JobOptions& o, const Lengths&, const RunScope&) {
  std::vector<ShardingPolicy> shardings{ShardingPolicy::per_sequence};
  if (o.job.layout.cp > 1) shardings.push_back(ShardingPolicy::per_document);
  if (o.documents.sharding) shardings = {*o.documents.sharding};
  std::vector<PlanRun> runs;
  runs.reserve(shardings.size());
  for (const ShardingPolicy sharding : shardings) {
    runs.push_back(run_of(o, [o, sharding](Window& window) {
      return with_models(o, [&](const auto& cost, const auto& memory, const auto& attention) {
        return plan_window(window, o, cost, memory, attention, sharding);
      });
    }));
  }
  return runs;
}

Plan plan_plain_4d_batch(std::span<const Tokens> lengths, const JobOptions& o) {
  return with_models(o, [&](const auto& cost, const auto& memory, const auto& attention) {
    return plan_plain_4d(
        lengths, o.job, cost, memory, attention,
        {.context = o.context, .sharding = o.documents.sharding.value_or(ShardingPolicy::per_sequence)});
  });
}

Plan plan_plain_4d_on_cpu(std::span<const Tokens> lengths, const JobOptions& o, const RankCost& cost,
                          const RankMemory& memory) {
  return plan_plain_4d(lengths, o.job, cost, memory, PlainAttention(o), {.context = o.context});
}

Plan plan_fixed_4d_on_cpu(std::span<const Tokens> lengths, const JobOptions& o, const RankCost& cost,
                          const RankMemory& memory) {
  const std::vector<std::size_t> one{0, lengths.size()};
  auto made = plan_fixed_4d(lengths, one, o.job, cost, memory, PlainAttention(o), fixed_options(o));
  return std::move(made.plans.front());
}

PlanRun start_fixed_4d_on_cpu(const JobOptions& o, const Lengths&, const RunScope&, const RankCost& cost,
                              const RankMemory& memory) {
  const auto plan = [=](Window& window) {
    return plan_window(window, o, cost, memory, PlainAttention(o), ShardingPolicy::per_sequence);
  };
  return run_of(o, plan);
}

}  // namespace slimpack::command
