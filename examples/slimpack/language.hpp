#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/plan/plan.hpp"

namespace slimpack::command {

/// A language that a small model can learn: each word has one successor, drawn once from the seed, which
/// follows it with probability `1 - noise`; else any word follows, all alike. What a model can't know, its
/// loss can't fall below: `entropy()`. Same seed, same texts, on every machine.
class Language {
 public:
  /// @param words of the vocabulary, at least 1. @param noise in [0, 1].
  Language(std::int32_t words, std::uint64_t seed, double noise = 0.1)
      : seed_(seed), noise_(noise), successor_(static_cast<std::size_t>(words)) {
    std::iota(successor_.begin(), successor_.end(), 0);
    Random random{mixed(seed)};
    for (std::size_t i = successor_.size(); i > 1; --i)
      std::swap(successor_[i - 1], successor_[random() % i]);
  }

  /// Texts number `first`, `first + 1`, … of the given lengths, one row each. A text depends on the seed, its
  /// number and nothing else, and a shorter one is the beginning of a longer one. O(tokens).
  [[nodiscard]] Ragged<std::int32_t> texts(std::uint64_t first, std::span<const Tokens> lengths) const {
    Ragged<std::int32_t> ids;
    const auto threshold = static_cast<std::uint64_t>(std::ldexp(noise_, 32));
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      Random random{mixed(mixed(seed_) + first + i)};
      auto word = static_cast<std::int32_t>(random() % successor_.size());
      for (std::int32_t& id : ids.add_row(static_cast<std::size_t>(lengths[i]))) {
        id = word;
        const std::uint64_t any = random() % successor_.size();
        word = random() >> 32 < threshold ? static_cast<std::int32_t>(any)
                                          : successor_[static_cast<std::size_t>(word)];
      }
    }
    return ids;
  }

  /// Nats per token that nobody can know beforehand.
  [[nodiscard]] double entropy() const {
    const auto words = static_cast<double>(successor_.size());
    const double likely = 1.0 - noise_ + noise_ / words, other = noise_ / words;
    return -likely * std::log(likely) - (other > 0.0 ? (words - 1.0) * other * std::log(other) : 0.0);
  }

 private:
  static constexpr std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }

  /// SplitMix64: standard distributions differ from library to library.
  struct Random {
    std::uint64_t state;

    std::uint64_t operator()() { return mixed(state += 0x9e3779b97f4a7c15U); }
  };

  std::uint64_t seed_;
  double noise_;
  std::vector<std::int32_t> successor_;
};

}  // namespace slimpack::command
