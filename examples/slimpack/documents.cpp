#include "documents.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "planners.hpp"
#include "slimpack/planners/fixed_length.hpp"
#include "slimpack/planners/wlb.hpp"
#include "slimpack/stream/queue_thresholds.hpp"

namespace slimpack::command {

namespace {

/// A kernel of the CPU back end that was not measured: no tiles, a rate for each pair. An AttentionModel.
class PlainAttention {
 public:
  explicit PlainAttention(const JobOptions& o)
      : forward_(attention_flops_per_twice_pair(o.job.model) /
                 (o.job.device.peak_flops * o.job.device.attention_forward)),
        backward_(attention_flops_per_twice_pair(o.job.model) * backward_attention_ratio /
                  (o.job.device.peak_flops * o.job.device.attention_backward)) {}

  [[nodiscard]] AttentionSeconds chunk_seconds(Tokens begin, Tokens end) const {
    const double pairs = twice_causal_pairs(begin, end);
    return {forward_ * pairs, backward_ * pairs};
  }
  [[nodiscard]] AttentionSeconds launch_seconds() const { return {}; }

 private:
  double forward_, backward_;
};

/// Calls `use` with the models of time, memory and attention that the options ask for.
template <class Use>
auto with_models(const JobOptions& o, const Use& use) {
  if (o.profile) {
    return use(profiled_cost(o), profiled_memory(o), ProfiledAttention(*o.profile));
  }
  CalibratedOptions cost = o.cost;
  if (!o.exchange_given) cost.exchange = ContextExchange::all_gather;
  return use(CalibratedCost(o.job, cost), TransformerMemory(o.job, document_memory(o)),
             AttentionKernel(assumed_attention_table(o.job.device), o.job.model, o.job.layout.tp));
}

/// The same job from the first length on, for what follows from the whole file.
JobOptions from_start(const JobOptions& o) {
  JobOptions all = o;
  all.first = 0;
  return all;
}

/// Micro-batches that the largest of some batches needs.
std::size_t micro_batches_of(const JobOptions& o, const Lengths& lengths, std::size_t iterations) {
  double most = static_cast<double>(o.sequences) * static_cast<double>(o.context);
  for (std::size_t i = 0; o.sequences == 0 && i < iterations; ++i) {
    double sum = 0.0;
    for (const Tokens length : batch(o, lengths, i)) sum += static_cast<double>(length);
    most = std::max(most, sum);
  }
  return default_micro_batches(most, o.context, o.job.layout);
}

/// Prices of all lengths up to the longest, once for all batches that are simulated.
template <class Workload>
class Tabulated {
 public:
  Tabulated(Tokens longest, const Workload& workload)
      : table_(std::make_shared<std::vector<double>>(static_cast<std::size_t>(longest) + 1,
                                                     std::numeric_limits<double>::quiet_NaN())),
        workload_(&workload) {}

  double operator()(Tokens length) const {
    double& seconds = (*table_)[static_cast<std::size_t>(length)];
    if (!(seconds >= 0.0)) seconds = (*workload_)(length);
    return seconds;
  }

 private:
  std::shared_ptr<std::vector<double>> table_;
  const Workload* workload_;
};

/// Thresholds that are best on the last batches of the file; none where it has but one batch.
template <class Workload>
std::vector<Tokens> tuned_queues(const JobOptions& given, const Lengths& lengths,
                                 const OutlierDelayOptions& stream, const Workload& workload) {
  const JobOptions o = given.sequences > 0 ? given : from_start(given);
  constexpr std::size_t most_batches = 64, most_documents = 16384;
  const std::size_t all = batch_count(o, lengths);
  if (all < 2) return {};
  std::vector<std::vector<Tokens>> last;
  for (std::size_t count = 0; last.size() < std::min(all, most_batches) && count < most_documents;) {
    const auto [begin, size] = batch_range(o, lengths, all - 1 - last.size());
    std::vector<Tokens> tokens(lengths.tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                               lengths.tokens.begin() + static_cast<std::ptrdiff_t>(begin + size));
    Tokens sum = 0;
    for (Tokens& length : tokens) {
      length = std::min({length, o.context, stream.max_tokens});
      sum += length;
    }
    count += size;
    // Larger ones than any iteration takes say nothing about queues.
    const bool fits = sum <= (static_cast<Tokens>(stream.micro_batches) + 1) * stream.max_tokens / 2;
    last.push_back(fits ? std::move(tokens) : std::vector<Tokens>{});
  }
  std::vector<Tokens> sample;
  std::vector<std::size_t> batches{0};
  for (auto own = last.rbegin(); own != last.rend(); ++own) {
    if (own->empty()) continue;
    sample.insert(sample.end(), own->begin(), own->end());
    batches.push_back(sample.size());
  }
  if (sample.empty()) return {};
  const Tabulated table(stream.max_tokens, workload);
  return tune_queues(sample, batches, stream, table, {.max_queues = 2}).options.thresholds;
}

/// The stream's options: those given; then those of the state; then what follows from the lengths.
template <class Planner>
OutlierDelayOptions stream_options(const JobOptions& o, const Lengths& lengths, const RunScope& scope,
                                   const Planner& planner) {
  OutlierDelayOptions stream{.micro_batches = o.documents.micro_batches,
                             .max_tokens = o.documents.max_tokens,
                             .max_delay = o.documents.max_delay,
                             .release = o.documents.release};
  if (o.documents.queues) stream.thresholds = *o.documents.queues;
  if (!scope.state.empty()) {
    const OutlierDelayOptions saved = saved_options(scope.state);
    if (stream.micro_batches == 0) stream.micro_batches = saved.micro_batches;
    if (!o.documents.queues) stream.thresholds = saved.thresholds;
  }
  if (stream.max_tokens == 0) stream.max_tokens = largest_micro_batch(planner, o.context);
  if (stream.micro_batches == 0) {
    const JobOptions all = from_start(o);
    stream.micro_batches = scope.keeps_state ? micro_batches_of(all, lengths, batch_count(all, lengths))
                                             : micro_batches_of(o, lengths, scope.iterations);
  }
  if (!o.documents.queues && scope.state.empty()) {
    const auto workload = [&](Tokens length) { return planner.document_seconds(length); };
    stream.thresholds = tuned_queues(o, lengths, stream, workload);
  }
  return stream;
}

template <class Planner>
PlanRun run_of(std::shared_ptr<Planner> planner, bool drain) {
  return {.push =
              [planner](const std::vector<Document>& batch) {
                std::vector<Plan> plans;
                plans.push_back(planner->push(batch));
                return plans;
              },
          .finish =
              [planner, drain] {
                std::vector<Plan> plans;
                while (drain && !planner->empty()) plans.push_back(planner->drain());
                return plans;
              },
          .token_delay = [planner] { return planner->statistics().mean_token_delay(); },
          .save = [planner] { return planner->save(); },
          .drain = [planner] { return planner->drain(); }};
}

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

}  // namespace

MemoryOptions document_memory(const JobOptions& o) {
  MemoryOptions memory = o.memory;
  if (!o.exchange_given) memory.gathers_keys = true;
  return memory;
}

std::vector<Document> documents(const JobOptions& o, const Lengths& lengths, std::size_t iteration) {
  const auto [begin, count] = batch_range(o, lengths, iteration);
  std::vector<Document> batch;
  constexpr Tokens most_pieces = Tokens{1} << 23;
  for (std::size_t i = begin; i < begin + count; ++i) {
    const auto pieces = apply_context({&lengths.tokens[i], 1}, o.context, o.long_samples);
    require(pieces.size() <= most_pieces, lengths.source, ", line ", lengths.lines[i], ": --split makes ",
            pieces.size(), " documents of it; expected at most ", most_pieces);
    for (std::size_t k = 0; k < pieces.size(); ++k)
      batch.push_back({std::uint64_t{i} + (std::uint64_t{k} << 40), pieces[k]});
  }
  return batch;
}

std::vector<Plan> push_batch(const PlanRun& run, const JobOptions& o, const Lengths& lengths,
                             std::size_t iteration) {
  try {
    return run.push(documents(o, lengths, iteration));
  } catch (const InvalidInput& error) {
    const std::string message = error.what();
    constexpr std::string_view begin = "document ";
    std::size_t id = lengths.tokens.size();
    if (message.starts_with(begin)) {
      std::from_chars(message.data() + begin.size(), message.data() + message.size(), id);
      id &= (std::size_t{1} << 40) - 1;
    }
    if (id >= lengths.tokens.size()) throw;
    throw InvalidInput(concat(lengths.source, ", line ", lengths.lines[id], ": ", message));
  }
}

std::vector<PlanRun> start_wlb(const JobOptions& o, const Lengths& lengths, const RunScope& scope) {
  return with_models(o, [&](const auto& cost, const auto& memory, const auto& attention) {
    const MicroBatchPlanner planner(o.job, cost, memory, attention);
    WlbOptions options{
        .context = o.context,
        .sharding = o.documents.sharding.value_or(ShardingPolicy::mixed),
        .order = o.documents.given_order ? MicroBatchOrder::as_given : MicroBatchOrder::fastest,
        .stream = stream_options(o, lengths, scope, planner)};
    auto wlb = std::make_shared<WlbPlanner<std::decay_t<decltype(cost)>, std::decay_t<decltype(memory)>,
                                           std::decay_t<decltype(attention)>>>(o.job, cost, memory, attention,
                                                                               std::move(options));
    if (!scope.state.empty()) wlb->restore(scope.state);
    return std::vector<PlanRun>{run_of(std::move(wlb), o.documents.drain)};
  });
}

std::vector<PlanRun> start_fixed_4d(const JobOptions& o, const Lengths&, const RunScope&) {
  std::vector<ShardingPolicy> shardings{ShardingPolicy::per_sequence};
  if (o.job.layout.cp > 1) shardings.push_back(ShardingPolicy::per_document);
  if (o.documents.sharding) shardings = {*o.documents.sharding};
  std::vector<PlanRun> runs;
  for (const ShardingPolicy sharding : shardings) {
    const auto window = std::make_shared<Window>();
    const auto plan = [window, o, sharding] {
      return with_models(o, [&](const auto& cost, const auto& memory, const auto& attention) {
        return plan_window(*window, o, cost, memory, attention, sharding);
      });
    };
    runs.push_back(
        {.push =
             [window, plan, size = o.documents.window](const std::vector<Document>& batch) {
               window->batches.push_back(batch);
               return window->batches.size() == size ? plan() : std::vector<Plan>{};
             },
         .finish = plan,
         .token_delay = [window] { return window->tokens > 0.0 ? window->late / window->tokens : 0.0; }});
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

}  // namespace slimpack::command
