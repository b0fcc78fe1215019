#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slimpack::command {

/// Numbers one after another in as many bytes as they have groups of 7 bits, so in no more than they have digits.
class CompactNumbers {
 public:
  void add(std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) bytes_.push_back(static_cast<std::uint8_t>(number | 0x80));
    bytes_.push_back(static_cast<std::uint8_t>(number));
  }
  /// Where the next number will stand, and after all of them the end.
  [[nodiscard]] std::size_t end() const { return bytes_.size(); }
  /// The number that stands there. @param[in,out] at moves on to the next one.
  [[nodiscard]] std::uint64_t take(std::size_t& at) const {
    std::uint64_t number = 0;
    for (unsigned shift = 0;; shift += 7) {
      const std::uint8_t byte = bytes_[at++];
      number |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return number;
    }
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// Rising numbers, those of lines, in little more than a byte each where they stand close together.
class LineNumbers {
 public:
  /// @pre line is above those before it.
  void add(std::size_t line) {
    if (size_++ % block == 0) blocks_.push_back({last_, steps_.end()});
    steps_.add(line - last_);
    last_ = line;
  }
  /// @pre i is below how many were added. O(1).
  [[nodiscard]] std::size_t operator[](std::size_t i) const {
    auto [line, at] = blocks_[i / block];
    for (std::size_t steps = i % block + 1; steps > 0; --steps)
      line += static_cast<std::size_t>(steps_.take(at));
    return line;
  }

 private:
  static constexpr std::size_t block = 64;
  struct Block {
    std::size_t before, at;  ///< the line before its first one, and where its steps begin
  };

  std::size_t size_ = 0, last_ = 0;
  std::vector<Block> blocks_;
  CompactNumbers steps_;
};

}  // namespace slimpack::command
