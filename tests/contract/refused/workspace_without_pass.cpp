// refused: a memory model needs: double workspace_bytes(std::size_t stage, Pass, Tokens tokens, int recompute_layers) const
#include "least_models.hpp"
#include "slimpack/cost/memory_features.hpp"

struct Memory : LeastMemory {
  double workspace_bytes(std::size_t, slimpack::Tokens, int) const { return 0.0; }
};

int main() { slimpack::require_memory_features<>(Memory{}); }
