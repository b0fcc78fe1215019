// refused: ExchangingMemory needs: double exchange_bytes(std::size_t stage, Pass, Tokens tokens
#include "least_models.hpp"
#include "slimpack/cost/memory_features.hpp"

struct Memory : LeastMemory {
  double exchange_byte(std::size_t, slimpack::Pass, slimpack::Tokens, std::size_t) const { return 0.0; }
};

int main() { slimpack::require_memory_features<slimpack::ExchangingMemory>(Memory{}); }
