// Catch2's runner takes long to compile: it is compiled once, and every test binary links it.
#define CATCH_CONFIG_RUNNER
#include "tests/catch.hpp"

#include <catch2/catch.hpp>

int slimpack::testing::run_tests(int argc, char** argv) { return Catch::Session().run(argc, argv); }
