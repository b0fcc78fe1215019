#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace campaign {

/// Random numbers that are the same with every standard library: SplitMix64.
class Draw {
 public:
  /// @param seed of the campaign. @param index of the setting.
  Draw(std::uint64_t seed, std::uint64_t index)
      : state_(seed * 0x9e3779b97f4a7c15ULL + index * 0xd1b54a32d192ed03ULL) {
    bits();
  }

  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  /// In [0, 1).
  double real() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// In [lo, hi).
  double real(double lo, double hi) { return lo + (hi - lo) * real(); }
  /// In [lo, hi), its logarithm being uniform.
  double log_real(double lo, double hi) { return lo * std::pow(hi / lo, real()); }
  /// In [lo, hi], both included.
  template <class T>
  T whole(T lo, T hi) {
    return lo + static_cast<T>(bits() % (static_cast<std::uint64_t>(hi - lo) + 1));
  }
  /// In [lo, hi], both included, its logarithm being about uniform.
  template <class T>
  T log_whole(T lo, T hi) {
    const double x = log_real(static_cast<double>(lo), static_cast<double>(hi) + 1.0);
    return x >= static_cast<double>(hi) ? hi : static_cast<T>(x);
  }
  bool chance(double probability) { return real() < probability; }
  double normal() {
    const double u = 1.0 - real(), v = real();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[bits() % values.size()];
  }

 private:
  std::uint64_t state_;
};

}  // namespace campaign
