#include "kernels/transport/launch.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <system_error>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

constexpr std::size_t most_ranks = 65536;
constexpr std::string_view local_meaning = "the rank among those of its machine";

/// Names of the variables of one launcher.
struct Variables {
  const char *rank, *size, *local_rank;
};

constexpr Variables torchrun_variables{"RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Variables slurm_variables{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};

std::string_view text_of(const Environment& environment, const char* name, std::string_view expected) {
  const char* text = environment(name);
  require(text != nullptr && *text != '\0', name, " is ", text == nullptr ? "not set" : "empty",
          "; expected ", expected);
  return text;
}

std::size_t number_of(const Environment& environment, const char* name, std::size_t least, std::size_t most,
                      std::string_view meaning) {
  const std::string expected = concat(meaning, ", ", least, " to ", most);
  const std::string_view text = text_of(environment, name, expected);
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = error == std::errc{} && end == text.data() + text.size();
  require(number && value >= least && value <= most, name, " is '", text, "'; expected ", expected);
  return value;
}

std::uint16_t port_of(const Environment& environment) {
  constexpr std::size_t most = std::numeric_limits<std::uint16_t>::max();
  if (environment("SLIMPACK_PORT") != nullptr) {
    return static_cast<std::uint16_t>(
        number_of(environment, "SLIMPACK_PORT", 1, most, "a free port of rank 0's machine"));
  }
  const std::size_t port = number_of(environment, "MASTER_PORT", 1, most, "a free port of rank 0's machine");
  const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  if (agent == nullptr || std::string_view(agent) != "True") return static_cast<std::uint16_t>(port);
  require(port < most, "MASTER_PORT is ", port,
          ", on which torchrun itself listens; expected a port below it, or another one in SLIMPACK_PORT");
  return static_cast<std::uint16_t>(port + 1);
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> const char* { return std::getenv(name); };
}

Launcher launcher_of(const Environment& environment) {
  const auto set = [&](const char* name) { return environment(name) != nullptr; };
  if (set("RANK") && set("WORLD_SIZE")) return Launcher::torchrun;
  if (set("OMPI_COMM_WORLD_SIZE") || set("PMI_SIZE") || set("PMIX_RANK")) return Launcher::mpi;
  if (!set("SLURM_PROCID")) return Launcher::none;
  if (set("MASTER_ADDR")) return Launcher::slurm;
  const char* tasks = environment("SLURM_NTASKS");
  require(tasks == nullptr || std::string_view(tasks) == "1", "srun has started ",
          tasks == nullptr ? "" : tasks,
          " processes, but MASTER_ADDR is not set, without which each would run alone; expected rank 0's "
          "machine in "
          "MASTER_ADDR and a free port of it in MASTER_PORT");
  return Launcher::none;
}

Launch launch_of(Launcher launcher, const Environment& environment) {
  require(launcher == Launcher::torchrun || launcher == Launcher::slurm,
          "the environment is not of torchrun or Slurm; expected RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR "
          "and MASTER_PORT, or SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, MASTER_ADDR and MASTER_PORT");
  const Variables& names = launcher == Launcher::torchrun ? torchrun_variables : slurm_variables;
  Launch launch;
  launch.size = number_of(environment, names.size, 1, most_ranks, "the number of ranks");
  launch.rank = number_of(environment, names.rank, 0, launch.size - 1, "a rank");
  launch.local_rank = number_of(environment, names.local_rank, 0, launch.size - 1, local_meaning);
  launch.host = text_of(environment, "MASTER_ADDR", "the name or address of rank 0's machine");
  launch.port = port_of(environment);
  return launch;
}

std::size_t local_rank_of(const Environment& environment) {
  const Launcher launcher = launcher_of(environment);
  if (launcher == Launcher::none) return 0;
  if (launcher != Launcher::mpi) return launch_of(launcher, environment).local_rank;
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"}) {
    if (environment(name) != nullptr) return number_of(environment, name, 0, most_ranks - 1, local_meaning);
  }
  throw InvalidInput(
      concat("OMPI_COMM_WORLD_LOCAL_RANK is not set, nor MPI_LOCALRANKID, PMI_LOCAL_RANK or "
             "SLURM_LOCALID; expected one of them to be ",
             local_meaning));
}

void require_valid(const Launch& launch) {
  require(launch.rank < launch.size, "the rank is ", launch.rank, "; expected one below ", launch.size);
  require(!launch.host.empty(), "the host of rank 0 is empty; expected its name or address");
}

}  // namespace slimpack::kernels
