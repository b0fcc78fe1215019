// refused: Mergeable needs: with_context_parallel(std::int32_t group) const
#include "least_models.hpp"
#include "slimpack/cost/features.hpp"

struct Cost : LeastCost {
  bool supports_context_parallel(std::int32_t) const { return true; }
  Cost with_context_parallell(std::int32_t) const { return *this; }
};

int main() { slimpack::require_features<slimpack::Mergeable>(Cost{}); }
