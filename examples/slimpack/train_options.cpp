#include "train_options.hpp"

#include <cmath>

#include "arguments.hpp"
#include "gpu.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/transport/launch.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

namespace {

po::options_description train_description() {
  po::options_description training("Training");
  training.add_options()("plan", po::value<std::string>()->value_name("FILE"),
                         "train with this plan alone; - for standard input")(
      "planner", po::value<std::string>()->default_value("slimpack"),
      "without --plan: plans each step's batch")(
      "steps", po::value<std::int64_t>()->value_name("N")->default_value(1),
      "optimiser steps; planners that let documents wait take more, until all are trained")(
      "evaluate", po::value<std::int64_t>()->value_name("K")->default_value(0),
      "every K steps, and after the last one, also the loss of the batch that follows the trained ones")(
      "topics", po::value<std::int64_t>()->value_name("N")->default_value(1),
      "of the texts' language: which words follow each other depends on a text's length")(
      "real", po::value<std::string>()->default_value("float"), "numbers: float or double")(
      "learning-rate", po::value<double>()->value_name("X")->default_value(1e-3), "of AdamW")(
      "seed", po::value<std::int64_t>()->value_name("N")->default_value(1), "of weights and texts")(
      "memory", po::value<double>()->value_name("BYTES"),
      "that a stage may use; default: the machine's, divided by the number of ranks")(
      "timeout", po::value<double>()->value_name("SECONDS")->default_value(60.0),
      "after which a rank that others wait for is given up")(
      "transport", po::value<std::string>()->default_value("auto"),
      "ranks are threads of this process, processes of an mpirun, or those of torchrun, srun and the like: "
      "threads, mpi, tcp, or auto, by what has started it")(
      "start-timeout", po::value<double>()->value_name("SECONDS")->default_value(300.0),
      "tcp: how long ranks wait for each other to start")(
      "links", po::value<std::string>()->default_value("auto"),
      "cuda: what moves rows and gradients between ranks: nccl, host (through its memory), or auto: nccl "
      "where each "
      "rank is a process with a GPU of its own")(
      "whole-stages", "with --plan: one rank for each stage, whatever its tensor parallelism")(
      "no-graphs", "cuda: tasks are not launched as CUDA graphs where a plan repeats")(
      "attention", po::value<std::string>()->value_name("WHOSE")->default_value("ours"),
      "cuda: attention by slimpack's kernels (ours), or by cuDNN where it takes a pack (cudnn)")(
      "attention-workspace", po::value<double>()->value_name("BYTES")->default_value(1U << 30U),
      "cudnn: of each stage, for attention; packs that need more run ours")("json",
                                                                            "one JSON document at the end");
  training.add(job_description(
      {.model = "tiny",
       .device = "cpu",
       .needs_context = false,
       .devices = "see `slimpack presets`, for predicted times; cuda: stages run on this machine's GPU, "
                  "predicted as h100"}));
  return training;
}

/// Constants of `--device cuda`, where none are given.
constexpr const char* gpu_preset = "h100";

/// Options that mean something with a plan file.
bool fits_plan_file(const std::string& option) {
  for (const auto* fits : {"plan",
                           "steps",
                           "topics",
                           "real",
                           "learning-rate",
                           "seed",
                           "memory",
                           "timeout",
                           "start-timeout",
                           "transport",
                           "links",
                           "whole-stages",
                           "no-graphs",
                           "attention",
                           "attention-workspace",
                           "json",
                           "quiet",
                           "layers",
                           "hidden",
                           "heads",
                           "kv-heads",
                           "head-dim",
                           "ffn",
                           "vocab",
                           "device",
                           "profile",
                           "peak-flops",
                           "gemm-efficiency",
                           "gemm-backward-efficiency",
                           "attention-forward",
                           "attention-backward",
                           "memory-bandwidth",
                           "pack-overhead",
                           "network-bandwidth",
                           "network-latency",
                           "nvlink-bandwidth",
                           "nvlink-latency",
                           "devices-per-node"}) {
    if (option == fits) return true;
  }
  return false;
}

void check_plan_file_options(const po::variables_map& values) {
  for (const auto& [name, value] : values) {
    require(value.defaulted() || fits_plan_file(name), "--", name,
            " is about planning; expected no such option with --plan");
  }
}

LinkKind links_from(const std::string& links, const TrainOptions& o) {
  require(links == "auto" || links == "host" || links == "nccl", "--links is '", links,
          "'; expected nccl, host or auto");
  require(links == "auto" || o.cuda, "--links is '", links,
          "'; expected no such option without --device cuda");
  require(links != "nccl" || o.ranks != RankKind::threads,
          "--links is 'nccl', but ranks are threads; expected a process for each (mpirun, torchrun, srun)");
  return links == "auto" ? LinkKind::automatic : links == "host" ? LinkKind::host : LinkKind::nccl;
}

RankKind ranks_from(const std::string& transport) {
  if (transport == "threads") return RankKind::threads;
  if (transport == "mpi") return RankKind::mpi;
  if (transport == "tcp") return RankKind::tcp;
  require(transport == "auto", "--transport is '", transport, "'; expected threads, mpi, tcp or auto");
  switch (kernels::launcher_of()) {
    case kernels::Launcher::mpi:
      return RankKind::mpi;
    case kernels::Launcher::torchrun:
    case kernels::Launcher::slurm:
      return RankKind::tcp;
    case kernels::Launcher::none:
      return RankKind::threads;
  }
  return RankKind::threads;
}

double positive(const po::variables_map& values, const char* name, double most) {
  const double value = values[name].as<double>();
  require(value > 0.0 && value <= most, "--", name, " is ", value, "; expected a positive number up to ",
          most);
  return value;
}

std::chrono::milliseconds milliseconds_of(const po::variables_map& values, const char* name) {
  return std::chrono::milliseconds(std::llround(std::ceil(1e3 * positive(values, name, 1e6))));
}

/// The batches' job. On GPUs, a rank holds all weights of its stage, so there is no tensor parallelism.
JobOptions planning_options(const po::variables_map& values, bool cuda) {
  require(values.count("context") != 0,
          "--context is missing; expected --plan FILE, or --lengths FILE --context C and what else plans it");
  JobOptions job = job_options(values);
  require(!cuda || job.job.layout.tp == 1, "tp is ", job.job.layout.tp,
          "; expected 1: on GPUs, a rank holds all weights of its stage");
  kernels::require_tensor_ranks(job.job.model, static_cast<std::size_t>(job.job.layout.tp));
  return job;
}

/// @throws InvalidInput if the profile is of a CPU and ranks run on GPUs, or the other way round, or of another attention.
void require_profile_of_back_end(const po::variables_map& values, bool cuda, AttentionChoice attention) {
  const auto profile = profile_from(values);
  if (!profile) return;
  const bool of_gpu = profile->device.has_value();
  require(of_gpu || !cuda,
          "the profile is of a CPU; expected one of `slimpack profile --device cuda` with --device cuda");
  require(!of_gpu || cuda, "the profile is of a GPU; expected --device cuda with it");
  if (!of_gpu || !profile->device->attention) return;
  const auto measured = attention_name(*profile->device->attention), asked = attention_name(attention);
  require(measured == asked, "--attention is '", asked, "', but the profile is of '", measured,
          "'; expected --attention ", measured,
          ", or a profile of `slimpack profile --device cuda --attention ", asked, "`");
}

}  // namespace

std::optional<TrainOptions> train_options(const std::vector<std::string>& arguments) {
  auto values = parse({"train", "--plan plan.json [options], or --lengths FILE --context C [options]", ""},
                      train_description(), arguments);
  if (!values) return std::nullopt;
  TrainOptions o;
  o.cuda = (*values)["device"].as<std::string>() == "cuda";
  o.attention = attention_from((*values)["attention"].as<std::string>(), o.cuda);
  require_profile_of_back_end(*values, o.cuda, o.attention);
  o.attention_workspace = positive(*values, "attention-workspace", 1e18);
  if (o.cuda) {
    require((*values)["real"].as<std::string>() == "float", "--real is ", (*values)["real"].as<std::string>(),
            "; expected float, which master weights are on GPUs");
    (*values).at("device").value() = std::string(gpu_preset);
    require_cuda();  // ranks look for their GPUs once they can tell each other
  }
  o.values = *values;
  o.planner = (*values)["planner"].as<std::string>();
  if (values->count("plan") != 0) {
    check_plan_file_options(*values);
    o.plan_file = (*values)["plan"].as<std::string>();
    o.job.profile = profile_from(*values);
    o.job.job.device = device_from(*values, o.job.profile.get());
    o.job.cost.exchanges = exchanges_from(*values);
    validate(o.job.job.device);
  } else {
    o.job = planning_options(*values, o.cuda);
  }
  const auto real = (*values)["real"].as<std::string>();
  require(real == "float" || real == "double", "--real is '", real, "'; expected float or double");
  o.number_bytes = real == "float" ? 4 : 8;
  require(!o.job.profile || o.job.profile->weight_bytes() == o.number_bytes, "--real is ", real,
          ", but the profile is of ", o.number_bytes == 4 ? "double" : "float", "; expected the same");
  o.steps = at_least(*values, "steps", 1);
  o.evaluate = at_least(*values, "evaluate", 0);
  o.topics = at_least(*values, "topics", 1);
  o.learning_rate = positive(*values, "learning-rate", std::numeric_limits<double>::max());
  o.seed = at_least(*values, "seed", 0);
  if (values->count("memory") != 0) o.memory_bytes = positive(*values, "memory", 1e18);
  o.timeout = milliseconds_of(*values, "timeout");
  o.start_timeout = milliseconds_of(*values, "start-timeout");
  o.ranks = ranks_from((*values)["transport"].as<std::string>());
  o.links = links_from((*values)["links"].as<std::string>(), o);
  o.whole_stages = values->count("whole-stages") != 0;
  require(!o.whole_stages || !o.plan_file.empty(),
          "--whole-stages is given without --plan; expected --tp, which says how many ranks run a stage");
  o.graphs = values->count("no-graphs") == 0;
  require(o.graphs || o.cuda, "--no-graphs is given; expected no such option without --device cuda");
  o.json = values->count("json") != 0;
  return o;
}

}  // namespace slimpack::command
