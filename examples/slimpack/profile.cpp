#include "kernels/profile.hpp"

#include <fstream>
#include <iostream>
#include <sstream>

#include "arguments.hpp"
#include "commands.hpp"
#include "devices.hpp"
#include "gpu.hpp"
#include "kernels/keep_memory.hpp"
#include "kernels/model/stage.hpp"
#include "kernels/profile_transfer.hpp"
#include "options.hpp"
#include "output.hpp"
#include "profile_gpu.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/cost/device_of.hpp"
#include "slimpack/cost/profile_json.hpp"
#include "slimpack/model/presets.hpp"
#include "token_count.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

namespace {

po::options_description profile_description() {
  const auto size = [] { return po::value<std::int32_t>()->value_name("N"); };
  po::options_description options("Profile");
  options.add_options()("model", po::value<std::string>()->value_name("NAME")->default_value("tiny"),
                        "see `slimpack presets`")("device", po::value<std::string>()->default_value("cpu"),
                                                  "cpu, or cuda: this machine's GPU")(
      "real", po::value<std::string>()->default_value("float"), "numbers: float or double")(
      "seconds", po::value<double>()->value_name("X")->default_value(30.0), "that measuring may take, about")(
      "tokens", po::value<TokenCount>()->value_name("N")->default_value(TokenCount{}),
      "of the largest packs measured; 0 = as many as time and memory allow, up to 2048, on a GPU 16384")(
      "stage-layers", size()->default_value(0),
      "of a measured stage; 0 = half of the model's, 2 to 4, on a GPU 2")(
      "memory", po::value<double>()->value_name("BYTES"),
      "that the measured stages may use; default: all, on a GPU what is free")(
      "clock", po::value<std::string>()->default_value("cpu"),
      "cpu: the processor's time, so that others' work on this machine does not count; or wall; a GPU has "
      "its own")(
      "attention", po::value<std::string>()->value_name("WHOSE")->default_value("ours"),
      "cuda: attention by slimpack's kernels (ours), or by cuDNN where it takes a pack (cudnn), as "
      "train will run it")(
      "attention-workspace", po::value<double>()->value_name("BYTES")->default_value(1U << 30U),
      "cudnn: of each stage, for attention")("machine", po::value<std::string>()->value_name("NAME"),
                                             "its name; default: the processor's or the GPU's")(
      "output,o", po::value<std::string>()->value_name("FILE")->default_value("-"),
      "the profile; - for standard output");
  po::options_description model("Model, instead of the preset's");
  model.add_options()("layers", size())("hidden", size())("heads", size())("kv-heads", size())(
      "head-dim", size())("ffn", size())("vocab", size());
  options.add(model);
  return options;
}

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

template <class Real>
kernels::BackEndTimes measure(const kernels::ProfileOptions& options, Profile& profile) {
  kernels::BackEndTimes times = kernels::measure_back_end<kernels::CpuStage<Real>>(profile.model, options);
  kernels::measure_operators<Real>(profile.model, times.tokens, options.clock, profile);
  kernels::fit_back_end(times, profile);
  profile.transfer = kernels::measure_link(static_cast<std::size_t>(profile.model.hidden) * sizeof(Real));
  return times;
}

const char* number_name(const Profile& p) {
  return p.real_bytes == 2 ? "bf16" : p.real_bytes == 4 ? "float" : "double";
}

void print_rates(const char* name, const PackRates& r, std::ostream& out) {
  out << "  " << name << ": " << 1e6 * r.per_pack << " a pack + " << 1e6 * r.per_slice << " a slice + "
      << 1e6 * r.per_token << " a token + " << 1e9 * r.per_key << "e-3 a key + " << 2e9 * r.per_twice_pair
      << "e-3 a pair of tokens\n";
}

std::string summary(const Profile& p, const kernels::BackEndTimes& times) {
  std::ostringstream out;
  out.precision(3);
  const auto error = [&](const char* name, const PredictionError& e) {
    out << name << ": median error " << 100 * e.median << " %, worst " << 100 * e.worst << " %, of "
        << e.tasks << " tasks\n";
  };
  out << p.machine << ", " << number_name(p) << ": " << times.rounds << " rounds of packs of up to "
      << times.tokens << " tokens\n";
  error("fitted  ", p.fit);
  error("held out", p.held_out);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    out << (pass == Pass::forward ? "forward" : "backward") << ", microseconds\n";
    visit_parts(p.of(pass), [&](const char* name, const PackRates& r) { print_rates(name, r, out); });
  }
  print_rates("recomputed layer", p.recompute, out);
  out << "transfer: " << 1e6 * p.transfer.latency << " us + bytes / " << p.transfer.bandwidth / 1e9
      << " GB/s; optimiser: " << 1e9 * p.optimiser_seconds_per_parameter << " ns a parameter\n";
  if (p.device) {
    out << "device: " << p.device->memory_bytes * 1e-9 << " GB; peak " << p.device->peak_flops * 1e-12
        << " TFLOP/s, copies " << p.device->memory_bandwidth * 1e-12
        << " TB/s; attention's share of the peak " << p.device->attention_forward << " forward, "
        << p.device->attention_backward << " backward\n"
        << measured_attention(p);
  }
  const Device constants = device_of_profile(p);
  out << "as a device, on stages of " << DeviceOfOptions{}.stage_layers << " layers:\n"
      << device_titles() << device_row(constants) << device_options(p, constants) << '\n';
  error("held out, by these constants", constants_error(p, constants, times.held_out));
  for (const OperatorRate& o : p.operators)
    out << o.name << ": " << 1e9 * o.seconds_per_number << " ns a number\n";
  return out.str();
}

kernels::ProfileOptions profile_options(const po::variables_map& values, bool on_gpu) {
  const auto clock = values["clock"].as<std::string>();
  require(clock == "cpu" || clock == "wall", "--clock is '", clock, "'; expected cpu or wall");
  kernels::ProfileOptions o;
  o.seconds = values["seconds"].as<double>();
  require(o.seconds > 0.0 && o.seconds <= 1e6, "--seconds is ", o.seconds,
          "; expected a positive number up to 1e6");
  o.tokens = values["tokens"].as<TokenCount>().tokens;
  require(o.tokens <= 1'000'000, "--tokens is ", o.tokens, "; expected at most 1000000");
  o.stage_layers = values["stage-layers"].as<std::int32_t>();
  o.stage.attention = attention_from(values["attention"].as<std::string>(), on_gpu);
  const auto workspace = values["attention-workspace"].as<double>();
  require(workspace > 0.0 && workspace <= 1e18, "--attention-workspace is ", workspace,
          "; expected a positive number up to 1e18");
  o.stage.attention_workspace = static_cast<std::size_t>(workspace);
  o.clock = clock == "cpu" ? kernels::ProfileClock::thread : kernels::ProfileClock::wall;
  if (values.count("memory") == 0) return o;
  o.stage.limit_bytes = values["memory"].as<double>();
  require(o.stage.limit_bytes > 0.0 && o.stage.limit_bytes <= 1e18, "--memory is ", o.stage.limit_bytes,
          "; expected a positive number up to 1e18");
  return o;
}

/// Whether the GPU is to be measured. @throws InvalidInput if there is none, or for an option that only the CPU has.
bool on_gpu(const po::variables_map& values) {
  const auto device = values["device"].as<std::string>();
  require(device == "cpu" || device == "cuda", "--device is '", device, "'; expected cpu or cuda");
  if (device == "cpu") return false;
  for (const char* name : {"real", "clock"})
    require(values[name].defaulted(), "--", name, " is ", values[name].as<std::string>(),
            "; expected no such option with --device cuda: GPUs compute in bf16, and have a clock");
  require_gpu();
  return true;
}

kernels::BackEndTimes measure(const kernels::ProfileOptions& options, bool gpu, Profile& profile) {
  if (gpu) return measure_gpu(options, profile);
  profile.machine = processor();
  return profile.real_bytes == sizeof(float) ? measure<float>(options, profile)
                                             : measure<double>(options, profile);
}

}  // namespace

int profile(const std::vector<std::string>& arguments) {
  const auto values =
      parse({"profile", "[--model NAME] [options] -o profile.json", ""}, profile_description(), arguments);
  if (!values) return 0;
  const bool gpu = on_gpu(*values);
  const auto real = (*values)["real"].as<std::string>();
  require(real == "float" || real == "double", "--real is '", real, "'; expected float or double");
  const kernels::ProfileOptions options = profile_options(*values, gpu);
  Profile profile;
  profile.model = model_from(*values, transformer_preset((*values)["model"].as<std::string>()));
  validate(profile.model);
  profile.real_bytes = real == "float" ? 4 : 8;
  profile.date = kernels::utc_date();

  kernels::keep_memory();
  const kernels::BackEndTimes times = measure(options, gpu, profile);
  if (values->count("machine") != 0) profile.machine = (*values)["machine"].as<std::string>();
  const std::string path = (*values)["output"].as<std::string>();
  write_output(path, to_json(profile));
  (path == "-" ? std::cerr : std::cout) << summary(profile, times);
  return 0;
}

}  // namespace slimpack::command
