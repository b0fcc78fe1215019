#include "originals.hpp"

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "slimpack/cost/profile_json.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/planners/megatron.hpp"
#include "slimpack/planners/slimpack.hpp"
#include "slimpack/stream/outlier_delay.hpp"
#include "tests/campaign/draw.hpp"
#include "tests/cost/random_profile.hpp"
#include "tests/plan/sample_plan.hpp"

namespace campaign::files {

using namespace slimpack;

namespace {

Tokens random_length(Draw& draw) { return draw.log_whole<Tokens>(1, 20000); }

std::string plan_file(std::uint64_t seed) {
  Draw draw(seed, 0);
  if (seed % 4 > 1) {
    return to_json(testing::sample_plan({.seed = seed,
                                         .samples = draw.whole<std::size_t>(1, 5),
                                         .deferred = draw.whole<std::size_t>(0, 2),
                                         .merged = draw.whole<std::size_t>(0, 2),
                                         .pipelines = draw.whole<std::size_t>(1, 3),
                                         .stages = draw.whole<std::size_t>(1, 4),
                                         .cp = draw.whole<std::int32_t>(1, 2),
                                         .mixed = draw.chance(0.3),
                                         .split_weights = draw.chance(0.4),
                                         .details = draw.chance(0.6),
                                         .block = draw.whole<Tokens>(0, 16)}));
  }
  Job job{.model = {"tiny", 4, 64, 4, 2, 16, 96, 300},
          .device = device_preset("h100"),
          .layout = {.dp = draw.whole(1, 2), .cp = draw.whole(1, 2), .pp = draw.whole(1, 4)}};
  std::vector<Tokens> lengths(draw.whole<std::size_t>(2, 10));
  for (Tokens& length : lengths) length = random_length(draw);
  return to_json(seed % 4 == 0 ? plan_slimpack(lengths, job) : plan_megatron(lengths, job));
}

std::string profile_file(std::uint64_t seed) {
  const auto number = static_cast<unsigned>(seed);
  return to_json(seed % 3 == 0 ? testing::gpu_machine(number) : testing::machine(number, seed % 2 == 0));
}

std::string state_file(std::uint64_t seed) {
  Draw draw(seed, 0);
  OutlierDelayOptions options{.micro_batches = draw.whole<std::size_t>(1, 4), .max_tokens = 20000};
  options.thresholds = {draw.whole<Tokens>(500, 5000)};
  if (draw.chance(0.5)) options.thresholds.push_back(draw.whole<Tokens>(5001, 15000));
  options.max_delay = draw.whole<std::int64_t>(0, 20);
  options.release = draw.chance(0.5) ? OutlierRelease::balanced : OutlierRelease::full_queue;
  OutlierDelayStream<double (*)(Tokens)> stream(options, work_of);
  std::uint64_t id = draw.bits() >> 8;
  for (int batches = draw.whole(1, 6); batches > 0; --batches) {
    std::vector<Document> batch;
    Tokens room = options.max_tokens * static_cast<Tokens>(options.micro_batches) / 2;
    do {
      batch.push_back({id++, std::min(room, random_length(draw))});
      room -= batch.back().length;
    } while (room > 0 && draw.chance(0.9));
    static_cast<void>(stream.push(batch));
  }
  return stream.save();
}

std::string lengths_file(std::uint64_t seed) {
  Draw draw(seed, 0);
  std::string text;
  for (int lines = draw.whole(1, 40); lines > 0; --lines) {
    if (draw.chance(0.1)) text += draw.one_of({"\n", " \t\n", "\r\n"});
    text +=
        std::to_string(draw.chance(0.1) ? draw.log_whole<Tokens>(1, Tokens{1} << 40) : random_length(draw));
    text += draw.one_of({"\n", "\n", "\r\n", " \n"});
  }
  return text;
}

std::string documents_file(std::uint64_t seed) {
  Draw draw(seed, 1);
  std::string cut(cut_bytes, '\0');
  for (char& c : cut) c = static_cast<char>(draw.whole(0, 255));
  for (const std::size_t small : std::initializer_list<std::size_t>{3, 4, 6})
    cut[small] = static_cast<char>(draw.whole(0, 3));
  return cut + lengths_file(seed);
}

}  // namespace

std::string original(Format format, std::uint64_t seed) {
  constexpr std::string (*const all[])(std::uint64_t) = {plan_file, profile_file, state_file, lengths_file,
                                                         documents_file};
  return all[static_cast<std::size_t>(format)](seed);
}

}  // namespace campaign::files
