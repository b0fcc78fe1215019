#include "slimpack/slicing/pack_chains.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <random>
#include <vector>

using namespace slimpack;

namespace {

struct Cuts {
  std::vector<Tokens> lengths;
  Packs packs;
};

/// Samples one after another, some of them cut into slices in consecutive packs, in which whole samples may join them.
Cuts random_cuts(std::mt19937& random) {
  Cuts out;
  const std::size_t samples = 1 + random() % 12;
  for (SampleId id = 0; id < samples; ++id) {
    const auto slices = static_cast<Tokens>(random() % 3 == 0 ? 1 + random() % 4 : 1);
    out.lengths.push_back(10 * slices);
    for (Tokens i = 0; i < slices; ++i) {
      out.packs.add({id, 10 * i, 10 * (i + 1)});
      if (i + 1 < slices || random() % 2 == 0) out.packs.close();
    }
  }
  if (random() % 2 == 0) out.packs.close();  // an empty pack, or the end of the last one
  out.packs.close();
  return out;
}

/// Whether a sample has slices in packs up to number `k` of `packs`, and in later ones.
bool joined(const Packs& packs, std::size_t k) {
  for (std::size_t a = 0; a <= k; ++a) {
    for (std::size_t b = k + 1; b < packs.size(); ++b) {
      for (const Slice& x : packs[a]) {
        for (const Slice& y : packs[b]) {
          if (x.sample == y.sample) return true;
        }
      }
    }
  }
  return false;
}

/// Chains by their definition.
std::vector<std::vector<std::size_t>> naive_chains(const Packs& packs) {
  std::vector<std::vector<std::size_t>> chains;
  for (std::size_t k = 0; k < packs.size(); ++k) {
    if (k == 0 || !joined(packs, k - 1)) chains.emplace_back();
    chains.back().push_back(k);
  }
  return chains;
}

Packs in_order(const Packs& packs, const std::vector<std::size_t>& order) {
  Packs out;
  for (const std::size_t k : order) out.repeat_row(1, packs[k]);
  return out;
}

}  // namespace

TEST_CASE("chains are runs of packs that samples which are cut connect") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto [lengths, packs] = random_cuts(random);
    std::vector<std::size_t> backward, reversed;
    const std::vector<std::vector<std::size_t>> chains = naive_chains(packs);
    for (const auto& chain : chains) {
      CHECK(chain_end(lengths, packs, chain.front()) == chain.back() + 1);
      backward.insert(backward.end(), chain.rbegin(), chain.rend());
      reversed.insert(reversed.begin(), chain.begin(), chain.end());
    }
    Packs mirrored, turned = packs;
    append_mirrored(lengths, packs, 0, packs.size(), mirrored);
    CHECK(mirrored == in_order(packs, backward));
    reverse_chains(lengths, 0, turned);
    CHECK(turned == in_order(packs, reversed));
  }
}

TEST_CASE("chains before the first that is named stay where they are") {
  const std::vector<Tokens> lengths{10, 20, 5};
  Packs packs;
  for (const Slice& slice : {Slice{0, 0, 10}, Slice{1, 0, 10}, Slice{1, 10, 20}, Slice{2, 0, 5}}) {
    packs.add(slice);
    packs.close();
  }
  Packs turned = packs, mirrored;
  reverse_chains(lengths, 1, turned);
  CHECK(turned == in_order(packs, {0, 3, 1, 2}));
  append_mirrored(lengths, packs, 1, 3, mirrored);
  CHECK(mirrored == in_order(packs, {2, 1}));
}
