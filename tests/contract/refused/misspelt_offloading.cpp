// refused: Offloading needs: double offload_seconds(std::size_t stage, Tokens tokens, Pass) const
#include "least_models.hpp"
#include "slimpack/cost/features.hpp"

struct Cost : LeastCost {
  double ofload_seconds(std::size_t, slimpack::Tokens, slimpack::Pass) const { return 0.0; }
};

int main() { slimpack::require_features<slimpack::Offloading>(Cost{}); }
