// refused: Recomputing needs: double recompute_seconds(std::size_t stage, Tokens begin, Tokens end) const
#include "slimpack/cost/features.hpp"

struct Cost {
  std::size_t stages() const { return 1; }
  double slice_seconds(std::size_t, slimpack::Tokens, slimpack::Tokens, slimpack::Pass) const { return 0.0; }
  double pack_seconds(std::size_t, slimpack::Pass) const { return 0.0; }
  double transfer_seconds(std::size_t, slimpack::Tokens, slimpack::Pass) const { return 0.0; }
  double recompute_second(std::size_t, slimpack::Tokens, slimpack::Tokens) const { return 0.0; }
};

int main() { slimpack::require_features<slimpack::Recomputing>(Cost{}); }
