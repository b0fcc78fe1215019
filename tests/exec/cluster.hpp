#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "slimpack/exec/loop.hpp"
#include "tests/exec/planned_owners.hpp"

// Runs all ranks of a plan as threads, with channels of both extremes.
namespace slimpack::testing {

enum class Channel {
  buffered,    ///< a send is complete at once
  rendezvous,  ///< a send is complete when it has been received
};

/// What moves between two stages: for each row its sample and token, and how far it has come.
struct Message {
  std::vector<std::pair<SampleId, Tokens>> rows;
  std::size_t hops = 0;

  friend bool operator==(const Message&, const Message&) = default;
};

/// Mailboxes of all ranks. Ranks that all wait for each other are seen as soon as the last of them begins to
/// wait, without a clock: the run of all ends with a report of what each of them waited for.
class Mailboxes {
 public:
  Mailboxes(Channel channel, std::size_t ranks) : channel_(channel), ranks_(ranks) {}

  void send(std::size_t from, std::size_t to, std::uint64_t tag, Message message) {
    const std::lock_guard lock(mutex_);
    Box& box = boxes_[{from, to, tag}];
    if (box.sent) throw std::logic_error("sent twice");
    box.sent = true;
    box.message = std::move(message);
    changed_.notify_all();
  }

  void post(std::size_t from, std::size_t to, std::uint64_t tag) {
    const std::lock_guard lock(mutex_);
    Box& box = boxes_[{from, to, tag}];
    if (box.posted) throw std::logic_error("posted twice");
    box.posted = true;
    changed_.notify_all();
  }

  Message receive(std::size_t from, std::size_t to, std::uint64_t tag, const std::string& what) {
    std::unique_lock lock(mutex_);
    Box& box = boxes_[{from, to, tag}];
    if (!box.posted) throw std::logic_error("received without being posted");
    wait(lock, to, what, [&] { return box.sent; });
    box.received = true;
    changed_.notify_all();
    return std::move(box.message);
  }

  /// Until all sends of a rank are complete.
  void complete_sends(std::size_t rank) {
    std::unique_lock lock(mutex_);
    wait(lock, rank, "its sends", [&] {
      for (const auto& [key, box] : boxes_) {
        if (std::get<0>(key) == rank && channel_ == Channel::rendezvous && box.sent && !box.received)
          return false;
      }
      return true;
    });
  }

  /// Members of a merged task meet here, and leave together.
  void meet(std::size_t rank, const std::string& where, std::size_t members) {
    std::unique_lock lock(mutex_);
    std::size_t& here = meetings_[where];
    ++here;
    changed_.notify_all();
    wait(lock, rank, "members of " + where, [&] { return here == members; });
  }

  /// A rank waits no more, and sends nothing more. @param failed which ends the run of all others.
  void leave(std::size_t rank, bool failed) {
    const std::lock_guard lock(mutex_);
    ranks_[rank].left = true;
    if (failed) fail("another rank failed");
    look_for_deadlock();
  }

 private:
  struct Box {
    bool sent = false, posted = false, received = false;
    Message message;
  };

  struct Rank {
    bool left = false;
    std::string waits_for;
    std::function<bool()> ready;
  };

  template <class F>
  void wait(std::unique_lock<std::mutex>& lock, std::size_t rank, const std::string& what, F&& ready) {
    ranks_[rank].waits_for = what;
    ranks_[rank].ready = ready;
    look_for_deadlock();
    changed_.wait(lock, [&] { return !failure_.empty() || ready(); });
    ranks_[rank].ready = {};
    if (!failure_.empty()) throw std::runtime_error(failure_);
  }

  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
    changed_.notify_all();
  }

  void look_for_deadlock() {
    std::string report;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Rank& rank = ranks_[r];
      if (rank.left) continue;
      if (!rank.ready || rank.ready()) return;
      report += " rank " + std::to_string(r) + " waits for " + rank.waits_for + ";";
    }
    if (!report.empty()) fail("stuck:" + report);
  }

  Channel channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<std::size_t, std::size_t, std::uint64_t>, Box> boxes_;
  std::map<std::string, std::size_t> meetings_;
  std::vector<Rank> ranks_;
  std::string failure_;
};

/// A trainer that computes nothing but checks what reaches it. Throws on a wrong message.
class CheckingTrainer {
 public:
  CheckingTrainer(const StageProgram& program, Mailboxes& mail)
      : program_(program), mail_(mail), owners_(program.plan(), 4) {}

  void post_receive_activations(const StageTask& task) {
    mail_.post(program_.rank_before(), rank(), tag(task));
  }
  void post_receive_gradients(const StageTask& task) { mail_.post(program_.rank_after(), rank(), tag(task)); }
  void receive_activations(const StageTask& task) { receive(program_.rank_before(), task, program_.stage()); }
  void receive_gradients(const StageTask& task) {
    receive(program_.rank_after(), task, program_.stages() - 1 - program_.stage());
  }
  void send_activations(const StageTask& task) {
    mail_.send(rank(), program_.rank_after(), tag(task), {rows(task), program_.stage() + 1});
  }
  void send_gradients(const StageTask& task) {
    mail_.send(rank(), program_.rank_before(), tag(task), {rows(task), program_.stages() - program_.stage()});
  }
  void forward(const StageTask& task) { run(task); }
  void recompute(const StageTask&) {}
  void backward(const StageTask& task) { run(task); }
  void weight(const StageTask&) { ++done; }
  void release(const StageTask&) {}
  void end_of_step() { mail_.complete_sends(rank()); }

  std::size_t done = 0;
  std::function<void(const StageTask&)> before_task;

 private:
  [[nodiscard]] std::size_t rank() const { return program_.rank(); }
  static std::uint64_t tag(const StageTask& task) { return message_tag(task.pass, task.pack); }

  [[nodiscard]] std::vector<std::pair<SampleId, Tokens>> rows(const StageTask& task) const {
    std::vector<std::pair<SampleId, Tokens>> result;
    for (const Slice& slice : task.slices) {
      for (Tokens t = slice.begin; t < slice.end; ++t) {
        if (owners_.of(slice.sample, t) == task.member) result.emplace_back(slice.sample, t);
      }
    }
    return result;
  }

  void receive(std::size_t from, const StageTask& task, std::size_t hops) {
    const Message message = mail_.receive(from, rank(), tag(task), to_string(task));
    if (message != Message{rows(task), hops})
      throw std::logic_error("a wrong message for " + to_string(task));
    if (std::ssize(message.rows) != task.owned_tokens) throw std::logic_error("a wrong number of rows");
  }

  void run(const StageTask& task) {
    if (before_task) before_task(task);
    if (task.merged()) {
      mail_.meet(rank(), to_string(task) + " on stage " + std::to_string(program_.stage()),
                 task.members.size());
    }
    ++done;
  }

  const StageProgram& program_;
  Mailboxes& mail_;
  PlannedOwners owners_;
};

/// Runs all ranks. @returns what went wrong, by rank; empty where nothing did.
inline std::vector<std::string> run_ranks(
    const Plan& plan, Channel channel, const LoopOptions& options = {},
    const std::function<void(std::size_t, const StageTask&)>& before_task = {}) {
  const PlanRanks table(plan);
  const std::size_t ranks = table.size();
  Mailboxes mail(channel, ranks);
  std::vector<std::string> errors(ranks);
  const auto run = [&](std::size_t rank) {
    try {
      const RankPlace place = table.place_of(rank);
      const StageProgram program(plan, place.pipeline, place.stage, {.block = 4});
      CheckingTrainer trainer(program, mail);
      if (before_task) trainer.before_task = [&](const StageTask& task) { before_task(rank, task); };
      run_stage(program, trainer, options);
      if (trainer.done != program.tasks().size()) throw std::logic_error("not all tasks are done");
    } catch (const std::exception& error) {
      errors[rank] = error.what();
    }
    mail.leave(rank, !errors[rank].empty());
  };
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace slimpack::testing
