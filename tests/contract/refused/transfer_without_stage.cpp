// refused: a cost model needs: double transfer_seconds(std::size_t stage, Tokens tokens, Pass) const
#include "least_models.hpp"
#include "slimpack/cost/features.hpp"

struct Cost : LeastCost {
  double transfer_seconds(slimpack::Tokens, slimpack::Pass) const { return 0.0; }
};

int main() { slimpack::require_features<>(Cost{}); }
