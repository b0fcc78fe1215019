// refused: Recomputing needs: double recompute_seconds(std::size_t stage, Tokens begin, Tokens end) const
#include "least_models.hpp"
#include "slimpack/cost/features.hpp"

struct Cost : LeastCost {
  double recompute_second(std::size_t, slimpack::Tokens, slimpack::Tokens) const { return 0.0; }
};

int main() { slimpack::require_features<slimpack::Recomputing>(Cost{}); }
