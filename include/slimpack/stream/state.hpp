#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/hash.hpp"
#include "slimpack/stream/outlier_queues.hpp"

// The format of a saved state: 64-bit words, little-endian. "slimpack" as a word, the version, the total
// number of words, the options and samples of the workload function, the state, and a hash of all words
// before it.

namespace slimpack {

namespace detail {

inline constexpr std::uint64_t state_magic = 0x6b6361706d696c73;  // "slimpack"
inline constexpr std::uint64_t state_version = 1;

class WordWriter {
 public:
  void add(std::uint64_t word) {
    hash_.add(word);
    put(word);
  }
  void add(std::int64_t value) { add(static_cast<std::uint64_t>(value)); }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  template <class T, class F>
  void add_all(const std::vector<T>& values, F&& add_one) {
    add(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) add_one(value);
  }

  [[nodiscard]] std::string finish() {
    put(hash_.value());
    return std::move(bytes_);
  }

 private:
  void put(std::uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>((word >> shift) & 0xff);
  }

  std::string bytes_;
  WordHash hash_;
};

class WordReader {
 public:
  explicit WordReader(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] std::size_t words() const { return bytes_.size() / 8; }
  [[nodiscard]] std::size_t left() const { return words() - next_; }
  [[nodiscard]] std::uint64_t word(std::size_t i) const {
    std::uint64_t word = 0;
    for (std::size_t b = 8; b-- > 0;) word = word << 8 | static_cast<unsigned char>(bytes_[8 * i + b]);
    return word;
  }

  std::uint64_t take() {
    require(left() > 0, "the saved state ends in the middle; expected more than ", bytes_.size(), " bytes");
    return word(next_++);
  }
  std::int64_t take_integer() { return static_cast<std::int64_t>(take()); }
  double take_real() { return std::bit_cast<double>(take()); }
  /// A count of entries that take `words` words each.
  std::size_t take_count(std::size_t words) {
    const std::uint64_t count = take();
    require(count <= left() / words, "the saved state lists ", count, " entries; expected at most the ",
            left() / words, " that it has bytes for");
    return static_cast<std::size_t>(count);
  }

 private:
  std::string_view bytes_;
  std::size_t next_ = 0;
};

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

}  // namespace detail

/// A state as bytes. @param samples of the workload function, by which a different one is recognised.
[[nodiscard]] inline std::string save_state(const OutlierDelayState& state,
                                            const OutlierDelayOptions& options,
                                            const std::vector<double>& samples) {
  const auto write = [&](std::uint64_t words) {
    detail::WordWriter out;
    out.add(detail::state_magic);
    out.add(detail::state_version);
    out.add(words);
    detail::write_options(options, out);
    out.add_all(samples, [&](double sample) { out.add(sample); });
    out.add(state.iteration);
    for (const auto& queue : state.queues) detail::write_waiting(queue, out);
    detail::write_waiting(state.carried, out);
    detail::write_statistics(state.statistics, out);
    return out.finish();
  };
  return write(write(0).size() / 8);
}

namespace detail {

/// Reads the head of a saved state and checks that its bytes are complete.
inline WordReader open_state(std::string_view bytes) {
  WordReader in(bytes);
  require(in.words() > 0 && in.take() == state_magic,
          "the bytes are no saved state of a stream; expected them to begin with 'slimpack'");
  const std::uint64_t version = in.take();
  require(version == state_version, "the saved state has version ", version, "; expected ", state_version);
  const std::uint64_t words = in.take();
  require(bytes.size() % 8 == 0 && words == in.words(), "the saved state has ", bytes.size(),
          " bytes; expected 8 times the ", words, " words that it was written with");
  WordHash hash;
  for (std::size_t i = 0; i + 1 < in.words(); ++i) hash.add(in.word(i));
  require(hash.value() == in.word(in.words() - 1),
          "the saved state's checksum is wrong; expected the bytes as they were written");
  return in;
}

}  // namespace detail

/// The options of the stream that saved these bytes.
/// @throws InvalidInput if they are not a saved state, of another version, truncated or changed. O(bytes).
[[nodiscard]] inline OutlierDelayOptions saved_options(std::string_view bytes) {
  detail::WordReader in = detail::open_state(bytes);
  return detail::read_options(in);
}

/// The state that was saved as these bytes.
/// @throws InvalidInput if they are not a saved state, of another version, truncated, changed, or saved with
/// other options or another workload function. O(bytes).
[[nodiscard]] inline OutlierDelayState load_state(std::string_view bytes, const OutlierDelayOptions& options,
                                                  const std::vector<double>& samples) {
  detail::WordReader in = detail::open_state(bytes);
  detail::check_options(in, options);
  detail::check_workload(in, samples);
  OutlierDelayState state;
  state.iteration = in.take_integer();
  for (std::size_t q = 0; q < options.thresholds.size(); ++q) {
    const bool last = q + 1 == options.thresholds.size();
    state.queues.push_back(detail::read_waiting(in));
    detail::check_waiting(state.queues.back(), options.thresholds[q],
                          last ? options.max_tokens : options.thresholds[q + 1] - 1, state.iteration,
                          options);
  }
  state.carried = detail::read_waiting(in);
  detail::check_waiting(state.carried, 1, options.max_tokens, state.iteration, options);
  state.statistics = detail::read_statistics(in);
  require(in.left() == 1, "the saved state has ", in.left() - 1, " words too many; expected none");
  return state;
}

}  // namespace slimpack
