#include "slimpack/sharding/tensor_share.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

using namespace slimpack;

TEST_CASE("each token's rows are on one tensor-parallel rank, and ranks have equally many") {
  for (std::size_t size = 1; size <= 5; ++size) {
    for (SampleId sample = 0; sample < 7; ++sample) {
      for (Tokens begin = 0; begin < 12; ++begin) {
        for (Tokens end = begin; end < 25; ++end) {
          std::vector<Tokens> held(size);
          for (Tokens t = begin; t < end; ++t) {
            const std::size_t owner = TensorShare{size, 0}.owner(sample, t);
            REQUIRE(owner < size);
            ++held[owner];
          }
          for (std::size_t rank = 0; rank < size; ++rank) {
            INFO("rank " << rank << " of " << size << ", sample " << sample << ", tokens " << begin << " to "
                         << end);
            REQUIRE(TensorShare{size, rank}.count({sample, begin, end}) == held[rank]);
            REQUIRE(std::abs(held[rank] - held[0]) <= 1);
          }
        }
      }
    }
  }
}

TEST_CASE("samples of one token fill tensor-parallel ranks in turn") {
  for (SampleId sample = 0; sample < 8; ++sample) CHECK(TensorShare{4, 0}.owner(sample, 0) == sample % 4);
}
