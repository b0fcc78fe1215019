#include <cstdio>

#include "slimpack/core/error.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/version.hpp"

#ifdef CONSUMER_JSON
#include <nlohmann/json.hpp>
#endif
#ifdef CONSUMER_EIGEN
#include <Eigen/Core>
#endif
#ifdef CONSUMER_BOOST
#include <boost/graph/graph_traits.hpp>
#endif

static_assert(__cplusplus >= 202002L, "slimpack::slimpack asks for C++20");

int main() {
  try {
    slimpack::require(slimpack::version_major > 0, "version ", slimpack::version_major);
  } catch (const slimpack::InvalidInput& error) {
    std::puts(error.what());
    return 0;
  }
  return 1;
}
