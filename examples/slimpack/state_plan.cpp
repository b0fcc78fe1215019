#include "state_plan.hpp"

#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "output.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/core/hash.hpp"
#include "slimpack/plan/json.hpp"
#include "slimpack/plan/validate.hpp"
#include "slimpack/stream/state.hpp"
#include "slimpack/stream/state_file.hpp"

namespace slimpack::command {

namespace {

/// A state file's bytes; nothing where there is no such file.
std::string read_state(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown) && !unknown) return "";
  std::string bytes;
  try {
    bytes = read_state_file(path);
  } catch (const std::system_error& error) {
    throw InvalidInput(concat("can't read the state '", path, "': ", error.code().message(),
                              "; expected a readable file, or none"));
  } catch (const InvalidInput& none) {
    throw InvalidInput(concat("with the state '", path, "': ", none.what()));
  }
  require(!bytes.empty(), "the state '", path, "' is empty; expected a state that `slimpack plan` has left");
  return bytes;
}

std::uint64_t fingerprint(std::string_view text) {
  WordHash hash;
  hash.add_all(std::span(text));
  return hash.value();
}

/// What `planning` returns. @throws InvalidInput as it does, naming the state that it went on from, if any.
template <class Planning>
auto with_state_file(const std::string& file, const std::string& saved, const Planning& planning) {
  try {
    return planning();
  } catch (const InvalidInput& error) {
    if (saved.empty()) throw;
    throw InvalidInput(concat("with the state '", file, "': ", error.what()));
  }
}

/// A plan as it is written, and the state after it; none where that is as it was.
struct Written {
  std::string plan, state;
};

/// @param saved what the run goes on from. @throws InvalidInput as `KeptRun::plan`, or if the last iteration's plan is
/// not what it was.
Written plan_iteration(const KeptRun& run, std::optional<std::int64_t> number,
                       const std::vector<Document>& batch, std::string_view saved) {
  const std::int64_t next = run.next(), iteration = number.value_or(next);
  const Plan plan = run.plan(iteration, batch);
  validate(plan);
  Written written{.plan = to_json(plan), .state = ""};
  const std::uint64_t result = fingerprint(written.plan);
  if (iteration == next) {
    written.state = run.save(result);
    return written;
  }
  const std::uint64_t before = saved_result(saved);  // 0 from programs that give none
  require(before == result || before == 0, "iteration ", iteration,
          " was planned otherwise; expected the options ",
          "and the version of slimpack that it was planned with, or iteration ", next);
  return written;
}

/// @throws InvalidInput if the file is no longer what was read, nor the next state, which another process that was asked for the
/// same may have written: a process that was given up may resume after later calls.
void require_unchanged(const std::string& file, const std::string& saved, const std::string& next) {
  const std::string now = read_state(file);
  require(now == saved || (!next.empty() && now == next), "the state '", file,
          "' was changed while an iteration was planned from it; expected one process at a time");
}

}  // namespace

std::optional<StateOptions> state_options(const boost::program_options::variables_map& values) {
  const bool numbered = values.count("iteration") != 0;
  if (values.count("state") == 0) {
    require(!numbered, "--iteration is given without --state; expected both");
    return std::nullopt;
  }
  StateOptions options{.file = values["state"].as<std::string>(), .iteration = std::nullopt};
  require(!options.file.empty() && options.file != "-", "--state is '", options.file,
          "'; expected a file, because the next iteration reads it");
  if (numbered) options.iteration = static_cast<std::int64_t>(at_least(values, "iteration", 0));
  return options;
}

void plan_with_state(const Planner& planner, const JobOptions& job, const Lengths& lengths,
                     const StateOptions& state, const std::string& output) {
  const std::string saved = read_state(state.file);
  require(!saved.empty() || state.iteration.value_or(0) == 0, "--iteration is ", state.iteration.value_or(0),
          ", but there is no state '", state.file,
          "'; expected 0, or the state that the iteration before left");
  const RunScope scope{.state = saved, .keeps_state = true};
  std::vector<PlanRun> runs;
  if (planner.start != nullptr)
    runs = with_state_file(state.file, saved, [&] { return planner.start(job, lengths, scope); });
  require(runs.size() == 1 && runs.front().kept, "--state is given for planner ", planner.name,
          ", which remembers nothing; expected it for wlb");
  const auto batch = job.documents.drain ? std::vector<Document>{} : documents(job, lengths, 0);
  const Written written = with_state_file(state.file, saved, [&] {
    return with_document_line(
        lengths, [&] { return plan_iteration(*runs.front().kept, state.iteration, batch, saved); });
  });
  require_unchanged(state.file, saved, written.state);
  write_output(output, written.plan);
  require_unchanged(state.file, saved, written.state);
  if (!written.state.empty()) write_output(state.file, written.state);
}

}  // namespace slimpack::command
