#pragma once

#include <chrono>
#include <cstddef>

#include "kernels/executor_options.hpp"
#include "kernels/math/matrix.hpp"
#include "kernels/model/stage_step.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Seconds since it was made.
class StepClock {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

/// A stage's tasks as the callbacks of `run_stage`: rows come by mail, the stage works on them, and what it makes goes
/// by mail. Ranks that hold no row of a pack exchange none.
/// @tparam Stage a back end. @tparam MailType Mail or DeviceMail. @tparam T transport, which is told what the rank is
/// doing, for what other ranks say of it.
template <class Stage, class MailType, class T>
struct StageWalk {
  Stage& stage;
  MailType& mail;
  T& transport;
  const StageProgram& program;
  const StepClock& clock;
  StepReport& report;
  MatrixView<const typename Stage::Number> rows;  ///< of the current task: what came, then what it made

  void post_receive_activations(const StageTask& task) { post(task, program.rank_before()); }
  void post_receive_gradients(const StageTask& task) { post(task, program.rank_after()); }
  void receive_activations(const StageTask& task) { receive(task); }
  void receive_gradients(const StageTask& task) { receive(task); }
  void forward(const StageTask& task) { rows = stage.forward(task, rows); }
  void recompute(const StageTask&) {}  // layer by layer, within backward
  void backward(const StageTask& task) { rows = stage.backward(task, rows); }
  void weight(const StageTask& task) { stage.weight(task); }
  void send_activations(const StageTask& task) { send(task, program.rank_after()); }
  void send_gradients(const StageTask& task) { send(task, program.rank_before()); }
  void release(const StageTask& task) { stage.release(task); }
  void end_of_step() {
    transport.set_task("end of the step's tasks");
    mail.wait_for_sends();
  }

  void started(const StageTask& task) {
    transport.set_task(to_string(task));
    report.tasks.push_back({task.pass, task.pack, clock.seconds(), 0.0});
  }
  void finished(const StageTask&) {
    TaskRecord& task = report.tasks.back();
    task.seconds = clock.seconds() - task.start;
    mail.finished();
  }

 private:
  [[nodiscard]] std::size_t numbers(const StageTask& task) const {
    return static_cast<std::size_t>(task.rows) * stage.part().hidden();
  }
  void post(const StageTask& task, std::size_t from) {
    if (task.rows > 0) mail.post(from, message_tag(task.pass, task.pack), numbers(task));
  }
  void receive(const StageTask& task) {
    transport.set_task(to_string(task));
    rows = {nullptr, 0, stage.part().hidden()};
    if (task.rows > 0) rows = {mail.receive().data(), static_cast<std::size_t>(task.rows), rows.cols};
  }
  void send(const StageTask& task, std::size_t to) {
    if (task.rows > 0) mail.send(to, message_tag(task.pass, task.pack), {rows.data, numbers(task)});
  }
};

}  // namespace slimpack::kernels
