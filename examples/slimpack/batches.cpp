#include "batches.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "slimpack/core/error.hpp"
#include "slimpack/stream/sequences.hpp"

namespace slimpack::command {

namespace {

/// Samples of a batch where all have as many.
std::size_t batch_size(const JobOptions& options, const Lengths& lengths) {
  return options.count > 0 ? options.count : lengths.tokens.size() - options.first;
}

}  // namespace

Lengths read_job_lengths(const JobOptions& options) {
  Lengths lengths = read_lengths_from(options.lengths);
  if (options.sequences == 0 || options.first >= lengths.tokens.size()) return lengths;
  std::vector<Tokens> tokens(lengths.tokens.begin() + static_cast<std::ptrdiff_t>(options.first),
                             lengths.tokens.end());
  for (Tokens& length : tokens) length = std::min(length, options.context);
  lengths.batches = global_batches(tokens, options.context, options.sequences);
  // Whether the last batch would hold more is not known; it counts only where it is the only one.
  if (lengths.batches.size() > 2) lengths.batches.pop_back();
  for (std::size_t& begin : lengths.batches) begin += options.first;
  return lengths;
}

BatchRange batch_range(const JobOptions& options, const Lengths& lengths, std::size_t iteration) {
  if (lengths.batches.empty()) {
    const std::size_t count = batch_size(options, lengths);
    return {options.first + iteration * count, count};
  }
  return {lengths.batches[iteration], lengths.batches[iteration + 1] - lengths.batches[iteration]};
}

std::span<const Tokens> batch_lengths(const JobOptions& options, const Lengths& lengths,
                                      std::size_t iteration) {
  const auto [begin, count] = batch_range(options, lengths, iteration);
  const std::span<const Tokens> tokens(lengths.tokens.data() + begin, count);
  if (options.long_samples != LongSamples::split) return tokens;
  const std::size_t samples = count_pieces(tokens, options.context);
  require(samples <= most_split_samples, lengths.source, ", line ", lengths.lines[begin],
          ": --split at a context of ", options.context, " makes ", samples,
          " samples of the batch that begins here; expected at most ", most_split_samples,
          " (or a larger --context)");
  return tokens;
}

std::size_t batch_count(const JobOptions& options, const Lengths& lengths) {
  if (!lengths.batches.empty()) return lengths.batches.size() - 1;
  return (lengths.tokens.size() - options.first) / batch_size(options, lengths);
}

void require_batches(const JobOptions& options, const Lengths& lengths, std::size_t iterations,
                     const char* option) {
  const std::size_t size = lengths.tokens.size();
  require(options.first < size, "--first is ", options.first, "; expected less than the ", size,
          " lengths of ", lengths.source);
  const auto require_lengths = [&](std::size_t end) {
    for (std::size_t i = options.first; i < end; ++i) {
      require(lengths.tokens[i] <= options.context || options.long_samples != LongSamples::error,
              lengths.source, ", line ", lengths.lines[i], ": ", lengths.tokens[i],
              " tokens; expected at most the context of ", options.context, " (or --truncate or --split)");
    }
  };
  if (options.sequences > 0) {
    const std::size_t most = batch_count(options, lengths);
    require(iterations <= most, option, " is ", iterations, "; expected at most ", most, " batches of ",
            options.sequences, " sequences from the ", size - options.first, " lengths that ", lengths.source,
            " holds after --first");
    return require_lengths(lengths.batches[iterations]);
  }
  const std::size_t rest = size - options.first, count = batch_size(options, lengths);
  require(count <= rest, "--count is ", count, "; expected at most the ", rest, " lengths that ",
          lengths.source, " holds after --first");
  require(iterations <= rest / count, option, " is ", iterations, "; expected at most ", rest / count,
          " batches of ", count, " from the ", rest, " lengths that ", lengths.source,
          " holds after --first");
  require_lengths(options.first + count * iterations);
  for (std::size_t i = 0; i < iterations; ++i) batch_lengths(options, lengths, i);
}

std::vector<Tokens> batch(const JobOptions& options, const Lengths& lengths, std::size_t iteration) {
  return apply_context(batch_lengths(options, lengths, iteration), options.context, options.long_samples);
}

std::string with_line(const std::string& message, const JobOptions& options, const Lengths& lengths,
                      std::size_t iteration) {
  constexpr std::string_view by_number = "sample ", by_length = "a sample of ";
  // Splitting gives samples other numbers than lines.
  if (options.long_samples == LongSamples::split) return message;
  const auto [first, count] = batch_range(options, lengths, iteration);
  const char* const end = message.data() + message.size();
  std::size_t sample = count;
  if (message.starts_with(by_number)) {
    std::from_chars(message.data() + by_number.size(), end, sample);
  } else if (message.starts_with(by_length)) {
    Tokens length = 0;
    std::from_chars(message.data() + by_length.size(), end, length);
    const std::vector<Tokens> all = batch(options, lengths, iteration);
    sample = static_cast<std::size_t>(std::find(all.begin(), all.end(), length) - all.begin());
  }
  if (sample >= count) return message;
  return concat(lengths.source, ", line ", lengths.lines[first + sample], ": ", message);
}

}  // namespace slimpack::command
