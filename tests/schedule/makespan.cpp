#include "slimpack/schedule/makespan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace slimpack;

namespace {

/// Packs of equal duration in 1F1B order.
PipelineTimes uniform(std::size_t packs, std::size_t stages, double forward, double backward,
                      double transfer) {
  PipelineTimes times;
  times.forward = {std::vector<double>(packs * stages, forward), std::vector<double>(packs, transfer)};
  times.backward = {std::vector<double>(packs * stages, backward), std::vector<double>(packs, transfer)};
  std::vector<std::uint32_t> required;
  for (std::uint32_t k = 1; k <= packs; ++k) required.push_back(k);
  packflow_leads(required, packs, stages, times.leads);
  return times;
}

double one(const PipelineTimes& times, std::size_t stages) {
  return GroupMakespan()({.merged_forward = {}, .merged_backward = {}, .members = {times}}, stages);
}

/// A group of random pipelines in PackFlow order.
struct Group {
  GroupTimes times;
  std::size_t stages = 1;
};

Group random_group(std::mt19937& random) {
  const auto pick = [&](int lo, int hi) {
    return static_cast<std::size_t>(std::uniform_int_distribution<int>(lo, hi)(random));
  };
  std::exponential_distribution<double> seconds(1.0);
  Group group;
  const std::size_t members = pick(1, 4);
  group.stages = pick(1, 5);
  const std::size_t merged_forward = members > 1 ? pick(1, 5) : 0,
                    merged_backward = members > 1 ? pick(1, 5) : 0;
  std::vector<std::uint32_t> merged_required;
  for (std::size_t k = 0; k < merged_backward; ++k)
    merged_required.push_back(static_cast<std::uint32_t>(pick(1, static_cast<int>(merged_forward))));
  std::sort(merged_required.begin(), merged_required.end());
  if (!merged_required.empty()) merged_required.back() = static_cast<std::uint32_t>(merged_forward);
  const auto append = [&](PassTimes& pass, std::size_t packs) {
    for (std::size_t i = 0; i < packs * group.stages; ++i) pass.seconds.push_back(seconds(random));
    for (std::size_t i = 0; i < packs; ++i) pass.transfer.push_back(0.2 * seconds(random));
  };
  append(group.times.merged_forward, merged_forward);
  append(group.times.merged_backward, merged_backward);
  for (std::size_t i = 0; i < members; ++i) {
    PipelineTimes times;
    // Without a merged pack a member has to have packs of its own.
    const std::size_t forward = pick(members > 1 ? 0 : 1, 7);
    const std::size_t backward = forward == 0 ? 0 : pick(1, 7);
    append(times.forward, forward);
    append(times.backward, backward);
    const std::size_t all = merged_forward + forward;
    std::vector<std::uint32_t> required = merged_required;
    for (std::size_t k = 0; k < backward; ++k) {
      required.push_back(
          static_cast<std::uint32_t>(pick(static_cast<int>(merged_forward) + 1, static_cast<int>(all))));
    }
    std::sort(required.begin(), required.end());
    required.back() = static_cast<std::uint32_t>(all);
    packflow_leads(required, all, group.stages, times.leads);
    group.times.members.push_back(std::move(times));
  }
  return group;
}

/// A member's packs of one pass, merged ones first.
PassTimes with_merged(const PassTimes& merged, const PassTimes& own) {
  PassTimes all = merged;
  all.seconds.insert(all.seconds.end(), own.seconds.begin(), own.seconds.end());
  all.transfer.insert(all.transfer.end(), own.transfer.begin(), own.transfer.end());
  return all;
}

/// Runs a group task by task: again and again, any stage whose next task has what it waits for. NaN if stuck.
double simulate(const Group& group) {
  const std::size_t members = group.times.members.size(), stages = group.stages;
  struct Stage {
    std::vector<Task> order;
    std::size_t next = 0;
    double free = 0.0;
  };
  std::vector<std::vector<Stage>> all(members, std::vector<Stage>(stages));
  std::vector<PassTimes> times[2];                        // [pass][member]
  std::vector<std::vector<std::vector<double>>> done[2];  // [pass][member][pack][stage]
  std::size_t left = 0;
  for (std::size_t i = 0; i < members; ++i) {
    const PipelineTimes& own = group.times.members[i];
    times[0].push_back(with_merged(group.times.merged_forward, own.forward));
    times[1].push_back(with_merged(group.times.merged_backward, own.backward));
    for (std::size_t s = 0; s < stages; ++s) {
      for_each_task(own.leads, s, [&](Task task) { all[i][s].order.push_back(task); });
      left += all[i][s].order.size();
    }
    for (const int pass : {0, 1})
      done[pass].emplace_back(times[pass][i].packs(), std::vector<double>(stages, -1.0));
  }
  double end = 0.0;
  const auto try_start = [&](std::size_t i, std::size_t s) {
    if (all[i][s].next == all[i][s].order.size()) return false;
    const Task task = all[i][s].order[all[i][s].next];
    const bool forward = task.pass == Pass::forward;
    const int pass = forward ? 0 : 1;
    const bool merged =
        task.pack < (forward ? group.times.merged_forward : group.times.merged_backward).packs();
    std::vector<std::size_t> runs{i};
    if (merged) {
      runs.clear();
      for (std::size_t m = 0; m < members; ++m) runs.push_back(m);
    }
    double start = 0.0;
    for (const std::size_t m : runs) {
      const Stage& stage = all[m][s];
      if (stage.next == stage.order.size() || !(stage.order[stage.next] == task)) return false;
      start = std::max(start, stage.free);
      if (forward ? s == 0 : s + 1 == stages) continue;
      const double before = done[pass][m][task.pack][forward ? s - 1 : s + 1];
      if (before < 0.0) return false;
      start = std::max(start, before + times[pass][m].transfer[task.pack]);
    }
    const double finish = start + times[pass][i].seconds[task.pack * stages + s];
    for (const std::size_t m : runs) {
      all[m][s].free = finish;
      ++all[m][s].next;
      done[pass][m][task.pack][s] = finish;
      --left;
    }
    end = std::max(end, finish);
    return true;
  };
  for (bool moved = true; left > 0 && moved;) {
    moved = false;
    for (std::size_t i = 0; i < members; ++i) {
      for (std::size_t s = 0; s < stages; ++s) moved = try_start(i, s) || moved;
    }
  }
  return left == 0 ? end : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

TEST_CASE("equal packs in 1F1B take the closed form's time") {
  for (std::size_t stages = 1; stages <= 6; ++stages) {
    for (std::size_t packs = stages; packs <= 12; ++packs) {
      const double steady = static_cast<double>(packs + stages - 1) * (2.0 + 3.0);
      CHECK(one(uniform(packs, stages, 2.0, 3.0, 0.0), stages) == Approx(steady).epsilon(1e-14));
    }
  }
}

TEST_CASE("a single pack passes all stages and all transfers twice, but the last stage's") {
  CHECK(one(uniform(1, 4, 2.0, 3.0, 0.5), 4) == Approx(4 * 5.0 + 6 * 0.5).epsilon(1e-14));
}

TEST_CASE("merged packs start when the slowest member is there") {
  // Two members on one stage: a merged forward, a merged backward, and 3 + 4 seconds of the second's own.
  const PipelineTimes merged = uniform(1, 1, 1.0, 2.0, 0.0);
  GroupTimes group{merged.forward, merged.backward, std::vector<PipelineTimes>(2)};
  group.members[0].leads = merged.leads;
  PipelineTimes& second = group.members[1];
  second.forward = {{3.0}, {0.0}};
  second.backward = {{4.0}, {0.0}};
  packflow_leads(std::vector<std::uint32_t>{1, 2}, 2, 1, second.leads);
  CHECK(GroupMakespan()(group, 1) == Approx(10.0).epsilon(1e-14));
  // If the member runs its own forward pack ahead of the merged backward pack, the other waits for it.
  second.leads(0, 0) = 2;
  second.backward.seconds[0] = 0.5;
  CHECK(GroupMakespan()(group, 1) == Approx(6.5).epsilon(1e-14));
}

TEST_CASE("the makespan of a group is that of running it task by task") {
  std::mt19937 random(21);
  GroupMakespan makespan;  // one for all, so that nothing may be left over from the instance before
  int merged = 0;
  for (int instance = 0; instance < 3000; ++instance) {
    INFO("instance " << instance);
    const Group group = random_group(random);
    CHECK(makespan(group.times, group.stages) == Approx(simulate(group)).epsilon(1e-12));
    merged += group.times.merged_forward.packs() > 0 ? 1 : 0;
  }
  CHECK(merged > 1000);
}
