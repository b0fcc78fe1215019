#include "slimpack/exec/agreement.hpp"

#include <barrier>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "slimpack/exec/program.hpp"
#include "slimpack/exec/whole_stages.hpp"
#include "tests/exec/plans.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;

namespace {

/// What each rank is told when the ranks hold these hashes.
std::vector<std::string> answers(const std::vector<std::uint64_t>& own, std::size_t ranks_of_plan) {
  std::vector<std::uint64_t> shown(own.size());
  std::vector<std::string> result(own.size());
  std::barrier all(std::ssize(own));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto all_gather = [&](std::uint64_t hash) {
        shown[rank] = hash;
        all.arrive_and_wait();
        return shown;
      };
      try {
        agree_on_plan(own[rank], ranks_of_plan, all_gather);
      } catch (const InvalidInput& error) {
        result[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

}  // namespace

TEST_CASE("ranks that hold the same plan agree", "[threads]") {
  const Plan plan = whole_stages(testing::sample_plan());
  const std::size_t ranks = rank_count(plan);
  REQUIRE(ranks == 6);
  const std::vector<std::uint64_t> hashes(ranks, plan_hash(plan));
  CHECK(answers(hashes, ranks) == std::vector<std::string>(ranks));
}

TEST_CASE("a rank with another plan is named on every rank", "[threads]") {
  CHECK(answers({5, 5, 0xabc, 5}, 4) ==
        std::vector<std::string>(4,
                                 "ranks do not agree on the plan: rank 2 has plan 0000000000000abc; expected "
                                 "plan 0000000000000005 as on the other 3 of 4 ranks"));
}

TEST_CASE("a rank without a plan is named on every rank", "[threads]") {
  CHECK(answers({0, 5}, 2) ==
        std::vector<std::string>(2,
                                 "ranks do not agree on the plan: rank 0 has no plan; expected plan "
                                 "0000000000000005 as on the other 1 of 2 ranks"));
  CHECK(answers({0, 0, 0, 7}, 4)[1] ==
        "ranks do not agree on the plan: rank 0 has no plan, rank 1 has no plan, rank 2 has no plan; "
        "expected plan 0000000000000007 as on the other 1 of 4 ranks");
  CHECK(answers({0, 0}, 2)[1] == "no rank has a plan; expected the same one on all 2 ranks");
}

TEST_CASE("of equally many, the lowest rank's plan is the one expected") {
  CHECK_THROWS_WITH(
      require_agreement(std::vector<std::uint64_t>{9, 3, 3, 9}, 4),
      Catch::StartsWith("ranks do not agree on the plan: rank 1 has plan 0000000000000003, rank "
                        "2 has plan"));
}

TEST_CASE("many ranks that differ are counted, not listed") {
  std::vector<std::uint64_t> hashes(100, 1);
  for (std::size_t i = 50; i < 90; ++i) hashes[i] = i;
  CHECK_THROWS_WITH(require_agreement(hashes, 100), Catch::Contains("rank 57 has plan 0000000000000039 and "
                                                                    "32 more differ; expected plan") &&
                                                        Catch::EndsWith("as on the other 60 of 100 ranks"));
}

TEST_CASE("a wrong number of ranks is an error on every rank", "[threads]") {
  CHECK(answers({5, 5}, 6) ==
        std::vector<std::string>(2, "there are 2 ranks; expected the 6 that the plan is for"));
  CHECK_THROWS_WITH(require_agreement({}, 6), "no rank has shown a plan; expected 6 ranks");
}

TEST_CASE("an error of the exchange reaches the caller") {
  const auto fails = [](std::uint64_t) -> std::vector<std::uint64_t> {
    throw std::runtime_error("a peer is gone");
  };
  CHECK_THROWS_WITH(agree_on_plan(1, 1, fails), "a peer is gone");
}
