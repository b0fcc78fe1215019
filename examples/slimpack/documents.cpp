#include "documents.hpp"

#include <charconv>

#include "slimpack/core/error.hpp"

namespace slimpack::command {

std::vector<Document> documents(const JobOptions& o, const Lengths& lengths, std::size_t iteration) {
  std::uint64_t id = batch_range(o, lengths, iteration).begin;
  std::vector<Document> batch;
  for (const Tokens length : batch_lengths(o, lengths, iteration)) {
    const auto pieces = apply_context({&length, 1}, o.context, o.long_samples);
    for (std::size_t k = 0; k < pieces.size(); ++k)
      batch.push_back({id + (std::uint64_t{k} << 40), pieces[k]});
    ++id;
  }
  return batch;
}

std::string document_line(std::string_view message, const Lengths& lengths) {
  constexpr std::string_view begin = "document ";
  std::size_t id = lengths.tokens.size();
  if (message.starts_with(begin)) {
    std::from_chars(message.data() + begin.size(), message.data() + message.size(), id);
    id &= (std::size_t{1} << 40) - 1;
  }
  return id < lengths.tokens.size() ? concat(lengths.source, ", line ", lengths.lines[id], ": ") : "";
}

std::vector<Plan> push_batch(const PlanRun& run, const JobOptions& o, const Lengths& lengths,
                             std::size_t iteration) {
  return with_document_line(lengths, [&] { return run.push(documents(o, lengths, iteration)); });
}

}  // namespace slimpack::command
