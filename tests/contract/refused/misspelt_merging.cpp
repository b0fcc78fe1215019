// refused: Mergeable needs: with_context_parallel(std::int32_t group) const
#include "slimpack/cost/features.hpp"

struct Cost {
  std::size_t stages() const { return 1; }
  double slice_seconds(std::size_t, slimpack::Tokens, slimpack::Tokens, slimpack::Pass) const { return 0.0; }
  double pack_seconds(std::size_t, slimpack::Pass) const { return 0.0; }
  double transfer_seconds(std::size_t, slimpack::Tokens, slimpack::Pass) const { return 0.0; }
  bool supports_context_parallel(std::int32_t) const { return true; }
  Cost with_context_parallell(std::int32_t) const { return *this; }
};

int main() { slimpack::require_features<slimpack::Mergeable>(Cost{}); }
