#pragma once

#include <cstddef>
#include <span>

#include "slimpack/core/error.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack {

/// What a trainer gives the loop, as members called with a `const StageTask&`:
///
/// - `receive_activations(task)`: wait for the pack's input rows from the stage before (`program.rank_before()`).
/// - `forward(task)`: compute them, and store what backward needs by sample and token.
/// - `send_activations(task)`: start sending the output rows to the next stage (`program.rank_after()`).
/// - `receive_gradients(task)`, `send_gradients(task)`: the same for gradients, from the next stage and to the one before.
/// - `recompute(task)`: recompute the activations of the first `task.recompute_layers` layers.
/// - `backward(task)`: gradients of the input, and of the weights unless a weight task follows.
/// - `release(task)`: free what `task.releases` lists. Called where that is not empty.
/// - `end_of_step()`: once, after the last task. Waits for all sends.
///
/// and, where the trainer has them,
/// - `weight(task)`: gradients of the weights of a backward pack; only plans with weight tasks need it.
/// - `post_receive_activations(task)` and `post_receive_gradients(task)`: start receiving; called ahead of the
///   receive of the same task, in the order of use. Both or none.
/// - `started(task)` and `finished(task)`: around the computation of a task, recomputation included, transfers
///   not: the time between is what a plan's `seconds` predicts. Each by itself.
///
/// A transfer moves `task.rows` rows: of `task.owned` one range after another, each in token order, those of the rank's
/// `TensorShare`.
/// Merged packs move likewise, from each member to the same member: never between pipelines. Transfers of empty
/// packs are called for as well; both sides know that there is nothing to move.
///
/// **Sends must not block**, nor wait for an earlier send: they start, and are complete when the receiver has
/// posted its side, or sooner. Stages may run packs in different orders, so a send that waits for any other to
/// complete can wait forever. To use a buffer again, test whether its send is complete, and take another one if
/// not.
template <class C>
concept StageCallbacks = requires(C& c, const StageTask& task) {
  c.receive_activations(task);
  c.forward(task);
  c.send_activations(task);
  c.receive_gradients(task);
  c.recompute(task);
  c.backward(task);
  c.send_gradients(task);
  c.release(task);
  c.end_of_step();
};

struct LoopOptions {
  std::size_t window = 2;  ///< receives that are posted and not yet used, at most; at least 1
};

namespace detail {

/// Posts receives ahead of their use. O(1) per task over a step.
template <class C>
class ReceivesAhead {
 public:
  static constexpr bool posts_activations = requires(C & c, const StageTask& task) {
    c.post_receive_activations(task);
  };
  static constexpr bool posts_gradients = requires(C & c, const StageTask& task) {
    c.post_receive_gradients(task);
  };
  static_assert(posts_activations == posts_gradients,
                "a trainer posts receives of activations and of gradients ahead, or of neither");

  ReceivesAhead(const StageProgram& program, C& callbacks, std::size_t window)
      : tasks_(program.tasks()),
        callbacks_(callbacks),
        window_(window),
        first_(program.first()),
        last_(program.last()) {
    post();
  }

  [[nodiscard]] bool receives(const StageTask& task) const {
    return task.pass == Pass::forward ? !first_ : task.pass == Pass::backward && !last_;
  }

  void used() {
    --posted_;
    post();
  }

 private:
  void post() {
    if constexpr (posts_activations) {
      for (; posted_ < window_ && next_ < tasks_.size(); ++next_) {
        const StageTask& task = tasks_[next_];
        if (!receives(task)) continue;
        ++posted_;
        task.pass == Pass::forward ? callbacks_.post_receive_activations(task)
                                   : callbacks_.post_receive_gradients(task);
      }
    }
  }

  std::span<const StageTask> tasks_;
  C& callbacks_;
  std::size_t window_;
  bool first_, last_;
  std::size_t next_ = 0, posted_ = 0;
};

/// Runs one task after another.
template <StageCallbacks C>
class StageLoop {
 public:
  StageLoop(const StageProgram& program, C& callbacks, const LoopOptions& options)
      : program_(program), callbacks_(callbacks), receives_(program, callbacks, options.window) {}

  void run(const StageTask& task) {
    switch (task.pass) {
      case Pass::forward:
        forward(task);
        break;
      case Pass::backward:
        backward(task);
        break;
      case Pass::weight:
        weight(task);
        break;
    }
    if (!task.releases.empty()) callbacks_.release(task);
  }

 private:
  void forward(const StageTask& task) {
    if (!program_.first()) {
      callbacks_.receive_activations(task);
      receives_.used();
    }
    started(task);
    callbacks_.forward(task);
    finished(task);
    if (!program_.last()) callbacks_.send_activations(task);
  }

  void backward(const StageTask& task) {
    if (!program_.last()) {
      callbacks_.receive_gradients(task);
      receives_.used();
    }
    started(task);
    if (task.recompute_layers > 0) callbacks_.recompute(task);
    callbacks_.backward(task);
    finished(task);
    if (!program_.first()) callbacks_.send_gradients(task);
  }

  void weight(const StageTask& task) {
    if constexpr (requires { callbacks_.weight(task); }) {
      started(task);
      callbacks_.weight(task);
      finished(task);
    }
  }

  void started(const StageTask& task) {
    if constexpr (requires { callbacks_.started(task); }) callbacks_.started(task);
  }

  void finished(const StageTask& task) {
    if constexpr (requires { callbacks_.finished(task); }) callbacks_.finished(task);
  }

  const StageProgram& program_;
  C& callbacks_;
  ReceivesAhead<C> receives_;
};

}  // namespace detail

/// Runs one stage's part of a step: walks its tasks in order and calls the trainer.
///
///     forward    receive_activations (not on the first stage), forward, send_activations (not on the last)
///     backward   receive_gradients (not on the last stage), recompute (where the plan asks for it), backward,
///                send_gradients (not on the first), release
///     weight     weight, release
///     at the end end_of_step
///
/// No valid plan can deadlock. Its tasks and their dependencies have no cycle (rule 4); number the tasks of all
/// ranks in an order that respects them, a merged task once for all its members. Were all ranks stuck, take the
/// unfinished task with the lowest number. Those before it on its ranks are done, so each of its members has
/// reached it. Its only waits are its receive, whose send was started by the same pack's task on a
/// neighbouring stage, which has a lower number and is done, and other members' lockstep, which have reached
/// it. Sends wait for nothing, and at the end of the step for receives that are then all posted. So it can
/// run. The argument needs no buffers, and receives matched by sender and `message_tag` rather than in order of
/// arrival.
///
/// An exception of a callback ends the loop and reaches the caller; `end_of_step` is then not called. Allocates
/// nothing.
/// @throws InvalidInput if the plan has weight tasks and the trainer no `weight`, or the window is 0.
/// Complexity: O(tasks), without the callbacks.
template <StageCallbacks C>
void run_stage(const StageProgram& program, C& callbacks, const LoopOptions& options = {}) {
  require(options.window > 0, "window is 0; expected at least one receive at a time");
  constexpr bool has_weight = requires(const StageTask& task) { callbacks.weight(task); };
  require(has_weight || !program.has_weight_tasks(), "stage ", program.stage(), " of pipeline ",
          program.pipeline(), " has weight tasks (W); expected a trainer with a weight callback");
  detail::StageLoop<C> loop(program, callbacks, options);
  for (const StageTask& task : program.tasks()) loop.run(task);
  callbacks.end_of_step();
}

}  // namespace slimpack
