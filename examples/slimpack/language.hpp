#pragma once

#include <bit>
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
/// follows it with probability `1 - noise`; else any word follows, all alike. With several topics, each has successors of its
/// own, and a text's topic follows from its length, as long and short documents of real data are about different things. What
/// a model can't know, its loss can't fall below: `entropy()`. Same seed, same texts, on every machine.
class Language {
 public:
  /// @param words of the vocabulary, at least 1. @param noise in [0, 1]. @param topics at least 1.
  Language(std::int32_t words, std::uint64_t seed, double noise = 0.1, std::size_t topics = 1)
      : seed_(seed), noise_(noise), successors_(topics) {
    Random random{mixed(seed)};
    for (std::vector<std::int32_t>& successor : successors_) {
      successor.resize(static_cast<std::size_t>(words));
      std::iota(successor.begin(), successor.end(), 0);
      for (std::size_t i = successor.size(); i > 1; --i) std::swap(successor[i - 1], successor[random() % i]);
    }
  }

  /// Texts of the given numbers and lengths, one row each. A text depends on the seed, its number, its topic and nothing else,
  /// and a shorter one of the same topic is the beginning of a longer one. O(tokens).
  [[nodiscard]] Ragged<std::int32_t> texts(std::span<const std::uint64_t> numbers,
                                           std::span<const Tokens> lengths) const {
    Ragged<std::int32_t> ids;
    const auto threshold = static_cast<std::uint64_t>(std::ldexp(noise_, 32));
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      Random random{mixed(mixed(seed_) + numbers[i])};
      const std::vector<std::int32_t>& successor = successors_[topic_of(lengths[i])];
      auto word = static_cast<std::int32_t>(random() % successor.size());
      for (std::int32_t& id : ids.add_row(static_cast<std::size_t>(lengths[i]))) {
        id = word;
        const std::uint64_t any = random() % successor.size();
        word = random() >> 32 < threshold ? static_cast<std::int32_t>(any)
                                          : successor[static_cast<std::size_t>(word)];
      }
    }
    return ids;
  }

  /// Texts of 2^k to 2^(k + 1) - 1 tokens have topic k modulo the number of topics.
  [[nodiscard]] std::size_t topic_of(Tokens length) const {
    return (std::bit_width(static_cast<std::uint64_t>(length)) - 1U) % successors_.size();
  }

  /// Nats per token that nobody can know beforehand, not even who knows the topic.
  [[nodiscard]] double entropy() const {
    const auto words = static_cast<double>(successors_.front().size());
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
  std::vector<std::vector<std::int32_t>> successors_;  ///< [topic][word]
};

}  // namespace slimpack::command
