#include "options.hpp"

#include <charconv>
#include <limits>
#include <span>
#include <string_view>

#include "profile_file.hpp"
#include "slimpack/model/presets.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

po::options_description job_description(const JobDefaults& defaults) {
  const auto size = [] { return po::value<std::int32_t>()->value_name("N"); };
  const auto number = [] { return po::value<double>()->value_name("X"); };
  auto* context = po::value<std::int64_t>()->value_name("C");
  if (defaults.needs_context) context->required();
  po::options_description batch("Batch");
  batch.add_options()("lengths", po::value<std::string>()->value_name("FILE")->default_value("-"),
                      "token lengths, one integer per line; - for standard input")(
      "first", po::value<std::int64_t>()->value_name("K")->default_value(0), "lengths to skip")(
      "count", po::value<std::int64_t>()->value_name("N"), "samples of a batch; default all")(
      "context", context, "most tokens of a sample, and of a baseline's pack")(
      "truncate", "cut longer samples to the context")("split", "make several samples of longer ones");
  po::options_description job("Job");
  job.add_options()("model", po::value<std::string>()->value_name("NAME")->default_value(defaults.model),
                    "see `slimpack presets`")(
      "device", po::value<std::string>()->value_name("NAME")->default_value(defaults.device),
      "see `slimpack presets`")("dp", size()->default_value(1), "pipelines")("pp", size()->default_value(1),
                                                                             "stages of a pipeline")(
      "tp", size()->default_value(1), "tensor parallelism")("cp", size()->default_value(1),
                                                            "context parallelism of all packs");
  po::options_description model("Model, instead of the preset's");
  model.add_options()("layers", size())("hidden", size())("heads", size())("kv-heads", size())(
      "head-dim", size())("ffn", size())("vocab", size());
  po::options_description device("Device, instead of the preset's");
  device.add_options()("peak-flops", number(), "FLOP/s")("gemm-efficiency", number(), "fraction of the peak")(
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
      "of context parallelism: ring, ulysses, or cheapest for each slice")(
      "sync-overlap", number(), "share of the gradient synchronisation hidden behind the backward pass");
  po::options_description memory("Memory");
  memory.add_options()("zero", size()->default_value(1), "ZeRO stage, 0 to 3")(
      "reserve-bytes", number(), "kept free")("offload", number(), "share of the activations in host memory");
  po::options_description planner("Planner slimpack");
  planner.add_options()("tile", po::value<std::int64_t>()->value_name("N")->default_value(128),
                        "slice boundaries are multiples of it")(
      "packs", po::value<std::int64_t>()->value_name("N"), "per pipeline and pass, instead of a search")(
      "equal-packs", "the same number on every pipeline")("no-merge", "never merge pipelines to save time")(
      "power-of-two-groups", "merge 2, 4, 8, … pipelines only")("symmetric",
                                                                "backward packs as the forward ones");
  po::options_description all;
  all.add_options()("quiet,q", "no progress on standard error");
  all.add(batch).add(job).add(planner).add(time).add(memory).add(model).add(device);
  return all;
}

namespace {

template <class T>
void override_with(const po::variables_map& values, const char* name, T& target) {
  if (values.count(name) != 0) target = values[name].as<T>();
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

Device device_from(const po::variables_map& values) {
  const bool measured = values.count("profile") != 0 && values["device"].defaulted();
  Device d = device_preset(measured ? "cpu" : values["device"].as<std::string>());
  const Device preset = d;
  override_with(values, "peak-flops", d.peak_flops);
  override_with(values, "gemm-efficiency", d.gemm_efficiency);
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

ContextExchange exchange_from(const po::variables_map& values) {
  const auto& name = values["exchange"].as<std::string>();
  if (name == "ring") return ContextExchange::ring;
  if (name == "ulysses") return ContextExchange::ulysses;
  require(name == "cheapest", "--exchange is '", name, "'; expected ring, ulysses or cheapest");
  return ContextExchange::cheapest;
}

namespace {

/// What is measured can't be said otherwise, and was measured on stages of one rank.
void check_profile(const po::variables_map& values, const Job& job) {
  require(job.layout.tp == 1 && job.layout.cp == 1, "tp is ", job.layout.tp, " and cp ", job.layout.cp,
          "; expected 1 of each with --profile: each stage is one rank");
  for (const auto* name : {"peak-flops", "gemm-efficiency", "attention-forward", "attention-backward",
                           "memory-bandwidth", "pack-overhead", "nvlink-bandwidth", "network-bandwidth",
                           "host-bandwidth", "nvlink-latency", "network-latency", "host-latency",
                           "devices-per-node", "sync-overlap", "zero", "reserve-bytes", "offload"}) {
    require(values.count(name) == 0 || values[name].defaulted(), "--", name,
            " is of devices that are not measured; expected no such option beside --profile");
  }
}

std::size_t at_least(const po::variables_map& values, const char* name, std::int64_t least) {
  const auto value = values[name].as<std::int64_t>();
  require(value >= least, "--", name, " is ", value, "; expected at least ", least);
  return static_cast<std::size_t>(value);
}

}  // namespace

JobOptions job_options(const po::variables_map& values) {
  JobOptions o;
  o.lengths = values["lengths"].as<std::string>();
  o.first = at_least(values, "first", 0);
  if (values.count("count") != 0) o.count = at_least(values, "count", 1);
  o.context = values["context"].as<std::int64_t>();
  require(o.context > 0 && o.context <= most_tokens, "--context is ", o.context, "; expected 1 to 2^40");
  require(values.count("truncate") == 0 || values.count("split") == 0,
          "--truncate and --split exclude each other");
  if (values.count("truncate") != 0) o.long_samples = LongSamples::truncate;
  if (values.count("split") != 0) o.long_samples = LongSamples::split;
  o.profile = profile_from(values);
  const bool of_profile = o.profile && values["model"].defaulted();
  o.job.model = model_from(
      values, of_profile ? o.profile->model : transformer_preset(values["model"].as<std::string>()));
  o.job.device = device_from(values);
  o.job.layout = {.dp = values["dp"].as<std::int32_t>(),
                  .tp = values["tp"].as<std::int32_t>(),
                  .cp = values["cp"].as<std::int32_t>(),
                  .pp = values["pp"].as<std::int32_t>()};
  validate(o.job);
  if (o.profile) check_profile(values, o.job);
  o.memory.zero_stage = values["zero"].as<std::int32_t>();
  override_with(values, "reserve-bytes", o.memory.reserve_bytes);
  override_with(values, "offload", o.memory.offload);
  o.cost.offload = o.memory.offload;
  o.cost.exchange = exchange_from(values);
  override_with(values, "sync-overlap", o.cost.sync_overlap);
  o.slimpack.tile = static_cast<Tokens>(at_least(values, "tile", 1));
  require(o.slimpack.tile <= most_tokens, "--tile is ", o.slimpack.tile, "; expected 1 to 2^40");
  if (values.count("packs") != 0) o.slimpack.packs = at_least(values, "packs", 1);
  o.slimpack.equal_packs = values.count("equal-packs") != 0;
  o.slimpack.merge = values.count("no-merge") == 0;
  o.slimpack.asymmetric = values.count("symmetric") == 0;
  if (values.count("power-of-two-groups") != 0) o.slimpack.group_sizes = GroupSizes::powers_of_two;
  o.quiet = values.count("quiet") != 0;
  return o;
}

namespace {

/// Samples of a batch.
std::size_t batch_size(const JobOptions& options, const Lengths& lengths) {
  return options.count > 0 ? options.count : lengths.tokens.size() - options.first;
}

/// Samples that a batch has once long ones are split.
void require_countable(std::span<const Tokens> tokens, Tokens context, const std::string& source) {
  constexpr Tokens most = std::numeric_limits<SampleId>::max();
  Tokens samples = 0;
  for (const Tokens length : tokens) samples += (length - 1) / context + 1;
  require(samples <= most, source, ": --split at a context of ", context, " makes ", samples,
          " samples; expected at most ", most);
}

}  // namespace

void require_batches(const JobOptions& options, const Lengths& lengths, std::size_t iterations,
                     const char* option) {
  const std::size_t size = lengths.tokens.size();
  require(options.first < size, "--first is ", options.first, "; expected less than the ", size,
          " lengths of ", lengths.source);
  const std::size_t rest = size - options.first, count = batch_size(options, lengths);
  require(count <= rest, "--count is ", count, "; expected at most the ", rest, " lengths that ",
          lengths.source, " holds behind --first");
  require(iterations <= rest / count, option, " is ", iterations, "; expected at most ", rest / count,
          " batches of ", count, " from the ", rest, " lengths that ", lengths.source,
          " holds behind --first");
  for (std::size_t i = options.first; i < options.first + count * iterations; ++i) {
    require(lengths.tokens[i] <= options.context || options.long_samples != LongSamples::error,
            lengths.source, ", line ", lengths.lines[i], ": ", lengths.tokens[i],
            " tokens; expected at most the context of ", options.context, " (or --truncate or --split)");
  }
  if (options.long_samples != LongSamples::split) return;
  for (std::size_t i = 0; i < iterations; ++i) {
    const std::span<const Tokens> tokens(lengths.tokens.data() + options.first + i * count, count);
    require_countable(tokens, options.context, lengths.source);
  }
}

std::vector<Tokens> batch(const JobOptions& options, const Lengths& lengths, std::size_t iteration) {
  const std::size_t count = batch_size(options, lengths);
  const std::span<const Tokens> tokens(lengths.tokens.data() + options.first + iteration * count, count);
  return apply_context(tokens, options.context, options.long_samples);
}

std::string with_line(const std::string& message, const JobOptions& options, const Lengths& lengths,
                      std::size_t iteration) {
  constexpr std::string_view begin = "sample ";
  const std::size_t count = batch_size(options, lengths);
  std::size_t sample = count;
  if (message.starts_with(begin)) {
    std::from_chars(message.data() + begin.size(), message.data() + message.size(), sample);
  }
  // Splitting gives samples other numbers than lines.
  if (sample >= count || options.long_samples == LongSamples::split) return message;
  return concat(lengths.source, ", line ", lengths.lines[options.first + iteration * count + sample], ": ",
                message);
}

}  // namespace slimpack::command
