#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "slimpack/core/hash.hpp"
#include "slimpack/core/ids.hpp"

namespace slimpack {

/// A document of the training data. The id is the loader's; it has no meaning here.
struct Document {
  std::uint64_t id = 0;
  Tokens length = 0;
  friend bool operator==(const Document&, const Document&) = default;
};

/// A hash by which a batch, its order included, is known again.
[[nodiscard]] inline std::uint64_t documents_hash(std::span<const Document> batch) {
  WordHash hash;
  hash.add_all(batch, [&](const Document& document) {
    hash.add(document.id);
    hash.add(document.length);
  });
  return hash.value();
}

/// The time of a whole document in any unit, Wa + Wl of WLB-LLM's Eq. 2: a pure function of its tokens, not
/// negative.
template <class F>
concept DocumentWorkload = std::copy_constructible<F> && requires(const F& f, Tokens length) {
  { f(length) } -> std::convertible_to<double>;
};

/// A document in a micro-batch, and for how many iterations it was held back; negative if it was moved
/// forward.
struct PackedDocument {
  std::uint64_t id = 0;
  Tokens length = 0;
  std::int64_t delay = 0;
  friend bool operator==(const PackedDocument&, const PackedDocument&) = default;
};

/// The micro-batches of one iteration. If there are too few documents, some micro-batches are empty.
struct PackedIteration {
  std::int64_t iteration = 0;                  ///< counted from 0
  std::vector<PackedDocument> documents = {};  ///< by micro-batch
  std::vector<std::size_t> offsets = {0};      ///< where each micro-batch begins, then the end
  std::vector<Tokens> tokens = {};             ///< of each micro-batch
  std::vector<double> workload = {};           ///< of each micro-batch

  [[nodiscard]] std::size_t micro_batches() const { return offsets.size() - 1; }
  [[nodiscard]] std::span<const PackedDocument> micro_batch(std::size_t m) const {
    return {documents.data() + offsets[m], documents.data() + offsets[m + 1]};
  }
  friend bool operator==(const PackedIteration&, const PackedIteration&) = default;
};

/// WLB-LLM's imbalance degree, largest workload times the number of micro-batches over the total (section
/// 6.4: Max_Latency x PP_size / Total_Latency); 1 where there is no work.
[[nodiscard]] inline double imbalance_degree(std::span<const double> workload) {
  const double total = std::accumulate(workload.begin(), workload.end(), 0.0);
  if (!(total > 0.0)) return 1.0;
  return *std::max_element(workload.begin(), workload.end()) * static_cast<double>(workload.size()) / total;
}

}  // namespace slimpack
