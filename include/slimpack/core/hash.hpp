#pragma once

#include <concepts>
#include <cstdint>
#include <span>

namespace slimpack {

/// Folds 64-bit words into one. Each step is a bijection of the state for a given word and of the word for a
/// given state, so sequences that differ in one word never meet. The mixing is MurmurHash3's 64-bit finaliser
/// (public domain, Austin Appleby).
class WordHash {
 public:
  template <std::integral T>
  void add(T value) {
    state_ = mixed(state_ ^ static_cast<std::uint64_t>(value));
  }

  /// The length first, so that what ends one list can't begin the next.
  template <class T, class F>
  void add_all(std::span<const T> values, F&& add_one) {
    add(values.size());
    for (const T& value : values) add_one(value);
  }

  template <std::integral T>
  void add_all(std::span<const T> values) {
    add_all(values, [&](T value) { add(value); });
  }

  /// Never 0.
  [[nodiscard]] std::uint64_t value() const { return state_ == 0 ? 1 : state_; }

 private:
  static constexpr std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
  }

  std::uint64_t state_ = 0;
};

}  // namespace slimpack
