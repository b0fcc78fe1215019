#pragma once

#include <mpi.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/transport/board.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

inline std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

/// For calls that set up and tear down.
inline void check_call(int code, const char* call) {
  if (code != MPI_SUCCESS) throw std::runtime_error(concat(call, ": ", mpi_text(code)));
}

/// A communicator of our own, so that no other messages are mistaken for ours.
class Communicator {
 public:
  Communicator() {
    check_call(MPI_Comm_dup(MPI_COMM_WORLD, &handle_), "MPI_Comm_dup");
    check_call(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] MPI_Comm get() const { return handle_; }
  void free() { check_call(MPI_Comm_free(&handle_), "MPI_Comm_free"); }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

/// The type of a message: bytes, or one piece that stands for all of a long message.
class MessageType {
 public:
  MessageType(std::size_t bytes, std::size_t largest_count) : count_(static_cast<int>(bytes)) {
    if (bytes <= largest_count) return;
    MPI_Datatype whole{};
    const std::size_t pieces = bytes / largest_count, rest = bytes % largest_count;
    MPI_Type_vector(static_cast<int>(pieces), static_cast<int>(largest_count),
                    static_cast<int>(largest_count), MPI_BYTE, &whole);
    const int lengths[] = {1, static_cast<int>(rest)};
    const MPI_Aint places[] = {0, static_cast<MPI_Aint>(pieces * largest_count)};
    const MPI_Datatype types[] = {whole, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, places, types, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&whole);
    count_ = 1;
  }
  MessageType(const MessageType&) = delete;
  MessageType& operator=(const MessageType&) = delete;
  /// Transfers that were started keep the type alive.
  ~MessageType() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }

  [[nodiscard]] MPI_Datatype get() const { return type_; }
  [[nodiscard]] int count() const { return count_; }

 private:
  MPI_Datatype type_ = MPI_BYTE;
  int count_;
};

/// The board of all ranks on this machine; in own memory, of this rank alone, if they do not share any.
class MachineBoard {
 public:
  MachineBoard(MPI_Comm world, std::size_t rank, std::size_t ranks, bool shared) {
    if (!shared) {
      memory_.resize(Board::bytes(ranks) / sizeof(std::uint64_t) + 1);
      board_ = Board(memory_.data(), ranks, true);
      return;
    }
    MPI_Comm machine{};
    check_call(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
               "MPI_Comm_split_type");
    int place = 0;
    MPI_Comm_rank(machine, &place);
    void* own = nullptr;
    const auto bytes = static_cast<MPI_Aint>(place == 0 ? Board::bytes(ranks) : 0);
    check_call(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, machine, &own, &window_),
               "MPI_Win_allocate_shared");
    MPI_Aint size = 0;
    int unit = 0;
    void* memory = nullptr;
    check_call(MPI_Win_shared_query(window_, 0, &size, &unit, &memory), "MPI_Win_shared_query");
    board_ = Board(memory, ranks, place == 0);
    check_call(MPI_Barrier(machine), "MPI_Barrier");
    if (one_process_table(machine)) board_[rank].process = getpid();
    check_call(MPI_Comm_free(&machine), "MPI_Comm_free");
  }

  [[nodiscard]] const Board& get() const { return board_; }
  void free() {
    if (window_ != MPI_WIN_NULL) check_call(MPI_Win_free(&window_), "MPI_Win_free");
  }

 private:
  /// Whether process ids mean the same to all ranks of a machine: containers have their own.
  static bool one_process_table(MPI_Comm machine) {
    struct stat status {};
    const bool known = stat("/proc/self/ns/pid", &status) == 0;
    std::uint64_t table[2] = {known ? std::uint64_t{status.st_ino} : 0, 0};
    table[1] = ~table[0];
    std::uint64_t least[2] = {};
    check_call(MPI_Allreduce(table, least, 2, MPI_UINT64_T, MPI_MIN, machine), "MPI_Allreduce");
    return known && least[0] == ~least[1];
  }

  std::vector<std::uint64_t> memory_;
  MPI_Win window_ = MPI_WIN_NULL;
  Board board_;
};

}  // namespace slimpack::kernels
