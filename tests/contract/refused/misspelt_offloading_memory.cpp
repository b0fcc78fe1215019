// refused: OffloadingMemory needs: double transit_bytes(std::size_t stage, Tokens tokens) const
#include "least_models.hpp"
#include "slimpack/cost/memory_features.hpp"

struct Memory : LeastMemory {
  using LeastMemory::activation_bytes;
  double activation_bytes(std::size_t, int, int) const { return 0.0; }
  double host_bytes(std::size_t, int, int) const { return 0.0; }
  double transit_byte(std::size_t, slimpack::Tokens) const { return 0.0; }
};

int main() { slimpack::require_memory_features<slimpack::OffloadingMemory>(Memory{}); }
