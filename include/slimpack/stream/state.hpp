#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/hash.hpp"
#include "slimpack/stream/outlier_queues.hpp"
#include "slimpack/stream/state_words.hpp"

// The format of a saved state, in words: "slimpack" as a word, the version, the total number of words, the
// fingerprint of the last iteration's result, the options and samples of the workload function, the state,
// then 1, the hash of the last iteration's documents and the state before it, or 0 if there was none, and a
// hash of all words before it. Version 1 has neither the fingerprint nor what follows the state.

namespace slimpack {

namespace detail {

inline constexpr std::uint64_t state_magic = 0x6b6361706d696c73;  // "slimpack"
inline constexpr std::uint64_t state_version = 2;
inline constexpr std::size_t state_head_words = 3;  ///< of which the last one is the number of words

inline void write_waiting(const std::vector<WaitingDocument>& list, WordWriter& out) {
  out.add_all(list, [&](const WaitingDocument& waiting) {
    out.add(waiting.document.id);
    out.add(waiting.document.length);
    out.add(waiting.arrived);
    out.add(std::uint64_t{waiting.home});
  });
}

inline std::vector<WaitingDocument> read_waiting(WordReader& in) {
  std::vector<WaitingDocument> list(in.take_count(4));
  for (WaitingDocument& waiting : list) {
    waiting.document.id = in.take();
    waiting.document.length = in.take_integer();
    waiting.arrived = in.take_integer();
    const std::uint64_t home = in.take();
    require(home <= std::numeric_limits<std::uint32_t>::max(), "the saved state has micro-batch ", home,
            "; expected a smaller number");
    waiting.home = static_cast<std::uint32_t>(home);
  }
  return list;
}

inline void write_options(const OutlierDelayOptions& options, WordWriter& out) {
  out.add(std::uint64_t{options.micro_batches});
  out.add(options.max_tokens);
  out.add(options.max_delay);
  out.add(static_cast<std::uint64_t>(options.release));
  out.add(options.target_imbalance);
  out.add(static_cast<std::uint64_t>(options.refine ? 1 : 0));
  out.add_all(options.thresholds, [&](Tokens threshold) { out.add(threshold); });
}

inline OutlierDelayOptions read_options(WordReader& in) {
  OutlierDelayOptions options;
  options.micro_batches = static_cast<std::size_t>(in.take());
  options.max_tokens = in.take_integer();
  options.max_delay = in.take_integer();
  options.release = static_cast<OutlierRelease>(in.take());
  options.target_imbalance = in.take_real();
  options.refine = in.take() != 0;
  options.thresholds.resize(in.take_count(1));
  for (Tokens& threshold : options.thresholds) threshold = in.take_integer();
  return options;
}

/// Reads options and compares them. @throws InvalidInput naming the first that differs.
inline void check_options(WordReader& in, const OutlierDelayOptions& options) {
  const auto same = [](const auto& saved, const auto& here, const auto&... name) {
    require(saved == here, "the state was saved with ", name..., " ", saved, "; expected the stream's ",
            here);
  };
  same(in.take(), std::uint64_t{options.micro_batches}, "micro_batches");
  same(in.take_integer(), options.max_tokens, "max_tokens");
  same(in.take_integer(), options.max_delay, "max_delay");
  same(in.take(), static_cast<std::uint64_t>(options.release), "release");
  same(in.take_real(), options.target_imbalance, "target_imbalance");
  same(in.take(), static_cast<std::uint64_t>(options.refine ? 1 : 0), "refine");
  const std::size_t thresholds = in.take_count(1);
  same(thresholds, options.thresholds.size(), "a number of thresholds of");
  for (std::size_t i = 0; i < thresholds; ++i)
    same(in.take_integer(), options.thresholds[i], "threshold ", i);
}

inline void check_workload(WordReader& in, std::span<const double> samples) {
  const std::size_t count = in.take_count(1);
  bool same = count == samples.size();
  for (std::size_t i = 0; i < count; ++i) {
    const double saved = in.take_real();
    same = same && saved == samples[i];
  }
  require(same,
          "the state was saved with another workload function; expected the stream's own, because the "
          "same batches would give other iterations");
}

inline void write_statistics(const DelayStatistics& statistics, WordWriter& out) {
  out.add_all(statistics.documents, [&](std::int64_t count) { out.add(count); });
  out.add_all(statistics.tokens, [&](Tokens count) { out.add(count); });
  out.add(statistics.iterations);
  for (const double sum :
       {statistics.imbalance_sum, statistics.imbalance_max, statistics.largest_sum, statistics.mean_sum}) {
    out.add(sum);
  }
}

inline DelayStatistics read_statistics(WordReader& in) {
  DelayStatistics statistics;
  statistics.documents.resize(in.take_count(1));
  for (std::int64_t& count : statistics.documents) count = in.take_integer();
  statistics.tokens.resize(in.take_count(1));
  for (Tokens& count : statistics.tokens) count = in.take_integer();
  require(statistics.tokens.size() == statistics.documents.size(), "the saved state has ",
          statistics.tokens.size(), " delays of tokens and ", statistics.documents.size(),
          " of documents; expected the same number");
  statistics.iterations = in.take_integer();
  for (double* sum : {&statistics.imbalance_sum, &statistics.imbalance_max, &statistics.largest_sum,
                      &statistics.mean_sum}) {
    *sum = in.take_real();
  }
  return statistics;
}

/// Checks what a stream relies on. @throws InvalidInput naming the first document that can't wait there.
inline void check_waiting(const std::vector<WaitingDocument>& list, Tokens from, Tokens to,
                          std::int64_t iteration, const OutlierDelayOptions& options) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto& [document, arrived, home] = list[i];
    require(document.length >= from && document.length <= to, "document ", document.id,
            " of the saved state has ", document.length, " tokens; expected ", from, " to ", to, " there");
    require(arrived >= 0 && arrived < iteration && iteration - arrived <= options.max_delay, "document ",
            document.id, " of the saved state arrived in iteration ", arrived, "; expected one of the last ",
            options.max_delay, " before ", iteration);
    require(i == 0 || list[i - 1].arrived <= arrived, "document ", document.id,
            " of the saved state comes after a newer one; expected the oldest first");
    require(home < options.micro_batches, "document ", document.id, " of the saved state has micro-batch ",
            home, "; expected less than ", options.micro_batches);
  }
}

inline void write_state(const OutlierDelayState& state, WordWriter& out) {
  out.add(state.iteration);
  for (const auto& queue : state.queues) write_waiting(queue, out);
  write_waiting(state.carried, out);
  write_statistics(state.statistics, out);
}

inline OutlierDelayState read_state(WordReader& in, const OutlierDelayOptions& options) {
  OutlierDelayState state;
  state.iteration = in.take_integer();
  require(state.iteration >= 0 && state.iteration < std::numeric_limits<std::int64_t>::max(),
          "the saved state is before iteration ", state.iteration, "; expected 0 to 2^63 - 2");
  for (std::size_t q = 0; q < options.thresholds.size(); ++q) {
    const bool last = q + 1 == options.thresholds.size();
    state.queues.push_back(read_waiting(in));
    check_waiting(state.queues.back(), options.thresholds[q],
                  last ? options.max_tokens : options.thresholds[q + 1] - 1, state.iteration, options);
  }
  state.carried = read_waiting(in);
  check_waiting(state.carried, 1, options.max_tokens, state.iteration, options);
  state.statistics = read_statistics(in);
  return state;
}

inline void write_last(const std::optional<LastIteration>& last, WordWriter& out) {
  out.add(std::uint64_t{last ? 1U : 0U});
  if (!last) return;
  out.add(last->documents);
  write_state(last->before, out);
}

inline std::optional<LastIteration> read_last(WordReader& in, std::int64_t next,
                                              const OutlierDelayOptions& options) {
  const std::uint64_t kept = in.take();
  require(kept <= 1, "the saved state keeps ", kept, " iterations; expected 0 or 1");
  if (kept == 0) return std::nullopt;
  const std::uint64_t documents = in.take();
  LastIteration last{.before = read_state(in, options), .documents = documents};
  require(last.before.iteration + 1 == next, "the saved state keeps iteration ", last.before.iteration,
          "; expected the last one before ", next);
  return last;
}

/// The first words of a saved state, after those by which it is recognised.
struct StateHead {
  std::uint64_t version = 0;
  std::uint64_t words = 0;  ///< that it was written with
};

inline StateHead read_head(WordReader& in) {
  require(in.words() > 0 && in.take() == state_magic,
          "the bytes are no saved state of a stream; expected them to begin with 'slimpack'");
  const std::uint64_t version = in.take();
  require(version >= 1 && version <= state_version, "the saved state has version ", version,
          "; expected 1 to ", state_version);
  return {version, in.take()};
}

/// What follows the head of a saved state.
struct OpenState {
  WordReader rest;
  std::uint64_t version = 0;
  std::uint64_t result = 0;
};

/// Reads the head of a saved state and checks that its bytes are complete.
inline OpenState open_state(std::string_view bytes) {
  WordReader in(bytes);
  const auto [version, words] = read_head(in);
  require(bytes.size() % 8 == 0 && words == in.words(), "the saved state has ", bytes.size(),
          " bytes; expected 8 times the ", words, " words that it was written with");
  WordHash hash;
  for (std::size_t i = 0; i + 1 < in.words(); ++i) hash.add(in.word(i));
  require(hash.value() == in.word(in.words() - 1),
          "the saved state's checksum is wrong; expected the bytes as they were written");
  const std::uint64_t result = version > 1 ? in.take() : 0;
  return {in, version, result};
}

}  // namespace detail

/// What a stream saves.
struct SavedStream {
  OutlierDelayState state;
  std::optional<LastIteration> last;  ///< none before the first iteration, and in states of version 1
  std::uint64_t result = 0;           ///< the caller's fingerprint of the last iteration's result; 0: none
};

/// A stream's state as bytes. @param samples of the workload function, by which a different one is recognised.
[[nodiscard]] inline std::string save_state(const SavedStream& saved, const OutlierDelayOptions& options,
                                            const std::vector<double>& samples) {
  const auto write = [&](std::uint64_t words) {
    detail::WordWriter out;
    out.add(detail::state_magic);
    out.add(detail::state_version);
    out.add(words);
    out.add(saved.result);
    detail::write_options(options, out);
    out.add_all(samples, [&](double sample) { out.add(sample); });
    detail::write_state(saved.state, out);
    detail::write_last(saved.last, out);
    return out.finish();
  };
  return write(write(0).size() / 8);
}

/// The options of the stream that saved these bytes.
/// @throws InvalidInput if they are not a saved state, of another version, truncated or changed. O(bytes).
[[nodiscard]] inline OutlierDelayOptions saved_options(std::string_view bytes) {
  detail::OpenState open = detail::open_state(bytes);
  return detail::read_options(open.rest);
}

/// The fingerprint of the last iteration's result that these bytes were saved with; 0: none.
/// @throws InvalidInput as `saved_options`. O(bytes).
[[nodiscard]] inline std::uint64_t saved_result(std::string_view bytes) {
  return detail::open_state(bytes).result;
}

/// What was saved as these bytes.
/// @throws InvalidInput if they are not a saved state, of a later version, truncated, changed, or saved with
/// other options or another workload function. O(bytes).
[[nodiscard]] inline SavedStream load_state(std::string_view bytes, const OutlierDelayOptions& options,
                                            const std::vector<double>& samples) {
  auto [in, version, result] = detail::open_state(bytes);
  detail::check_options(in, options);
  detail::check_workload(in, samples);
  SavedStream saved{.state = detail::read_state(in, options), .last = std::nullopt, .result = result};
  if (version > 1) saved.last = detail::read_last(in, saved.state.iteration, options);
  require(in.left() == 1, "the saved state has ", in.left() - 1, " words too many; expected none");
  return saved;
}

}  // namespace slimpack
