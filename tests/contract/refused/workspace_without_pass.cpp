// refused: a memory model needs: double workspace_bytes(std::size_t stage, Pass, Tokens tokens, int recompute_layers) const
#include "slimpack/cost/memory_features.hpp"

struct Memory {
  double capacity_bytes() const { return 8e10; }
  double static_bytes(std::size_t) const { return 0.0; }
  double activation_bytes(std::size_t, int) const { return 0.0; }
  double kv_gradient_bytes(std::size_t) const { return 0.0; }
  double workspace_bytes(std::size_t, slimpack::Tokens, int) const { return 0.0; }
};

int main() { slimpack::require_memory_features<>(Memory{}); }
