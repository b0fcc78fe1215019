// Runs Catch2's tests as one rank of an MPI run. Usage: train [Catch2's options]
#include <stdexcept>

#include "tests/catch.hpp"
#include "tests/kernels/mpi/train.hpp"

namespace slimpack::testing {
kernels::MpiTransport* own_rank = nullptr;
}

int main(int argc, char** argv) {
  return slimpack::kernels::run_mpi([&](slimpack::kernels::MpiTransport& t) {
    slimpack::testing::own_rank = &t;
    if (slimpack::testing::run_tests(argc, argv) != 0) throw std::runtime_error("a test failed");
  });
}
