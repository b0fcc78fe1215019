#include "train_course.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "arguments.hpp"
#include "documents.hpp"
#include "gpu.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/transport/launch.hpp"
#include "plan_file.hpp"
#include "planners.hpp"
#include "rank_cost.hpp"
#include "rank_memory.hpp"
#include "retime.hpp"
#include "slimpack/exec/context_members.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/exec/whole_stages.hpp"
#include "slimpack/plan/validate.hpp"

namespace slimpack::command {

namespace {

/// Of this machine, or of the GPU where ranks run on one; infinite where the system does not say.
double machine_bytes(const TrainOptions& options) {
  if (options.cuda) return use_gpu(options.ranks == RankKind::threads ? 0 : kernels::local_rank_of());
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || size <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(pages) * static_cast<double>(size);
}

/// Keys of merged packs go round in a ring unless `all_to_all` is asked for.
bool by_heads(const TrainOptions& o) { return o.job.cost.exchanges == ExchangeSet{KeyExchange::all_to_all}; }

KeyExchange exchange_of(const TrainOptions& o) {
  return by_heads(o) ? KeyExchange::all_to_all : KeyExchange::ring;
}

/// What stages are asked to do. @param limit_bytes that a stage may use.
kernels::StageOptions stages_of(const TrainOptions& o, double limit_bytes) {
  kernels::StageOptions stage = stage_options(o.cuda, by_heads(o), limit_bytes);
  stage.attention = o.attention;
  stage.attention_workspace = static_cast<std::size_t>(o.attention_workspace);
  return stage;
}

/// What a stage holds. The optimiser is sharded.
RankMemory memory_of(const TrainOptions& o, std::span<const std::int32_t> layers) {
  const Job& job = o.job.job;
  const auto context = static_cast<std::size_t>(job.layout.cp);
  const double moments = 2.0 / (static_cast<double>(job.layout.dp) * job.layout.cp);
  // Planners need a finite capacity; with this one, peaks that they compute from it are exact to a byte.
  constexpr double unlimited = 1e15;
  const auto stage = stages_of(o, std::min(o.memory_bytes, unlimited));
  const auto ranks = static_cast<std::size_t>(job.layout.tp);
  // The last rank has the most where they can't have equal shares.
  const TensorShare tensor = o.cuda ? TensorShare{} : TensorShare{ranks, ranks - 1};
  return {o.cuda, job.model, layers, o.number_bytes, stage, moments, tensor, context};
}

/// The one place that decides which model of time predicts. @param exchange of merged packs.
RankCost cost_of(const TrainOptions& o, const Transformer& model, const Strategy& strategy,
                 std::uint32_t kind, KeyExchange exchange) {
  if (o.job.profile) {
    return MeasuredCost(
        *o.job.profile, model, strategy.spec_of_kind(kind),
        {.replicas = static_cast<std::int32_t>(strategy.pipelines.size()), .exchange = exchange});
  }
  const double rows = o.cuda ? bytes_per_bf16 : o.number_bytes;
  const CalibratedCost cost = preset_cost(model, o.job.job.device, strategy, kind, rows, exchange);
  if (exchange != KeyExchange::all_to_all) return cost;
  // Back ends have each key/value head once, whereas the price is also known of copies.
  const PipelineSpec& spec = strategy.spec_of_kind(kind);
  require(model.kv_heads % spec.ranks_per_stage() == 0, "tp * cp is ", spec.ranks_per_stage(),
          "; expected a divisor of the ", model.kv_heads,
          " key/value heads, which ranks share, or --exchange ring");
  return RankCost(cost, static_cast<std::int32_t>(model.kv_heads / spec.ranks_per_stage()));
}

/// The plan as ranks run it: each rank is a stage of a pipeline.
Plan as_ranks_run(Plan plan) {
  const auto shared = [](const PipelinePlan& pipeline) { return pipeline.cp > 1; };
  if (std::any_of(plan.pipelines.begin(), plan.pipelines.end(), shared))
    plan = context_ranks_as_members(std::move(plan), default_ownership_block);
  return plan;
}

/// The plan of a batch, and its samples' texts: those of its documents, whoever planned it.
PlannedBatch planned_batch(Plan plan, const std::vector<Document>& batch) {
  validate(plan);
  PlannedBatch planned{as_ranks_run(std::move(plan)), {}};
  planned.texts = planned.plan.document_ids;
  if (!planned.texts.empty()) return planned;
  for (const Document& document : batch) planned.texts.push_back(document.id);
  return planned;
}

/// Plans successive batches with the models of the ranks.
class CoursePlanning {
 public:
  explicit CoursePlanning(const TrainOptions& o)
      : o_(o),
        lengths_(read_job_lengths(o.job)),
        cost_(cost_of(o, o.job.job.model, layout_strategy(o.job.job), 0, exchange_of(o))),
        memory_(memory_of(o, layout_strategy(o.job.job).pipelines.front().layers)) {
    require_batches(o.job, lengths_, o.steps, "--steps");
    if (o.evaluate > 0) require_batches(o.job, lengths_, o.steps + 1, "--steps with the batch of --evaluate");
  }

  /// Of all steps, in order.
  [[nodiscard]] std::vector<PlannedBatch> all(const Planner& planner) const {
    std::vector<PlannedBatch> batches;
    require(
        planner.plan_on_cpu != nullptr || planner.start_on_cpu != nullptr, "planner ", planner.name,
        planner.chooses_pipelines
            ? " chooses its pipelines itself, and ranks of a back end are given; expected another --planner"
            : " plans for ranks that shard parameters (ZeRO-3), which no back end has; expected another "
              "--planner");
    if (planner.start_on_cpu == nullptr) {
      for (std::size_t step = 0; step < o_.steps; ++step) batches.push_back(alone(planner, step));
      return batches;
    }
    const PlanRun run = planner.start_on_cpu(o_.job, lengths_, {.iterations = o_.steps}, cost_, memory_);
    const auto take = [&](std::vector<Plan> plans) {
      for (Plan& plan : plans) batches.push_back(planned_batch(std::move(plan), {}));
    };
    for (std::size_t step = 0; step < o_.steps; ++step) take(push_batch(run, o_.job, lengths_, step));
    take(run.finish());
    return batches;
  }

  /// Of batch number `step` by itself.
  [[nodiscard]] PlannedBatch alone(const Planner& planner, std::size_t step) const {
    try {
      return planned_batch(planner.plan_on_cpu(batch(o_.job, lengths_, step), o_.job, cost_, memory_),
                           documents(o_.job, lengths_, step));
    } catch (const InvalidInput& error) {
      throw InvalidInput(with_line(error.what(), o_.job, lengths_, step));
    }
  }

 private:
  const TrainOptions& o_;
  Lengths lengths_;
  RankCost cost_;
  RankMemory memory_;
};

Course planned_course(const TrainOptions& o) {
  const CoursePlanning planning(o);
  Course course{.model = o.job.job.model,
                .batches = planning.all(find_planner(o.planner)),
                .steps = 0,
                .unseen = std::nullopt,
                .stage = {}};
  course.steps = course.batches.size();
  if (o.evaluate > 0) course.unseen = planning.alone(find_planner("megatron"), o.steps);
  return course;
}

Course course_of_file(const TrainOptions& o) {
  Plan plan = read_plan_file(o.plan_file);
  const auto found = violations(plan);
  require(found.empty(), o.plan_file, " breaks the plan format in ", found.size(),
          found.size() == 1 ? " place: " : " places, the first: ", found.empty() ? "" : found.front(),
          "; expected none");
  plan = as_ranks_run(std::move(plan));
  const Transformer model = model_from(o.values, plan.model);
  validate(model);
  if (o.cuda || o.whole_stages) plan = whole_stages(std::move(plan));
  for (const PipelinePlan& pipeline : plan.pipelines)
    kernels::require_tensor_ranks(model, static_cast<std::size_t>(pipeline.tp));
  const auto cost = [&](const Strategy& strategy, std::uint32_t kind, KeyExchange exchange) {
    return cost_of(o, model, strategy, kind, exchange);
  };
  plan = retimed(std::move(plan), model, o.job.job.device, cost);
  std::vector<std::uint64_t> texts(plan.tokens.size());
  std::iota(texts.begin(), texts.end(), std::uint64_t{0});
  return {.model = model,
          .batches = {{std::move(plan), std::move(texts)}},
          .steps = o.steps,
          .unseen = std::nullopt,
          .stage = {}};
}

}  // namespace

Course make_course(const TrainOptions& options) {
  Course course = options.plan_file.empty() ? planned_course(options) : course_of_file(options);
  const auto ranks = static_cast<double>(rank_count(course.plan(0)));
  const bool limited = std::isfinite(options.memory_bytes);
  // Processes have a GPU each; or they had better say how much of it they may use.
  const double sharing = options.cuda && options.ranks != RankKind::threads ? 1.0 : ranks;
  course.stage = stages_of(options, limited ? options.memory_bytes : machine_bytes(options) / sharing);
  course.stage.graphs = options.graphs;
  return course;
}

}  // namespace slimpack::command
