// refused: Layered needs: layers() const
#include <vector>

#include "least_models.hpp"
#include "slimpack/cost/features.hpp"

struct Cost : LeastCost {
  std::vector<std::int32_t> layers() { return {1}; }
};

int main() { slimpack::require_features<slimpack::Layered>(Cost{}); }
