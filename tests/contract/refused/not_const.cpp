// refused: Layered needs: layers() const
#include <vector>

#include "slimpack/cost/features.hpp"

struct Cost {
  std::size_t stages() const { return 1; }
  double slice_seconds(std::size_t, slimpack::Tokens, slimpack::Tokens, slimpack::Pass) const { return 0.0; }
  double pack_seconds(std::size_t, slimpack::Pass) const { return 0.0; }
  double transfer_seconds(std::size_t, slimpack::Tokens, slimpack::Pass) const { return 0.0; }
  std::vector<std::int32_t> layers() { return {1}; }
};

int main() { slimpack::require_features<slimpack::Layered>(Cost{}); }
