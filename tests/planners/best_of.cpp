#include "slimpack/planners/best_of.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

TEST_CASE("the best of candidates is the first of the shortest, and each is told what it has to beat") {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  struct Candidate {
    double seconds = infinite;
    int number = 0;
  };
  std::vector<double> limits;
  const auto takes = [&](double seconds, int number) {
    return [&limits, seconds, number](double most) {
      limits.push_back(most);
      return Candidate{seconds, number};
    };
  };
  using slimpack::detail::best_of;
  CHECK(best_of<Candidate>(takes(3.0, 1), takes(infinite, 2), takes(2.0, 3), takes(2.0, 4), takes(5.0, 5))
            .number == 3);
  CHECK(limits == std::vector<double>{infinite, 3.0, 3.0, 2.0, 2.0});
  CHECK(best_of<Candidate>(takes(infinite, 1), takes(infinite, 2)).number == 0);
  CHECK(best_of<Candidate>().seconds == infinite);
}
