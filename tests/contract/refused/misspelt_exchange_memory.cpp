// refused: ExchangingMemory needs: double exchange_bytes(std::size_t stage, Pass, Tokens tokens
#include "slimpack/cost/memory_features.hpp"

struct Memory {
  double capacity_bytes() const { return 8e10; }
  double static_bytes(std::size_t) const { return 0.0; }
  double activation_bytes(std::size_t, int) const { return 0.0; }
  double kv_gradient_bytes(std::size_t) const { return 0.0; }
  double workspace_bytes(std::size_t, slimpack::Pass, slimpack::Tokens, int) const { return 0.0; }
  double exchange_byte(std::size_t, slimpack::Pass, slimpack::Tokens, std::size_t) const { return 0.0; }
};

int main() { slimpack::require_memory_features<slimpack::ExchangingMemory>(Memory{}); }
