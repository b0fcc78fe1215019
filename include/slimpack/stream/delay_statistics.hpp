#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/stream/document.hpp"

namespace slimpack {

/// Delays and imbalance of the iterations so far. The histograms are exact: how many documents, and how many
/// tokens, were held back for 0, 1, 2, … iterations. All sums except the imbalance are of integers.
struct DelayStatistics {
  std::vector<std::int64_t> documents;  ///< [delay]
  std::vector<Tokens> tokens;           ///< [delay]
  std::int64_t iterations = 0;
  double imbalance_sum = 0.0;
  double imbalance_max = 0.0;
  double largest_sum = 0.0;  ///< of every iteration's largest workload
  double mean_sum = 0.0;     ///< of every iteration's mean workload

  void add(const PackedIteration& packed) {
    for (const PackedDocument& document : packed.documents) {
      const auto delay = static_cast<std::size_t>(document.delay);
      if (delay >= documents.size()) {
        documents.resize(delay + 1, 0);
        tokens.resize(delay + 1, 0);
      }
      ++documents[delay];
      tokens[delay] += document.length;
    }
    const double imbalance = imbalance_degree(packed.workload);
    ++iterations;
    imbalance_sum += imbalance;
    imbalance_max = std::max(imbalance_max, imbalance);
    double largest = 0.0, total = 0.0;
    for (const double w : packed.workload) {
      largest = std::max(largest, w);
      total += w;
    }
    largest_sum += largest;
    if (!packed.workload.empty()) mean_sum += total / static_cast<double>(packed.workload.size());
  }

  /// Mean delay in iterations, and the largest one; 0 before the first document.
  [[nodiscard]] double mean_document_delay() const { return mean(documents); }
  [[nodiscard]] double mean_token_delay() const { return mean(tokens); }
  [[nodiscard]] std::int64_t max_delay() const {
    return std::max<std::int64_t>(static_cast<std::int64_t>(documents.size()) - 1, 0);
  }
  /// Mean imbalance degree of the iterations; 1 before the first.
  [[nodiscard]] double mean_imbalance() const {
    return iterations == 0 ? 1.0 : imbalance_sum / static_cast<double>(iterations);
  }
  /// Sum of the iterations' largest workloads over the sum of their means: how much longer all of them take
  /// than balanced ones, heavy iterations counting for more.
  [[nodiscard]] double total_imbalance() const { return mean_sum > 0.0 ? largest_sum / mean_sum : 1.0; }

  friend bool operator==(const DelayStatistics&, const DelayStatistics&) = default;

 private:
  [[nodiscard]] static double mean(std::span<const std::int64_t> histogram) {
    double count = 0.0, sum = 0.0;
    for (std::size_t delay = 0; delay < histogram.size(); ++delay) {
      count += static_cast<double>(histogram[delay]);
      sum += static_cast<double>(histogram[delay]) * static_cast<double>(delay);
    }
    return count > 0.0 ? sum / count : 0.0;
  }
};

}  // namespace slimpack
