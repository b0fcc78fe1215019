#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/cuda/device/kept_rows.hpp"

namespace slimpack::kernels::cuda {

/// Arrays of a number for each token that the host tells the GPU of a task, at most.
inline constexpr std::size_t task_words = 7;

/// What the GPU has to know about a task in addition to its rows: arrays in its memory. Rows are those of
/// `task.owned`.
struct TaskTables {
  std::span<const std::int32_t> positions;  ///< of each token in its sample
  std::span<const std::int32_t> rows;       ///< forward: of its key and value; backward: of their gradients
  std::span<const std::int32_t> labels;     ///< last stage
  std::span<const std::int32_t> ids;        ///< first stage; backward: those of a `TokenOrder`
  std::span<const std::int32_t> begins, tokens;  ///< the rest of that
  std::span<const std::int32_t> order;  ///< merged: rows of all members' tokens, as members hold them
  AttentionItems attention;
  std::span<const std::byte> lists;        ///< of a library's attention, in the place of `attention`
  std::span<const KeptPiece> pieces;       ///< fragments of the task
  std::span<const std::int32_t> piece_of;  ///< each token's
  std::span<const std::int32_t> pages;     ///< of the pieces, consecutively
};

/// Consecutive arrays in the host's memory, laid out as in the GPU's: they go there in one copy.
class TaskData {
 public:
  /// What n numbers take.
  template <class T>
  [[nodiscard]] static constexpr std::size_t bytes_of(std::size_t n) {
    return (n * sizeof(T) + alignment - 1) / alignment * alignment;
  }

  /// @param device where the bytes will lie, at a multiple of 16.
  void begin(std::byte* device) {
    device_ = device;
    bytes_.clear();
  }

  /// @returns the array in the GPU's memory.
  template <class T>
  [[nodiscard]] std::span<const T> add(const std::vector<T>& numbers) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + bytes_of<T>(numbers.size()));
    if (!numbers.empty()) std::memcpy(bytes_.data() + at, numbers.data(), numbers.size() * sizeof(T));
    return {reinterpret_cast<const T*>(device_ + at), numbers.size()};
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  static constexpr std::size_t alignment = 16;

  std::byte* device_ = nullptr;
  std::vector<std::byte> bytes_;
};

}  // namespace slimpack::kernels::cuda
