#include "settings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "draw.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/model/presets.hpp"

namespace campaign {

namespace {

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

/// Bytes of weights, gradients and optimiser of a stage, about.
double static_bytes(const Job& job) {
  const auto& layout = job.layout;
  const double layers = std::ceil(double(job.model.layers) / layout.pp) * layer_parameters(job.model);
  const double own = (layers + embedding_parameters(job.model) * (layout.pp == 1 ? 2 : 1)) / layout.tp;
  return own * (6.0 + 12.0 / (double(layout.dp) * layout.cp));
}

Transformer random_shape(Draw& draw) {
  Transformer m;
  m.name = "shape";
  m.layers = draw.whole(1, 24);
  m.heads = draw.one_of({1, 2, 4, 6, 8, 12, 16});
  m.kv_heads = draw.chance(0.5) || m.heads % 2 != 0 ? m.heads : m.heads / 2;
  m.head_dim = draw.one_of({32, 64, 128});
  m.hidden = m.heads * m.head_dim;
  m.ffn = 2 * m.hidden + 64;
  m.vocab = draw.log_whole(500, 64000);
  return m;
}

std::int32_t random_stages(Draw& draw, std::int32_t layers) {
  const std::int32_t pp = draw.chance(0.7) ? draw.one_of({1, 2, 4, 4, 8, 8, 16}) : draw.whole(1, 16);
  return std::min(pp, layers);
}

std::int32_t random_tensor_parallelism(Draw& draw, std::int32_t heads) {
  std::int32_t tp = draw.chance(0.9) ? draw.one_of({1, 2, 4, 8}) : draw.whole(1, 8);
  while (heads % tp != 0) --tp;
  return tp;
}

Job random_job(Draw& draw, std::size_t samples) {
  static constexpr std::array large{"llama-7b", "llama-13b", "llama-32b", "llama-70b"};
  Job job;
  const bool small = draw.chance(0.2);
  std::size_t model = draw.whole<std::size_t>(0, large.size() - 1);
  const Transformer shape = random_shape(draw);
  job.model = !small             ? transformer_preset(large[model])
              : draw.chance(0.3) ? transformer_preset("tiny")
                                 : shape;
  job.device = device_preset(draw.one_of({"h100", "h200", "a100", "a800"}));
  std::int32_t dp = draw.chance(0.7) ? 1 << draw.whole(0, 6) : draw.whole(1, 24);
  const std::size_t most = draw.chance(0.8) ? samples / 4 : samples;
  dp = std::min(dp, static_cast<std::int32_t>(std::clamp<std::size_t>(most, 1, 64)));
  const std::int32_t cp = draw.chance(0.65) ? 1 : draw.chance(0.9) ? 1 << draw.whole(1, 3) : draw.whole(1, 8);
  const std::int32_t tp = random_tensor_parallelism(draw, job.model.heads);
  const std::int32_t pp = random_stages(draw, job.model.layers);
  job.layout = {.dp = dp, .tp = tp, .cp = cp, .pp = pp};
  // A smaller model where this one's weights leave no room for tokens.
  const double room = 0.85 * job.device.memory_bytes - 6e9;
  while (!small && model > 0 && static_bytes(job) > room) {
    job.model = transformer_preset(large[--model]);
    while (job.model.heads % job.layout.tp != 0) --job.layout.tp;
    job.layout.pp = std::min(job.layout.pp, job.model.layers);
  }
  if (!small && static_bytes(job) > room) job.layout.tp = 8;
  return job;
}

void scale_memory(Draw& draw, Job& job) {
  const double scale = draw.chance(0.5) ? 1.0 : draw.real(0.15, 1.0);
  const double room = draw.log_real(0.003, 0.3);
  const double least = static_bytes(job) + 6e9;
  const bool tight = draw.chance(0.15);
  if (tight && least > 0.0) {
    const double per_token = static_bytes(job) * 1e-5 + 1e4;  // for models of any size
    job.device.memory_bytes =
        least + std::min(room * job.device.memory_bytes, per_token * draw.log_real(1e2, 1e6));
  } else if (scale < 1.0) {
    job.device.memory_bytes *= scale;
    if (!draw.chance(0.05))
      job.device.memory_bytes =
          std::max(job.device.memory_bytes, 1.02 * least + room * job.device.memory_bytes);
  }
}

std::size_t random_count(Draw& draw) {
  const double kind = draw.real();
  if (kind < 0.6) return draw.log_whole<std::size_t>(16, 512);
  return kind < 0.88 ? draw.log_whole<std::size_t>(1, 64) : draw.log_whole<std::size_t>(512, 4096);
}

struct Batch {
  std::string kind;
  std::vector<Tokens> lengths;
};

Batch random_batch(Draw& draw, std::size_t count, Tokens context, const std::vector<Tokens>& github) {
  Batch batch;
  auto& lengths = batch.lengths;
  lengths.resize(count);
  const auto fill = [&](const auto& length) {
    for (Tokens& l : lengths) l = std::clamp<Tokens>(static_cast<Tokens>(length()), 1, context);
  };
  const double c = static_cast<double>(context);
  switch (draw.whole(0, 9)) {
    case 0: {
      batch.kind = "equal";
      const Tokens length = draw.log_whole<Tokens>(std::min<Tokens>(64, context), context);
      fill([&] { return length; });
      break;
    }
    case 1:
      batch.kind = "uniform";
      fill([&] { return draw.whole<Tokens>(1, context); });
      break;
    case 2:
    case 3: {
      batch.kind = "log-normal";
      const double median = draw.log_real(100.0, c), sigma = draw.real(0.5, 2.2);
      fill([&] { return std::min(c, median * std::exp(sigma * draw.normal())); });
      break;
    }
    case 4: {
      batch.kind = "pareto";
      const double least = draw.log_real(50.0, c), shape = draw.real(0.6, 2.5);
      fill([&] { return std::min(c, least / std::pow(1.0 - draw.real(), 1.0 / shape)); });
      break;
    }
    case 5:
    case 6:
    case 7: {
      batch.kind = "github";
      std::size_t at = draw.whole<std::size_t>(0, github.size() - 1);
      fill([&] { return github[at++ % github.size()]; });
      break;
    }
    case 8: {
      batch.kind = "one giant";
      const double most = c / (2.0 * static_cast<double>(count) + 1.0);
      fill([&] { return std::max(1.0, draw.real(0.1, 1.0) * most); });
      lengths[draw.whole<std::size_t>(0, count - 1)] = context;
      break;
    }
    default: {
      batch.kind = "short and long";
      const double share = draw.real(0.0, 0.3), tiny = draw.log_real(1.0, 2000.0);
      fill([&] { return draw.chance(share) ? draw.real(0.3, 1.0) * c : draw.real() * tiny + 1.0; });
    }
  }
  return batch;
}

UserRates random_rates(Draw& draw) {
  UserRates r;
  r.per_token = draw.log_real(1e-8, 1e-5);
  r.per_twice_pair = r.per_token * draw.log_real(1e-6, 1e-3);
  if (draw.chance(0.5)) r.per_slice = r.per_token * draw.log_real(1.0, 300.0);
  if (draw.chance(0.5)) r.per_key = r.per_token * draw.log_real(1e-3, 1e-1);
  if (draw.chance(0.6)) r.head_per_token = r.per_token * draw.real(0.0, 4.0);
  r.backward = draw.real(1.0, 2.5);
  r.per_pack = draw.log_real(1e-6, 1e-3);
  r.latency = draw.log_real(1e-6, 1e-4);
  r.per_sent_token = draw.chance(0.2) ? 0.0 : r.per_token * draw.log_real(1e-3, 0.3);
  r.merging = draw.chance(0.25) ? 0.0 : draw.real(0.0, 0.1);
  r.sync = draw.chance(0.5) ? 0.0 : draw.log_real(1e-3, 1.0);
  const double groups = draw.real();
  r.groups = groups < 0.6    ? Groups::any
             : groups < 0.8  ? Groups::powers_of_two
             : groups < 0.95 ? Groups::up_to_four
                             : Groups::none;
  return r;
}

void random_options(Draw& draw, Setting& setting) {
  const double tile = draw.real();
  setting.options.tile = tile < 0.5    ? 128
                         : tile < 0.65 ? 1
                         : tile < 0.9  ? Tokens{1} << draw.whole(1, 12)
                                       : draw.whole<Tokens>(1, 4096);
  const double restricted = draw.real();
  const std::size_t packs = draw.log_whole<std::size_t>(1, 128);
  if (restricted < 0.08) setting.options.packs = packs;
  if (restricted > 0.95) setting.options.equal_packs = true;
  if (restricted > 0.88 && restricted < 0.95) setting.options.group_sizes = GroupSizes::powers_of_two;
  const double zero = draw.real();
  setting.memory.zero_stage = zero < 0.8 ? 1 : zero < 0.9 ? 3 : zero < 0.95 ? 2 : 0;
  if (draw.chance(0.1)) setting.memory.offload = draw.real();
  setting.ring = draw.chance(0.1);
  const double kind = draw.real();
  setting.cost = kind < 0.7    ? CostKind::calibrated
                 : kind < 0.78 ? CostKind::plain
                 : kind < 0.85 ? CostKind::merging
                               : CostKind::full;
  setting.rates = random_rates(draw);
}

std::string describe_cost(const Setting& s) {
  if (s.cost == CostKind::calibrated) return s.ring ? ", ring" : "";
  const UserRates& r = s.rates;
  static constexpr std::array kinds{"", "plain", "merging", "full"};
  static constexpr std::array groups{"any group", "groups of 2^k", "groups up to 4", "no groups"};
  return concat(", user's ", kinds[static_cast<std::size_t>(s.cost)], " cost {slice ", number(r.per_slice),
                ", token ", number(r.per_token), ", key ", number(r.per_key), ", pair ",
                number(r.per_twice_pair), ", pack ", number(r.per_pack), ", merging +",
                number(100.0 * r.merging), " %, ", groups[static_cast<std::size_t>(r.groups)], "}");
}

/// The trainer's context; nothing in versions that have no such option.
template <class O>
auto* context_of(O& options) {
  if constexpr (requires { options.context; }) {
    return &options.context;
  } else {
    return static_cast<Tokens*>(nullptr);
  }
}

std::string describe(const Setting& s, const std::string& kind) {
  const auto& [tokens, job, options] = std::tie(s.lengths, s.job, s.options);
  Tokens sum = 0;
  for (const Tokens length : tokens) sum += length;
  std::string text =
      concat(job.model.name, job.model.name == "shape" ? concat(" of ", job.model.layers, " layers") : "",
             ", ", job.device.name, " with ", number(job.device.memory_bytes / 1e9), " GB, dp ",
             job.layout.dp, " tp ", job.layout.tp, " cp ", job.layout.cp, " pp ", job.layout.pp, ", ",
             tokens.size(), " ", kind, " samples of up to ", *std::max_element(tokens.begin(), tokens.end()),
             " tokens, ", sum, " in all, tile ", options.tile);
  if (const auto* given = context_of(options); given != nullptr && *given > 0)
    text += concat(", context ", *given);
  if (options.packs > 0) text += concat(", packs ", options.packs);
  if (options.equal_packs) text += ", equal packs";
  if (options.group_sizes == GroupSizes::powers_of_two) text += ", powers of two";
  if (s.memory.zero_stage != 1) text += concat(", zero ", s.memory.zero_stage);
  if (s.memory.offload > 0.0) text += concat(", offload ", number(s.memory.offload));
  return text + describe_cost(s);
}

}  // namespace

Setting random_setting(std::uint64_t seed, std::uint64_t index, const std::vector<Tokens>& github) {
  Draw draw(seed, index);
  Setting setting;
  setting.reproduction = concat("--seed ", seed, " --only ", index);
  const std::size_t count = random_count(draw);
  const Tokens context =
      draw.chance(0.7) ? Tokens{1024} << draw.whole(0, 9) : draw.log_whole<Tokens>(1024, 524288);
  setting.job = random_job(draw, count);
  Batch batch = random_batch(draw, count, context, github);
  setting.lengths = std::move(batch.lengths);
  random_options(draw, setting);
  scale_memory(draw, setting.job);
  const Tokens longest = *std::max_element(setting.lengths.begin(), setting.lengths.end());
  if (Tokens* const given = context_of(setting.options))
    *given = static_cast<Tokens>(index % 3) * 2 * longest;
  setting.name = describe(setting, batch.kind);
  return setting;
}

Setting idle_setting(std::uint64_t seed, std::uint64_t index, const std::vector<Tokens>& github) {
  Setting setting = random_setting(seed, index, github);
  std::int32_t& dp = setting.job.layout.dp;
  dp = std::max(dp, 2);
  const auto fewer = static_cast<std::size_t>(1 + index % static_cast<std::uint64_t>(dp - 1));
  setting.lengths.resize(std::min(setting.lengths.size(), fewer));
  setting.reproduction += " --idle";
  setting.name = describe(setting, "few");
  return setting;
}

namespace {

struct Layouts {
  const char* model;
  const char* device;
  Layout layout;
};

/// Adds a setting of the issue that asked for this program.
void add_named(std::vector<Setting>& all, const Layouts& where, std::vector<Tokens> lengths,
               const std::string& kind, SlimPackOptions options = {}) {
  Setting s;
  s.reproduction = concat("--named --only ", all.size());
  s.job = {.model = transformer_preset(where.model),
           .device = device_preset(where.device),
           .layout = where.layout};
  s.lengths = std::move(lengths);
  s.options = options;
  s.name = describe(s, kind);
  all.push_back(std::move(s));
}

std::vector<Tokens> first_of(const std::vector<Tokens>& github, std::size_t count, Tokens context) {
  std::vector<Tokens> lengths(count);
  for (std::size_t i = 0; i < count; ++i) lengths[i] = std::min(context, github[i % github.size()]);
  return lengths;
}

}  // namespace

std::vector<Setting> named_settings(const std::vector<Tokens>& github) {
  std::vector<Setting> all;
  const auto equal = [](std::size_t count, Tokens length) { return std::vector<Tokens>(count, length); };
  // More packs than 48 for each stage are needed.
  add_named(all, {"llama-7b", "h100", {.tp = 8}}, equal(256, 16384), "equal");
  add_named(all, {"llama-7b", "h100", {.tp = 8}}, equal(256, 16384), "equal", {.packs = 256});
  add_named(all, {"llama-7b", "h100", {.tp = 4, .pp = 2}}, equal(512, 32768), "equal");
  add_named(all, {"llama-13b", "h100", {.tp = 8, .pp = 4}}, equal(4096, 8192), "equal");
  add_named(all, {"llama-7b", "h100", {.tp = 8}}, equal(4096, 4096), "equal");
  add_named(all, {"llama-13b", "h100", {.tp = 4, .pp = 2}}, equal(1024, 16384), "equal");
  // Far longer than best-fit packs.
  add_named(all, {"llama-13b", "h100", {.dp = 64, .tp = 2}}, first_of(github, 2048, 262144), "github");
  // Merging, and boundaries of their own for the backward pass, make it worse.
  std::vector<Tokens> ten{109483, 135801, 230502, 88432, 181761, 60135, 165817, 110168, 203432, 60057};
  for (Tokens& length : ten) length = std::min<Tokens>(length, 81997);
  add_named(all, {"llama-32b", "h200", {.dp = 4, .tp = 4, .cp = 4}}, ten, "long");
  // A user's own model in which merging costs 5 %.
  add_named(all, {"llama-13b", "h200", {.dp = 4, .pp = 4}}, first_of(github, 512, 262144), "github");
  all.back().cost = CostKind::full;
  all.back().rates = {.per_slice = 2e-5, .per_token = 1.5e-6, .per_twice_pair = 2e-11, .merging = 0.05};
  all.back().name = describe(all.back(), "github");
  // A bound that depended on the tile.
  add_named(all, {"llama-32b", "h100", {.tp = 4, .pp = 12}}, equal(1, 120), "equal");
  // Merging made these longer, or more memory, or a finer tile.
  for (const std::uint64_t index : {4u, 54u, 84u, 154u}) all.push_back(random_setting(901, index, github));
  for (const std::uint64_t index : {54u, 77u, 79u, 338u}) all.push_back(random_setting(4242, index, github));
  all.push_back(random_setting(777, 75, github));
  for (const std::uint64_t index : {148u, 3428u, 5119u}) all.push_back(random_setting(2026, index, github));
  for (const std::uint64_t index : {801u, 884u, 1465u}) all.push_back(random_setting(2028, index, github));
  for (const std::uint64_t index : {29u, 1002u}) all.push_back(random_setting(2030, index, github));
  return all;
}

}  // namespace campaign
