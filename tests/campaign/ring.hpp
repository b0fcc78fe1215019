#pragma once

#include <type_traits>

namespace campaign {

namespace detail {

template <class Set, class Exchange>
void keep_ring(Set& set, bool (Set::*)(Exchange) const) {
  set = {Exchange::ring};
}

}  // namespace detail

/// Lets keys go round a ring, and nothing else. Earlier versions took one exchange.
template <class O>
void allow_ring_alone(O& options) {
  if constexpr (requires { options.exchanges; }) {
    detail::keep_ring(options.exchanges, &std::remove_cvref_t<decltype(options.exchanges)>::contains);
  } else {
    options.exchange = decltype(options.exchange)::ring;
  }
}

}  // namespace campaign
