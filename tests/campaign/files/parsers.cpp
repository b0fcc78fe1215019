#include "parsers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "examples/slimpack/batches.hpp"
#include "examples/slimpack/documents.hpp"
#include "examples/slimpack/lengths.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/cost/profile_json.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/metrics.hpp"
#include "slimpack/plan/timeline.hpp"
#include "slimpack/plan/trace.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/stream/outlier_delay.hpp"

namespace campaign::files {

using namespace slimpack;

namespace {

void expect(bool ok, const std::string& what) {
  if (!ok) throw std::logic_error(what);
}

/// Of any kind; a cycle of tasks takes the most words.
void expect_short(const std::string& message) {
  constexpr std::size_t most = 2500;
  expect(message.size() <= most, concat("a message of ", message.size(), " characters"));
  expect(std::none_of(message.begin(), message.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }),
         "a message with control characters: " + message);
}

std::string examine_plan(std::string_view bytes) {
  const Plan plan = read_json(bytes);
  const auto found = violations(plan);
  for (const std::string& violation : found) expect_short(violation);
  if (!found.empty()) return found.front();
  const std::string text = to_json(plan);
  const Plan again = read_json(text);
  expect(to_json(again) == text && violations(again).empty(),
         "a plan that was written is read as another one");
  const Timeline times = time_plan(plan);
  expect(times.seconds >= 0.0 && plan_metrics(plan).tokens >= 0, "a valid plan has impossible figures");
  expect(!to_trace(plan, times).empty(), "a valid plan has no trace");
  return "";
}

std::string examine_profile(std::string_view bytes) {
  const Profile profile = profile_from_json(bytes);
  expect(profile_from_json(to_json(profile)) == profile, "a profile that was written is read as another one");
  return "";
}

using Stream = OutlierDelayStream<double (*)(Tokens)>;

std::string examine_state(std::string_view bytes) {
  Stream stream(saved_options(bytes), work_of);
  stream.restore(bytes);
  expect(stream.save(saved_result(bytes)) == bytes, "a state that was restored is saved as another one");
  if (stream.empty() || stream.options().micro_batches > 1000) return "";
  std::multiset<std::uint64_t> waiting, packed;
  for (const auto& queue : stream.state().queues) {
    for (const auto& one : queue) waiting.insert(one.document.id);
  }
  for (const auto& one : stream.state().carried) waiting.insert(one.document.id);
  for (const PackedIteration& iteration : stream.flush()) {
    for (const PackedDocument& document : iteration.documents) packed.insert(document.id);
  }
  expect(waiting == packed, "documents that waited were not packed once");
  return "";
}

command::Lengths read_text(std::string_view bytes) {
  std::istringstream in{std::string(bytes)};
  return command::read_lengths(in, "the file");
}

std::string examine_lengths(std::string_view bytes) {
  const command::Lengths lengths = read_text(bytes);
  std::size_t line = 0;
  for (std::size_t i = 0; i < lengths.tokens.size(); ++i) {
    expect(lengths.tokens[i] >= 1 && lengths.tokens[i] <= command::most_tokens, "an impossible length");
    expect(lengths.lines[i] > line, "lines are not in order");
    line = lengths.lines[i];
  }
  const auto lines = static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), '\n')) + 1;
  expect(line <= lines, "a line that is not there");
  return "";
}

std::string examine_documents(std::string_view bytes) {
  require(bytes.size() >= cut_bytes, "too short; expected how to cut the batch");
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const command::Lengths lengths = read_text(bytes.substr(cut_bytes));
  command::JobOptions o;
  o.context = Tokens{1} + byte(0) + Tokens{256} * byte(1) + (Tokens{1} << byte(2) % 40);
  o.first = byte(3);
  o.count = byte(4);
  o.long_samples = static_cast<LongSamples>(byte(5) % 3);
  const std::size_t iterations = 1 + byte(6) % 4;
  command::require_batches(o, lengths, iterations);
  for (std::size_t i = 0; i < iterations; ++i) {
    const auto documents = command::documents(o, lengths, i);
    std::vector<Tokens> tokens;
    std::vector<std::uint64_t> ids;
    for (const Document& document : documents) {
      tokens.push_back(document.length);
      ids.push_back(document.id);
      expect(document.length >= 1 && document.length <= o.context, "a document longer than the context");
    }
    expect(tokens == command::batch(o, lengths, i), "documents and samples are cut differently");
    expect(tokens.size() <= command::most_split_samples || o.long_samples != LongSamples::split,
           "more samples than --split makes");
    std::sort(ids.begin(), ids.end());
    expect(std::adjacent_find(ids.begin(), ids.end()) == ids.end(), "two documents have one id");
  }
  return "";
}

}  // namespace

Format format_named(std::string_view name) {
  const auto found = std::find(format_names.begin(), format_names.end(), name);
  if (found == format_names.end())
    throw std::invalid_argument(
        concat("unknown format '", name, "'; expected plan, profile, state, lengths or documents"));
  return static_cast<Format>(found - format_names.begin());
}

double work_of(std::int64_t length) {
  const auto s = static_cast<double>(length);
  return s + s * s / 5000.0;
}

std::string with_checksum(std::string_view bytes) {
  using namespace slimpack::detail;
  const WordReader in(bytes);
  WordWriter out;
  out.add(state_magic);
  out.add(state_version);
  out.add(std::uint64_t{std::max(in.words(), state_head_words + 1)});
  for (std::size_t i = state_head_words; i + 1 < in.words(); ++i) out.add(in.word(i));
  return out.finish();
}

std::optional<std::string> examine(Format format, std::string_view bytes) {
  constexpr std::string (*const all[])(std::string_view) = {examine_plan, examine_profile, examine_state,
                                                            examine_lengths, examine_documents};
  try {
    std::string refused = all[static_cast<std::size_t>(format)](bytes);
    if (refused.empty()) return std::nullopt;
    return refused;
  } catch (const InvalidInput& error) {
    expect_short(error.what());
    return error.what();
  }
}

}  // namespace campaign::files
