#include "tests/catch.hpp"

int main(int argc, char** argv) { return slimpack::testing::run_tests(argc, argv); }
