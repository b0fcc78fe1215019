#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/hash.hpp"

// Saved states are made of 64-bit words, little-endian, of which the last one is a hash of all others.

namespace slimpack::detail {

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

}  // namespace slimpack::detail
