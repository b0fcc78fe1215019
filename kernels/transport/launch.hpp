#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace slimpack::kernels {

/// What started this process as one rank of several.
enum class Launcher : std::uint8_t {
  none,      ///< nothing: the process is alone
  mpi,       ///< an mpirun; MPI itself knows the ranks
  torchrun,  ///< RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
  slurm,     ///< srun: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID; MASTER_ADDR, MASTER_PORT
};

/// Looks up an environment variable: its value, or null. `std::getenv` where nothing else is given.
using Environment = std::function<const char*(const char* name)>;

/// The environment of this process.
[[nodiscard]] Environment process_environment();

/// Which launcher has set the environment. The innermost wins: torchrun-like (RANK and WORLD_SIZE), which others may
/// start on each machine; then mpirun (OpenMPI's variables or PMI's); then Slurm (SLURM_PROCID and MASTER_ADDR).
/// @throws InvalidInput for several processes of Slurm (SLURM_PROCID, SLURM_NTASKS) without MASTER_ADDR: they can't meet.
[[nodiscard]] Launcher launcher_of(const Environment& environment = process_environment());

/// Which rank this process is, and where the ranks meet.
struct Launch {
  std::size_t rank = 0;
  std::size_t size = 1;            ///< ranks
  std::size_t local_rank = 0;      ///< among those of this machine: the index of its GPU
  std::string host = "localhost";  ///< of rank 0, name or address
  std::uint16_t port = 29500;      ///< on which rank 0 listens

  friend bool operator==(const Launch&, const Launch&) = default;
};

/// Reads a launch by torchrun or Slurm. The port is SLIMPACK_PORT where that is set, otherwise MASTER_PORT; the next
/// one if TORCHELASTIC_USE_AGENT_STORE is `True`: torchrun's own store listens on MASTER_PORT then.
/// @param launcher torchrun or slurm. @throws InvalidInput naming the variable that is missing or has a value that makes
/// no sense.
[[nodiscard]] Launch launch_of(Launcher launcher, const Environment& environment = process_environment());

/// The rank among those of its machine, under any launcher; 0 without one. MPI itself does not say it, but mpirun's
/// environment does: OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, PMI_LOCAL_RANK or SLURM_LOCALID.
/// @throws InvalidInput if the launcher has left no variable for it, or one that makes no sense.
[[nodiscard]] std::size_t local_rank_of(const Environment& environment = process_environment());

/// Checks a launch that was not read from the environment. @throws InvalidInput for a rank that is not below the
/// size, or an empty host.
void require_valid(const Launch& launch);

}  // namespace slimpack::kernels
