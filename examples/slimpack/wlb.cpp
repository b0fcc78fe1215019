#include "slimpack/planners/wlb.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "document_models.hpp"
#include "plain_attention.hpp"
#include "slimpack/stream/queue_thresholds.hpp"

namespace slimpack::command {

namespace {

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

/// Prices of all lengths up to the longest, once for all batches that are simulated; longer ones are priced each time.
template <class Workload>
class Tabulated {
 public:
  Tabulated(Tokens longest, const Workload& workload)
      : table_(std::make_shared<std::vector<double>>(static_cast<std::size_t>(longest) + 1,
                                                     std::numeric_limits<double>::quiet_NaN())),
        workload_(&workload) {}

  double operator()(Tokens length) const {
    if (static_cast<std::size_t>(length) >= table_->size()) return (*workload_)(length);
    double& seconds = (*table_)[static_cast<std::size_t>(length)];
    if (!(seconds >= 0.0)) seconds = (*workload_)(length);
    return seconds;
  }

 private:
  std::shared_ptr<std::vector<double>> table_;
  const Workload* workload_;
};

/// Whether batch number `i` of the whole file is among those that are planned, and so can't tune anything.
bool planned(const JobOptions& given, const Lengths& lengths, const RunScope& scope,
             const BatchRange& range) {
  if (scope.keeps_state) return false;  // which ones will be is not known
  const std::size_t begin = batch_range(given, lengths, 0).begin;
  const auto [last, size] = batch_range(given, lengths, scope.iterations - 1);
  return range.begin + range.count > begin && range.begin < last + size;
}

/// The last batches of the file that are none of those planned, as far as they tell something about queues.
std::vector<std::vector<Tokens>> tuning_batches(const JobOptions& given, const Lengths& lengths,
                                                const RunScope& scope, const OutlierDelayOptions& stream) {
  const JobOptions o = given.sequences > 0 ? given : from_start(given);
  constexpr std::size_t most_batches = 64, most_documents = 16384;
  std::vector<std::vector<Tokens>> batches;
  std::size_t documents = 0;
  for (std::size_t i = batch_count(o, lengths); i-- > 0;) {
    if (batches.size() >= most_batches || documents >= most_documents) break;
    const BatchRange range = batch_range(o, lengths, i);
    if (planned(given, lengths, scope, range)) continue;
    std::vector<Tokens> tokens(
        lengths.tokens.begin() + static_cast<std::ptrdiff_t>(range.begin),
        lengths.tokens.begin() + static_cast<std::ptrdiff_t>(range.begin + range.count));
    Tokens sum = 0;
    for (Tokens& length : tokens) {
      length = std::min({length, o.context, stream.max_tokens});
      sum += length;
    }
    documents += range.count;
    // Larger ones than any iteration takes say nothing about queues.
    if (sum <= (static_cast<Tokens>(stream.micro_batches) + 1) * stream.max_tokens / 2)
      batches.push_back(std::move(tokens));
  }
  std::reverse(batches.begin(), batches.end());
  return batches;
}

/// Thresholds that are best on other batches of the file than those planned; none where it has no others.
template <class Workload>
std::vector<Tokens> tuned_queues(const JobOptions& o, const Lengths& lengths, const RunScope& scope,
                                 const OutlierDelayOptions& stream, const Workload& workload) {
  std::vector<Tokens> sample;
  std::vector<std::size_t> ends{0};
  for (const std::vector<Tokens>& batch : tuning_batches(o, lengths, scope, stream)) {
    sample.insert(sample.end(), batch.begin(), batch.end());
    ends.push_back(sample.size());
  }
  if (sample.empty()) return {};
  const Tabulated table(*std::max_element(sample.begin(), sample.end()), workload);
  return tune_queues(sample, ends, stream, table, {.max_queues = 2}).options.thresholds;
}

/// The stream's options: those given; then those of the state; then what follows from the lengths.
OutlierDelayOptions stream_options(const JobOptions& o, const Lengths& lengths, const RunScope& scope,
                                   const MicroBatchPlanner& planner) {
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
  if (stream.max_tokens == 0) stream.max_tokens = largest_micro_batch(planner.memory(), o.context);
  if (stream.micro_batches == 0) {
    const JobOptions all = from_start(o);
    stream.micro_batches = scope.keeps_state ? micro_batches_of(all, lengths, batch_count(all, lengths))
                                             : micro_batches_of(o, lengths, scope.iterations);
  }
  if (!o.documents.queues && scope.state.empty()) {
    const auto workload = [&](Tokens length) { return planner.document_seconds(length); };
    stream.thresholds = tuned_queues(o, lengths, scope, stream, workload);
  }
  return stream;
}

PlanRun run_of(const std::shared_ptr<WlbPlanner>& planner, bool drain) {
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
          .kept = KeptRun{.next = [planner] { return planner->state().iteration; },
                          .plan =
                              [planner](std::int64_t iteration, const std::vector<Document>& batch) {
                                return batch.empty() ? planner->drain(iteration)
                                                     : planner->push(iteration, batch);
                              },
                          .save = [planner](std::uint64_t result) { return planner->save(result); }}};
}

/// A run by given models. @param drain whether its end plans what waits.
template <class C, class M, class A>
PlanRun start(const JobOptions& o, const Lengths& lengths, const RunScope& scope, const C& cost,
              const M& memory, const A& attention, bool drain) {
  const MicroBatchPlanner planner(o.job, cost, memory, attention);
  WlbOptions options{.context = o.context,
                     .sharding = o.documents.sharding.value_or(ShardingPolicy::mixed),
                     .order = o.documents.given_order ? MicroBatchOrder::as_given : MicroBatchOrder::fastest,
                     .stream = stream_options(o, lengths, scope, planner)};
  auto wlb = std::make_shared<WlbPlanner>(o.job, cost, memory, attention, std::move(options));
  if (!scope.state.empty()) wlb->restore(scope.state);
  return run_of(wlb, drain);
}

}  // namespace

std::vector<PlanRun> start_wlb(const JobOptions& o, const Lengths& lengths, const RunScope& scope) {
  return with_models(o, [&](const auto& cost, const auto& memory, const auto& attention) {
    return std::vector<PlanRun>{start(o, lengths, scope, cost, memory, attention, o.documents.drain)};
  });
}

PlanRun start_wlb_on_cpu(const JobOptions& o, const Lengths& lengths, const RunScope& scope,
                         const RankCost& cost, const RankMemory& memory) {
  return start(o, lengths, scope, cost, memory, PlainAttention(o), true);
}

}  // namespace slimpack::command
