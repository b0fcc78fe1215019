// Catch2's main takes seconds to compile: it is compiled once, and every test binary links it.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
