// refused: Exchanging needs: ExchangeSet exchanges() const
#include "least_models.hpp"
#include "slimpack/cost/features.hpp"

struct Cost : LeastCost {
  slimpack::ExchangeSet exchangess() const { return {slimpack::KeyExchange::ring}; }
  Cost with_exchange(slimpack::KeyExchange) const { return *this; }
};

int main() { slimpack::require_features<slimpack::Exchanging>(Cost{}); }
