#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lengths.hpp"
#include "options.hpp"

namespace slimpack::command {

/// The lengths of a job, divided into batches. @throws InvalidInput as `read_lengths_from`.
Lengths read_job_lengths(const JobOptions& options);

/// Lengths of a batch in the file.
struct BatchRange {
  std::size_t begin = 0, count = 0;
};

/// Where batch number `iteration` stands.
BatchRange batch_range(const JobOptions& options, const Lengths& lengths, std::size_t iteration);

/// The lengths of batch number `iteration` as the file has them.
/// @throws InvalidInput if splitting them makes more than `most_split_samples`.
std::span<const Tokens> batch_lengths(const JobOptions& options, const Lengths& lengths,
                                      std::size_t iteration);

/// Whole batches from `first` on.
std::size_t batch_count(const JobOptions& options, const Lengths& lengths);

/// Checks that the lengths hold `iterations` batches, and that the policy for samples above the context works
/// for them. @param option that asks for so many, for messages.
/// @throws InvalidInput naming the line of a bad sample, or how many samples there are.
void require_batches(const JobOptions& options, const Lengths& lengths, std::size_t iterations,
                     const char* option = "--iterations");

/// Batch number `iteration` of lengths that `require_batches` accepted: `count` samples after `first`, or what
/// fills so many sequences; those above the context truncated or split.
std::vector<Tokens> batch(const JobOptions& options, const Lengths& lengths, std::size_t iteration);

/// A message about batch number `iteration`, with the line of the sample that it begins with, if any: "sample N", or "a
/// sample of N tokens".
std::string with_line(const std::string& message, const JobOptions& options, const Lengths& lengths,
                      std::size_t iteration);

}  // namespace slimpack::command
