// refused: Exchanging needs: ExchangeSet exchanges() const
#include "slimpack/cost/features.hpp"

struct Cost {
  std::size_t stages() const { return 1; }
  double slice_seconds(std::size_t, slimpack::Tokens, slimpack::Tokens, slimpack::Pass) const { return 0.0; }
  double pack_seconds(std::size_t, slimpack::Pass) const { return 0.0; }
  double transfer_seconds(std::size_t, slimpack::Tokens, slimpack::Pass) const { return 0.0; }
  slimpack::ExchangeSet exchangess() const { return {slimpack::KeyExchange::ring}; }
  Cost with_exchange(slimpack::KeyExchange) const { return *this; }
};

int main() { slimpack::require_features<slimpack::Exchanging>(Cost{}); }
