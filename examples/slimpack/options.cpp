#include "options.hpp"

#include "devices.hpp"
#include "document_options.hpp"
#include "layout_options.hpp"
#include "lengths.hpp"
#include "profile_file.hpp"
#include "slimpack/model/presets.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

po::options_description job_description(const JobDefaults& defaults) {
  const auto size = [] { return po::value<std::int32_t>()->value_name("N"); };
  const auto number = [] { return po::value<double>()->value_name("X"); };
  const auto tokens = [] { return po::value<TokenCount>()->value_name("N"); };
  auto* context = po::value<TokenCount>()->value_name("C");
  if (defaults.needs_context) context->required();
  const std::string split =
      concat("make several samples of longer ones, at most ", most_split_samples, " in a batch");
  po::options_description batch("Batch");
  batch.add_options()("lengths", po::value<std::string>()->value_name("FILE")->default_value("-"),
                      "token lengths, one per line, such as 70000 or 128K; - for standard input")(
      "first", po::value<std::int64_t>()->value_name("K")->default_value(0), "lengths to skip")(
      "count", po::value<std::int64_t>()->value_name("N"), "samples of a batch; default all")(
      "sequences", po::value<std::int64_t>()->value_name("N"),
      "instead of --count: a batch fills N sequences of the context with whole samples in their order")(
      "context", context, "most tokens of a sample, and of a pack of whole samples; 128K is 131072")(
      "truncate", "cut longer samples to the context")("split", split.c_str());
  po::options_description job("Job");
  job.add_options()("model", po::value<std::string>()->value_name("NAME")->default_value(defaults.model),
                    "see `slimpack presets`")(
      "device", po::value<std::string>()->value_name("NAME")->default_value(defaults.device),
      defaults.devices)("dp", size()->default_value(1), "pipelines")("pp", size()->default_value(1),
                                                                     "stages of a pipeline")(
      "tp", size()->default_value(1), "tensor parallelism")("cp", size()->default_value(1),
                                                            "context parallelism of all packs");
  po::options_description model("Model, instead of the preset's");
  model.add_options()("layers", size())("hidden", size())("heads", size())("kv-heads", size())(
      "head-dim", size())("ffn", size())("vocab", size());
  po::options_description device("Device, instead of the preset's");
  device.add_options()("peak-flops", number(), "FLOP/s")("gemm-efficiency", number(),
                                                         "fraction of the peak by dense products, in "
                                                         "both passes")(
      "gemm-backward-efficiency", number(), "in the backward pass, if not as in the forward one")(
      "attention-forward", number(), "fraction of the peak")(
      "attention-backward", number(), "fraction of the peak")("memory-bytes", number())(
      "memory-bandwidth", number(), "bytes/s")("pack-overhead", number(), "seconds")(
      "nvlink-bandwidth", number(), "bytes/s")("network-bandwidth", number(), "bytes/s")(
      "host-bandwidth", number(), "bytes/s")("nvlink-latency", number(), "seconds")(
      "network-latency", number(), "seconds")("host-latency", number(), "seconds")("devices-per-node",
                                                                                   size());
  po::options_description time("Time");
  time.add_options()("profile", po::value<std::string>()->value_name("FILE"),
                     "of `slimpack profile`: plan for the machine and the model that were measured")(
      "exchange", po::value<std::string>()->value_name("WAY")->default_value("cheapest"),
      "of context parallelism: ring, all_to_all (or ulysses), cheapest of these two, or all_gather (or "
      "all-gather)")("tp-overlap", number(),
                     "share of tensor parallelism's communication hidden by dense products")(
      "ring-overlap", number(), "share of a ring's communication hidden by attention")(
      "free-prefix", "slices pay nothing for the keys and values before them")(
      "sync-overlap", number(), "share of the gradient synchronisation hidden by the backward pass")(
      "zero-overlap", number(), "share of ZeRO-3's communication in each pack hidden by its computation");
  po::options_description memory("Memory");
  memory.add_options()("zero", size()->default_value(1),
                       "ZeRO stage, 0 to 3; planners deepspeed and flexsp: 3")(
      "reserve-bytes", number(),
      concat("of each device, kept free for the runtime, communication buffers and fragmentation; default ",
             MemoryOptions{}.reserve_bytes, " (", MemoryOptions{}.reserve_bytes / 1e9, " GB)")
          .c_str())("offload", number(), "share of the activations in host memory")(
      "adaptive-offload",
      "layers may wait in host memory in place of being recomputed, as each pack and stage needs; planners "
      "slimpack, infinipipe, megatron and bytescale");
  po::options_description planner("Planner slimpack");
  planner.add_options()("quick", "a tenth of the planning time; steps are 2 % longer on average")(
      "tile", tokens()->default_value(TokenCount{128}), "slice boundaries are multiples of it")(
      "packs", po::value<std::int64_t>()->value_name("N"), "per pipeline and pass, instead of a search")(
      "equal-packs", "the same number on every pipeline")("no-merge", "never merge pipelines to save time")(
      "power-of-two-groups", "merge 2, 4, 8, … pipelines only")(
      "symmetric", "backward packs as the forward ones")("no-filling",
                                                         "packs take samples strictly in their sequence")(
      "no-injection", "forward and backward packs alternate after a longer warm-up");
  po::options_description megatron("Planners megatron and deepspeed");
  megatron.add_options()("pack-tokens", tokens(), "up to which packs are filled; default: the best of many")(
      "given-cp", "megatron and dynapipe keep the layout's cp and dp, instead of choosing cp")(
      "adaptive-recompute", "megatron's packs recompute what each needs, which Megatron-LM does not offer");
  po::options_description dynamic_cp("Planners dynamic-cp, bytescale and flexsp");
  dynamic_cp.add_options()("rank-tokens", tokens(),
                           "most of a micro-batch on each rank; default: the best of many")(
      "nested-groups", "dynamic-cp: also slimpack's own groups, which are no part of the baseline");
  po::options_description chunks("Planner infinipipe; --slices also of seq1f1b, terapipe and chunkflow");
  chunks.add_options()("slices", po::value<std::int64_t>()->value_name("N"),
                       "of each pipeline's longest sample; default: the best number up to 64")(
      "even-chunks", "chunks of equal tokens instead of equal time")(
      "recompute", po::value<std::string>()->value_name("HOW")->default_value("adaptive"),
      "layers: adaptive (of each chunk and stage), per-stage, none or full; per-stage is also slimpack's")(
      "one-pipeline", "never run samples of unlike lengths in pipelines one after another");
  po::options_description strategies("Planners hydraulis and hotspa");
  strategies.add_options()("keep-optimiser",
                           "the optimiser's states stay with the layout of --dp, --tp, --cp and --pp; other "
                           "strategies pay for what moves");
  po::options_description documents("Planners wlb, fixed-4d and plain-4d");
  documents.add_options()("micro-batches", po::value<std::int64_t>()->value_name("N"),
                          "of an iteration; default: as many contexts as the largest batch fills, at least "
                          "one for each stage and pipeline")(
      "max-tokens", tokens(), "of wlb's micro-batches; default: what memory holds")(
      "queues", po::value<std::string>()->value_name("L1,L2,..."),
      "lengths from which wlb's documents wait in each queue, or none; default: tuned on the last batches of "
      "the file")("max-delay", po::value<std::int64_t>()->value_name("N")->default_value(32),
                  "iterations after which a document waits no longer")(
      "release", po::value<std::string>()->value_name("WHEN")->default_value("full"),
      "documents leave wlb's queues: full as in the paper, or balanced")(
      "window", po::value<std::int64_t>()->value_name("N")->default_value(1),
      "global batches that fixed-4d packs together")(
      "sharding", po::value<std::string>()->value_name("HOW"),
      "per-sequence, per-document, adaptive or mixed; default: each planner's own")(
      "given-order", "run wlb's micro-batches in the order of their packing");
  po::options_description all;
  all.add_options()("quiet,q", "no progress on standard error");
  all.add(batch)
      .add(job)
      .add(planner)
      .add(megatron)
      .add(dynamic_cp)
      .add(chunks)
      .add(strategies)
      .add(documents)
      .add(time)
      .add(memory)
      .add(model)
      .add(device);
  return all;
}

namespace {

template <class T>
void override_with(const po::variables_map& values, const char* name, T& target) {
  if (values.count(name) != 0) target = values[name].as<T>();
}

void override_share(const po::variables_map& values, const char* name, double& target) {
  override_with(values, name, target);
  require(target >= 0.0 && target <= 1.0, "--", name, " is ", target, "; expected a share in [0, 1]");
}

}  // namespace

Transformer model_from(const po::variables_map& values, const Transformer& base) {
  Transformer m = base;
  override_with(values, "layers", m.layers);
  override_with(values, "hidden", m.hidden);
  override_with(values, "heads", m.heads);
  override_with(values, "kv-heads", m.kv_heads);
  override_with(values, "head-dim", m.head_dim);
  override_with(values, "ffn", m.ffn);
  override_with(values, "vocab", m.vocab);
  if (m != base) m.name += "-modified";
  return m;
}

std::shared_ptr<const Profile> profile_from(const po::variables_map& values) {
  if (values.count("profile") == 0) return nullptr;
  return std::make_shared<const Profile>(read_profile_file(values["profile"].as<std::string>()));
}

Device device_from(const po::variables_map& values, const Profile* profile) {
  const bool measured = profile != nullptr && values["device"].defaulted();
  Device d = measured ? device_of_profile(*profile) : device_named(values["device"].as<std::string>());
  const Device preset = d;
  override_with(values, "peak-flops", d.peak_flops);
  override_with(values, "gemm-efficiency", d.gemm_efficiency);
  override_with(values, "gemm-efficiency", d.gemm_backward_efficiency);  // unless it has its own
  override_with(values, "gemm-backward-efficiency", d.gemm_backward_efficiency);
  override_with(values, "attention-forward", d.attention_forward);
  override_with(values, "attention-backward", d.attention_backward);
  override_with(values, "memory-bytes", d.memory_bytes);
  override_with(values, "memory-bandwidth", d.memory_bandwidth);
  override_with(values, "pack-overhead", d.pack_overhead);
  override_with(values, "nvlink-bandwidth", d.intra_node.bandwidth);
  override_with(values, "network-bandwidth", d.inter_node.bandwidth);
  override_with(values, "host-bandwidth", d.host.bandwidth);
  override_with(values, "nvlink-latency", d.intra_node.latency);
  override_with(values, "network-latency", d.inter_node.latency);
  override_with(values, "host-latency", d.host.latency);
  override_with(values, "devices-per-node", d.devices_per_node);
  if (d != preset) d.name += "-modified";
  return d;
}

ExchangeSet exchanges_from(const po::variables_map& values) {
  const auto& name = values["exchange"].as<std::string>();
  if (name == "ring") return {KeyExchange::ring};
  if (name == "all_to_all" || name == "ulysses") return {KeyExchange::all_to_all};
  if (name == "all_gather" || name == "all-gather") return {KeyExchange::all_gather};
  require(name == "cheapest", "--exchange is '", name,
          "'; expected ring, all_to_all, cheapest or all_gather");
  return {KeyExchange::ring, KeyExchange::all_to_all};
}

namespace {

ChunkRecompute chunk_recompute_from(const po::variables_map& values) {
  const auto& name = values["recompute"].as<std::string>();
  if (name == "per-stage") return ChunkRecompute::per_stage;
  if (name == "none") return ChunkRecompute::none;
  if (name == "full") return ChunkRecompute::full;
  require(name == "adaptive", "--recompute is '", name, "'; expected adaptive, per-stage, none or full");
  return ChunkRecompute::adaptive;
}

ChunkPlanOptions infinipipe_from(const po::variables_map& values) {
  ChunkPlanOptions o = infinipipe_options();
  if (values.count("slices") != 0) o.slices = at_least(values, "slices", 1);
  if (values.count("even-chunks") != 0) o.chunking = {Chunking::even};
  o.schedule.recompute = chunk_recompute_from(values);
  o.schedule.groups = values.count("one-pipeline") == 0;
  o.tile = tokens_of(values, "tile");
  return o;
}

}  // namespace

std::size_t at_least(const po::variables_map& values, const char* name, std::int64_t least) {
  const auto value = values[name].as<std::int64_t>();
  require(value >= least, "--", name, " is ", value, "; expected at least ", least);
  return static_cast<std::size_t>(value);
}

Tokens tokens_of(const po::variables_map& values, const char* name) {
  const Tokens tokens = values[name].as<TokenCount>().tokens;
  require(tokens > 0 && tokens <= most_tokens, "--", name, " is ", tokens, "; expected 1 to 2^40");
  return tokens;
}

namespace {

/// What is measured can't be said otherwise, and was measured on stages of one rank.
void check_profile(const po::variables_map& values, const Job& job) {
  require(job.layout.tp == 1 && job.layout.cp == 1, "tp is ", job.layout.tp, " and cp ", job.layout.cp,
          "; expected 1 of each with --profile: each stage is one rank");
  for (const auto* name : {"peak-flops",
                           "gemm-efficiency",
                           "gemm-backward-efficiency",
                           "attention-forward",
                           "attention-backward",
                           "memory-bandwidth",
                           "pack-overhead",
                           "nvlink-bandwidth",
                           "network-bandwidth",
                           "host-bandwidth",
                           "nvlink-latency",
                           "network-latency",
                           "host-latency",
                           "devices-per-node",
                           "tp-overlap",
                           "ring-overlap",
                           "free-prefix",
                           "sync-overlap",
                           "zero",
                           "zero-overlap",
                           "reserve-bytes",
                           "offload",
                           "adaptive-offload"}) {
    require(values.count(name) == 0 || values[name].defaulted(), "--", name,
            " is of devices that are not measured; expected no such option with --profile");
  }
}

}  // namespace

JobOptions job_options(const po::variables_map& values) {
  JobOptions o;
  o.lengths = values["lengths"].as<std::string>();
  o.first = at_least(values, "first", 0);
  if (values.count("count") != 0) o.count = at_least(values, "count", 1);
  if (values.count("sequences") != 0) o.sequences = at_least(values, "sequences", 1);
  require(o.sequences == 0 || o.count == 0, "--count and --sequences exclude each other");
  o.context = tokens_of(values, "context");
  require(values.count("truncate") == 0 || values.count("split") == 0,
          "--truncate and --split exclude each other");
  if (values.count("truncate") != 0) o.long_samples = LongSamples::truncate;
  if (values.count("split") != 0) o.long_samples = LongSamples::split;
  require(o.sequences == 0 || o.long_samples != LongSamples::split,
          "--sequences and --split exclude each other");
  o.profile = profile_from(values);
  const bool of_profile = o.profile && values["model"].defaulted();
  o.job.model = model_from(
      values, of_profile ? o.profile->model : transformer_preset(values["model"].as<std::string>()));
  o.job.device = device_from(values, o.profile.get());
  o.space = space_from(values, o.profile != nullptr);
  o.job.layout = o.space ? layouts(o.job.model, o.job.device, *o.space).front() : layout_from(values, 1);
  validate(o.job);
  if (o.profile) check_profile(values, o.job);
  o.memory.zero_stage = values["zero"].as<std::int32_t>();
  o.cost.zero3.on = o.memory.zero_stage == 3;
  override_share(values, "zero-overlap", o.cost.zero3.overlap);
  override_with(values, "reserve-bytes", o.memory.reserve_bytes);
  override_with(values, "offload", o.memory.offload);
  o.cost.offload = o.memory.offload;
  o.cost.exchanges = exchanges_from(values);
  o.memory.gathers_keys = o.cost.exchanges.contains(KeyExchange::all_gather);
  o.documents = document_options(values);
  override_share(values, "tp-overlap", o.cost.tp_overlap);
  override_share(values, "ring-overlap", o.cost.ring_overlap);
  o.cost.prefix = values.count("free-prefix") == 0;
  override_share(values, "sync-overlap", o.cost.sync.overlap);
  o.slimpack.search.thorough = values.count("quick") == 0;
  o.slimpack.tile = tokens_of(values, "tile");
  if (values.count("packs") != 0) o.slimpack.packs = at_least(values, "packs", 1);
  o.slimpack.context = o.context;
  o.slimpack.equal_packs = values.count("equal-packs") != 0;
  o.slimpack.merge = values.count("no-merge") == 0;
  o.slimpack.asymmetric = values.count("symmetric") == 0;
  o.slimpack.fill = values.count("no-filling") == 0;
  o.slimpack.inject = values.count("no-injection") == 0;
  if (values.count("power-of-two-groups") != 0) o.slimpack.group_sizes = GroupSizes::powers_of_two;
  o.megatron.context = o.context;
  if (values.count("pack-tokens") != 0) o.megatron.pack_tokens = tokens_of(values, "pack-tokens");
  o.megatron.choose_cp = values.count("given-cp") == 0;
  o.dynapipe.choose_cp = o.megatron.choose_cp;
  if (values.count("rank-tokens") != 0) o.dynamic_cp.limit = tokens_of(values, "rank-tokens");
  o.megatron.recompute_each_pack = values.count("adaptive-recompute") != 0;
  o.deepspeed = {.context = o.context, .pack_tokens = o.megatron.pack_tokens};
  o.flexsp.context = o.context;
  o.flexsp.limit = o.bytescale.limit = o.dynamic_cp.limit;
  o.bytescale.context = o.hotspa.context = o.context;
  o.keep_optimiser = values.count("keep-optimiser") != 0;
  require(!o.keep_optimiser || !o.space,
          "--keep-optimiser and --gpus exclude each other; expected the "
          "layout that the optimiser's states stay with");
  o.dynamic_cp.nested = values.count("nested-groups") != 0;
  o.infinipipe = infinipipe_from(values);
  o.slimpack.recompute_each_pack = o.infinipipe.schedule.recompute != ChunkRecompute::per_stage;
  if (values.count("adaptive-offload") != 0) {
    require(values.count("offload") == 0, "--offload and --adaptive-offload exclude each other");
    o.slimpack.offload = o.megatron.offload = o.bytescale.offload = o.infinipipe.schedule.offload = true;
  }
  o.quiet = values.count("quiet") != 0;
  return o;
}

}  // namespace slimpack::command
