#pragma once

#include <chrono>
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

// Runs all ranks of a plan as threads, with channels of both extremes.
namespace slimpack::testing {

enum class Channel {
  buffered,    ///< a send is complete at once
  rendezvous,  ///< a send is complete when its receive is posted; data moves then
};

/// What moves between two stages: for each row its sample and token, and how far it has come.
struct Message {
  std::vector<std::pair<SampleId, Tokens>> rows;
  std::size_t hops = 0;

  friend bool operator==(const Message&, const Message&) = default;
};

/// Mailboxes of all ranks. A wait that takes longer than the watchdog allows ends the run of all ranks, with
/// a report of what each of them waited for.
class Mailboxes {
 public:
  Mailboxes(Channel channel, std::size_t ranks, std::chrono::milliseconds watchdog)
      : channel_(channel), watchdog_(watchdog), waits_for_(ranks) {}

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
    return std::move(box.message);
  }

  /// Until all sends of a rank are complete.
  void complete_sends(std::size_t rank) {
    std::unique_lock lock(mutex_);
    wait(lock, rank, "its sends", [&] {
      for (const auto& [key, box] : boxes_) {
        if (std::get<0>(key) == rank && channel_ == Channel::rendezvous && box.sent && !box.posted)
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

  /// Ends all waits.
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  struct Box {
    bool sent = false, posted = false;
    Message message;
  };

  template <class F>
  void wait(std::unique_lock<std::mutex>& lock, std::size_t rank, const std::string& what, F&& ready) {
    waits_for_[rank] = what;
    const bool in_time = changed_.wait_for(lock, watchdog_, [&] { return failed_ || ready(); });
    if (in_time && !failed_) {
      waits_for_[rank].clear();
      return;
    }
    failed_ = true;
    changed_.notify_all();
    if (in_time) throw std::runtime_error("another rank failed");
    std::string report = "stuck:";
    for (std::size_t r = 0; r < waits_for_.size(); ++r) {
      if (!waits_for_[r].empty())
        report += " rank " + std::to_string(r) + " waits for " + waits_for_[r] + ";";
    }
    throw std::runtime_error(report);
  }

  Channel channel_;
  std::chrono::milliseconds watchdog_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<std::size_t, std::size_t, std::uint64_t>, Box> boxes_;
  std::map<std::string, std::size_t> meetings_;
  std::vector<std::string> waits_for_;
  bool failed_ = false;
};

/// A trainer that computes nothing but checks what reaches it. Throws on a wrong message.
class CheckingTrainer {
 public:
  CheckingTrainer(const StageProgram& program, Mailboxes& mail) : program_(program), mail_(mail) {}

  void post_receive_activations(const StageTask& task) { mail_.post(rank() - 1, rank(), tag(task)); }
  void post_receive_gradients(const StageTask& task) { mail_.post(rank() + 1, rank(), tag(task)); }
  void receive_activations(const StageTask& task) { receive(rank() - 1, task, program_.stage()); }
  void receive_gradients(const StageTask& task) {
    receive(rank() + 1, task, program_.stages() - 1 - program_.stage());
  }
  void send_activations(const StageTask& task) {
    mail_.send(rank(), rank() + 1, tag(task), {rows(task), program_.stage() + 1});
  }
  void send_gradients(const StageTask& task) {
    mail_.send(rank(), rank() - 1, tag(task), {rows(task), program_.stages() - program_.stage()});
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

  static std::vector<std::pair<SampleId, Tokens>> rows(const StageTask& task) {
    std::vector<std::pair<SampleId, Tokens>> result;
    for (const Slice& slice : task.slices) {
      for (Tokens t = slice.begin; t < slice.end; ++t) {
        if (owner_of(t, task.members.size(), 4) == task.member) result.emplace_back(slice.sample, t);
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
};

/// Runs all ranks. @returns what went wrong, by rank; empty where nothing did.
inline std::vector<std::string> run_ranks(
    const Plan& plan, Channel channel, const LoopOptions& options = {},
    std::chrono::milliseconds watchdog = std::chrono::seconds(30),
    const std::function<void(std::size_t, const StageTask&)>& before_task = {}) {
  const std::size_t stages = stages_per_pipeline(plan), ranks = rank_count(plan);
  Mailboxes mail(channel, ranks, watchdog);
  std::vector<std::string> errors(ranks);
  const auto run = [&](std::size_t rank) {
    try {
      const RankPlace place = place_of(rank, stages);
      const StageProgram program(plan, place.pipeline, place.stage, {.block = 4});
      CheckingTrainer trainer(program, mail);
      if (before_task) trainer.before_task = [&](const StageTask& task) { before_task(rank, task); };
      run_stage(program, trainer, options);
      if (trainer.done != program.tasks().size()) throw std::logic_error("not all tasks are done");
    } catch (const std::exception& error) {
      errors[rank] = error.what();
      mail.fail();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace slimpack::testing
