// refused: ReservingMemory needs: double reserve_bytes() const
#include "least_models.hpp"
#include "slimpack/cost/memory_features.hpp"

struct Memory : LeastMemory {
  double reserved_bytes() const { return 0.0; }
};

int main() { slimpack::require_memory_features<slimpack::ReservingMemory>(Memory{}); }
