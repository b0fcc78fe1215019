#include "kernels/arrivals.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/model/presets.hpp"
#include "slimpack/planners/megatron.hpp"
#include "tests/exec/plans.hpp"

using namespace slimpack;
using namespace slimpack::kernels;

namespace {

/// Runs a plan as devices do that send rows by ways without tags: each way in one order; a send until its
/// receive has been queued and its place is free; tasks two apart in the same memory; merged tasks of all
/// members at once.
class Devices {
 public:
  explicit Devices(const Plan& plan) : table_(plan) {
    for (std::size_t r = 0; r < table_.size(); ++r) {
      const auto [p, s, tensor] = table_.place_of(r);
      Rank& rank = ranks_.emplace_back();
      rank.program.emplace(plan, p, s);
      const auto& order = plan.pipelines[p].order;
      if (s > 0) rank.boxes[0] = {arrivals_of(*rank.program, order[s - 1], Pass::forward), 0};
      if (s + 1 < order.size()) rank.boxes[1] = {arrivals_of(*rank.program, order[s + 1], Pass::backward), 0};
      for (std::size_t i = 0; i < rank.program->tasks().size(); ++i) {
        const StageTask& task = rank.program->tasks()[i];
        rank.at[{task.pass, task.pack}] = i;
      }
    }
  }

  /// @returns an empty text once all tasks are done, or where ranks stand.
  std::string run() {
    while (step()) {
    }
    std::string stuck;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto tasks = ranks_[r].program->tasks();
      if (ranks_[r].done < tasks.size())
        stuck += concat("rank ", r, " stands before ", to_string(tasks[ranks_[r].done]), "; ");
      for (const Box& box : ranks_[r].boxes) {
        if (box.received < box.arrivals.all.size()) stuck += concat("rank ", r, " has not received all; ");
      }
    }
    return stuck;
  }

  /// Receives that wait for a task which the rows' sending, by the plan alone, does not come after. Call it
  /// after `run`.
  [[nodiscard]] std::size_t waits_of_their_own() const {
    std::size_t found = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::size_t b = 0; b < 2; ++b) {
        const std::size_t from = sender_of(r, b);
        const Pass pass = b == 0 ? Pass::forward : Pass::backward;
        for (const Arrival& arrival : ranks_[r].boxes[b].arrivals.all) {
          const Rank& sender = ranks_[from];
          found += arrival.after > sender.before[sender.at.at({pass, arrival.pack})][r] ? 1 : 0;
        }
      }
    }
    return found;
  }

  [[nodiscard]] std::size_t places(std::size_t rank, std::size_t box) const {
    return ranks_[rank].boxes[box].arrivals.places.size();
  }

 private:
  struct Box {
    Arrivals arrivals;
    std::size_t received = 0;
  };
  struct Rank {
    std::optional<StageProgram> program;
    std::array<Box, 2> boxes;
    std::map<std::pair<Pass, PackId>, std::size_t> at;
    std::size_t done = 0;
    std::vector<std::vector<std::size_t>> before;  ///< by task: tasks of each rank that it comes after
  };

  bool step() {
    bool moved = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::size_t b = 0; b < 2; ++b) moved = receive(r, b) || moved;
      moved = compute(r) || moved;
    }
    return moved;
  }

  bool receive(std::size_t r, std::size_t b) {
    Rank& rank = ranks_[r];
    Box& box = rank.boxes[b];
    if (box.received == box.arrivals.all.size()) return false;
    const Arrival& next = box.arrivals.all[box.received];
    const Rank& sender = ranks_[sender_of(r, b)];
    const Pass pass = b == 0 ? Pass::forward : Pass::backward;
    if (next.after > rank.done) return false;
    if (sender.done <= sender.at.at({pass, next.pack})) return false;
    ++box.received;
    return true;
  }

  /// Whether what the task sends has been received.
  [[nodiscard]] bool sent(std::size_t r, const StageTask& task) const {
    const bool forward = task.pass == Pass::forward;
    if (task.pass == Pass::weight || task.owned_tokens == 0 || (forward ? last(r) : first(r))) return true;
    return arrived(sender_of(r, forward ? 1 : 0), forward ? 0 : 1, task.pack);
  }
  [[nodiscard]] bool arrived(std::size_t r, std::size_t b, PackId pack) const {
    const Box& box = ranks_[r].boxes[b];
    for (std::size_t i = 0; i < box.received; ++i) {
      if (box.arrivals.all[i].pack == pack) return true;
    }
    return false;
  }

  [[nodiscard]] bool ready(std::size_t r, const StageTask& task) const {
    const Rank& rank = ranks_[r];
    if (rank.done == rank.program->tasks().size()) return false;
    const StageTask& next = rank.program->tasks()[rank.done];
    if (next.pass != task.pass || next.pack != task.pack) return false;
    std::size_t before = 0;
    for (std::size_t i = rank.done; i-- > 0 && before < 2;) {
      if (rank.program->tasks()[i].pass == Pass::weight) continue;
      if (++before == 2 && !sent(r, rank.program->tasks()[i])) return false;
    }
    if (next.owned_tokens == 0 || next.pass == Pass::weight) return true;
    if (next.pass == Pass::forward) return first(r) || arrived(r, 0, next.pack);
    return last(r) || arrived(r, 1, next.pack);
  }

  /// Adds what a rank's task comes after: what its rank has done, and what has made its rows.
  void come_after(std::size_t r, const StageTask& task, std::vector<std::size_t>& before) const {
    const auto add = [&](std::size_t rank, std::size_t index) {
      for (std::size_t i = 0; i < before.size(); ++i)
        before[i] = std::max(before[i], ranks_[rank].before[index][i]);
      before[rank] = std::max(before[rank], index + 1);
    };
    if (ranks_[r].done > 0) add(r, ranks_[r].done - 1);
    const bool forward = task.pass == Pass::forward;
    const StageTask& own = ranks_[r].program->tasks()[ranks_[r].done];
    if (task.pass == Pass::weight || own.owned_tokens == 0 || (forward ? first(r) : last(r))) return;
    const std::size_t from = sender_of(r, forward ? 0 : 1);
    add(from, ranks_[from].at.at({task.pass, task.pack}));
  }

  bool compute(std::size_t r) {
    const Rank& rank = ranks_[r];
    if (rank.done == rank.program->tasks().size()) return false;
    const StageTask& task = rank.program->tasks()[rank.done];
    for (const PipelineId member : task.members) {
      if (!ready(beside(r, member), task)) return false;
    }
    std::vector<std::size_t> before(ranks_.size());
    for (const PipelineId member : task.members) come_after(beside(r, member), task, before);
    for (const PipelineId member : task.members) {
      Rank& one = ranks_[beside(r, member)];
      one.before.push_back(before);
      ++one.done;
    }
    return true;
  }

  [[nodiscard]] bool first(std::size_t r) const { return ranks_[r].program->first(); }
  [[nodiscard]] bool last(std::size_t r) const { return ranks_[r].program->last(); }
  /// Rank that fills a box: of the stage before, or of the next one.
  [[nodiscard]] std::size_t sender_of(std::size_t r, std::size_t box) const {
    return box == 0 ? ranks_[r].program->rank_before() : ranks_[r].program->rank_after();
  }
  /// Rank of the same stage of another pipeline.
  [[nodiscard]] std::size_t beside(std::size_t r, PipelineId pipeline) const {
    return table_.rank_of({pipeline, table_.place_of(r).stage});
  }

  PlanRanks table_;
  std::deque<Rank> ranks_;
};

}  // namespace

TEST_CASE("rows that arrive have places of their own, and no plan stands still for them") {
  slimpack::testing::for_each_plan(60, [](const Plan& plan) {
    for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
      const auto& order = plan.pipelines[p].order;
      for (std::size_t s = 1; s < order.size(); ++s) {
        const StageProgram program(plan, static_cast<PipelineId>(p), s);
        const Arrivals arrivals = arrivals_of(program, order[s - 1], Pass::forward);
        std::size_t expected = 0;
        for (const StageTask& task : program.tasks())
          expected += task.pass == Pass::forward && task.owned_tokens > 0 ? 1 : 0;
        CHECK(arrivals.all.size() == expected);
        std::vector<std::size_t> last(arrivals.places.size());  // tasks up to a place's last reader
        for (const Arrival& arrival : arrivals.all) {
          const StageTask& reader = program.tasks()[arrival.reader];
          CHECK(reader.pass == Pass::forward);
          CHECK(reader.pack == arrival.pack);
          CHECK(arrival.tokens == reader.owned_tokens);
          CHECK(arrivals.places[arrival.place] >= arrival.tokens);
          CHECK(arrival.after == last[arrival.place]);
          CHECK(arrival.after <= arrival.reader);
          last[arrival.place] = arrival.reader + 1;
        }
      }
    }
    Devices devices(plan);
    REQUIRE(devices.run() == "");
    CHECK(devices.waits_of_their_own() == 0);
  });
}

TEST_CASE("in 1F1B as many places take arriving rows as the sender has packs in flight") {
  const Job job{{"small", 8, 64, 1, 1, 64, 64, 64}, device_preset("cpu"), {.dp = 1, .pp = 4}};
  const std::vector<Tokens> lengths(32, 64);
  const Plan plan = plan_megatron(lengths, job, CalibratedCost(job),
                                  TransformerMemory(job, {.reserve_bytes = 0.0}), {.context = 64});
  REQUIRE(plan.forward.packs.size() == 32);
  Devices devices(plan);
  CHECK(devices.run() == "");
  for (std::size_t stage = 1; stage < 4; ++stage) {
    INFO("stage " << stage);
    CHECK(devices.places(stage, 0) == 4 - (stage - 1));
  }
}

TEST_CASE("a sender keeps rows where its receiver's places say that they have gone") {
  slimpack::testing::for_each_plan(60, [](const Plan& plan) {
    for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
      const auto& order = plan.pipelines[p].order;
      const auto check_same = [&](std::size_t from, std::size_t to, Pass pass) {
        const StageProgram sender(plan, static_cast<PipelineId>(p), from),
            receiver(plan, static_cast<PipelineId>(p), to);
        const Arrivals gone = departures_of(sender, order[to], pass),
                       expected = arrivals_of(receiver, order[from], pass);
        INFO("pipeline " << p << ", from stage " << from << " to " << to);
        CHECK(gone.places == expected.places);
        REQUIRE(gone.all.size() == expected.all.size());
        for (std::size_t i = 0; i < gone.all.size(); ++i) {
          const Arrival &a = gone.all[i], &b = expected.all[i];
          CHECK((a.pack == b.pack && a.tokens == b.tokens && a.place == b.place && a.reader == b.reader));
        }
      };
      for (std::size_t s = 1; s < order.size(); ++s) {
        check_same(s - 1, s, Pass::forward);
        check_same(s, s - 1, Pass::backward);
      }
    }
  });
}
