#include "slimpack/planners/tried_cuts.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "slimpack/partition/groups.hpp"
#include "slimpack/slicing/group_cutter.hpp"

namespace {

using slimpack::BackwardPacks;
using slimpack::GroupCut;
using slimpack::SampleGroup;
using slimpack::TriedCuts;

/// Groups of which no two have the same samples in the same places.
std::vector<SampleGroup> different_groups() {
  return {
      {.first = 0, .merged = {}, .local = {{1, 2}}},     {.first = 0, .merged = {1, 2}, .local = {{}}},
      {.first = 0, .merged = {1}, .local = {{2}}},       {.first = 0, .merged = {}, .local = {{2, 1}}},
      {.first = 0, .merged = {}, .local = {{1}, {2}}},   {.first = 0, .merged = {}, .local = {{}, {1, 2}}},
      {.first = 0, .merged = {}, .local = {{1, 2}, {}}}, {.first = 0, .merged = {}, .local = {{}}}};
}

/// Cuts that all differ.
std::vector<GroupCut> different_cuts() {
  return {{.packs = 3},
          {.packs = 4},
          {.packs = 3, .tile = 64},
          {.packs = 3, .backward = BackwardPacks::mirrored},
          {.packs = 3, .backward = BackwardPacks::mirrored_apart},
          {.packs = 3, .fill = false},
          {.packs = 3, .exact = true},
          {.packs = 3, .one_member = true}};
}

}  // namespace

TEST_CASE("Each cut of each group is remembered on its own", "[tried_cuts]") {
  TriedCuts tried;
  double seconds = 0.0;
  for (const SampleGroup& group : different_groups()) {
    tried.load(group);
    for (const GroupCut& cut : different_cuts()) {
      CHECK(tried.least_seconds(cut) == 0.0);
      tried.least_seconds(cut) = ++seconds;
    }
  }
  double expected = 0.0;
  for (const SampleGroup& group : different_groups()) {
    tried.load(group);
    for (const GroupCut& cut : different_cuts()) CHECK(tried.least_seconds(cut) == ++expected);
  }
}

TEST_CASE("The same samples on other pipelines are the same group", "[tried_cuts]") {
  TriedCuts tried;
  for (SampleGroup group : different_groups()) {
    const GroupCut cut{.packs = 3};
    tried.load(group);
    tried.least_seconds(cut) = 7.0;
    group.first = 5;
    tried.load(group);
    CHECK(tried.least_seconds(cut) == 7.0);
  }
}
