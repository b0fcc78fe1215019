// A trainer of one's own, driven by a plan: a toy model in plain loops, a thread for each pipeline stage. What it takes
// from the library is a plan, the loop over a stage's tasks, and who frees what when.
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "slimpack/exec/loop.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/indices.hpp"
#include "slimpack/planners/slimpack.hpp"

using slimpack::SampleId, slimpack::Slice, slimpack::StageProgram, slimpack::StageTask, slimpack::Tokens;

using Rows = std::vector<double>;   // a token's state is a single number
using Model = std::vector<double>;  // and so are a layer's weights

// A token's input is made up; what the model shall say is the next token's input.
double input(SampleId sample, Tokens token) { return std::sin(double(sample) + 0.7 * double(token)); }

// Consecutive layers with the simplest of attentions: y_t = x_t + mean over j <= t of v_j, with values v = tanh(w x).
// They take any slice of a sample, once those before it are done forward, or those after it backward: what they keep
// is addressed by sample and token. After a model's last layer, that is the gradient of its output, by the loss.
class Layers {
 public:
  Layers(const Model& model, Model& gradient, std::size_t first, std::size_t count)
      : model_(model), gradient_(gradient), first_(first), count_(count) {}

  void forward(const Slice& slice, double* rows) {
    auto& tokens = samples_[slice.sample];
    tokens.resize(std::max(tokens.size(), std::size_t(slice.end)), std::vector<Kept>(count_ + 1));
    for (std::size_t l = 0; l < count_; ++l) {
      for (Tokens t = slice.begin; t < slice.end; ++t) {
        double& y = rows[t - slice.begin];
        tokens[std::size_t(t)][l] = {.x = y, .v = std::tanh(model_[first_ + l] * y)};
        for (Tokens j = 0; j <= t; ++j) y += tokens[std::size_t(j)][l].v / double(t + 1);
      }
    }
  }

  // Turns gradients of outputs into gradients of inputs.
  void backward(const Slice& slice, double* rows) {
    auto& tokens = samples_[slice.sample];
    for (std::size_t l = count_; l-- > 0;) {
      for (Tokens t = slice.end; t-- > slice.begin;) {
        double& dx = rows[t - slice.begin];
        for (Tokens j = 0; j <= t; ++j) tokens[std::size_t(j)][l].dv += dx / double(t + 1);
        // All later tokens have added their share to the gradient of this one's value.
        const Kept& own = tokens[std::size_t(t)][l];
        const double slope = own.dv * (1 - own.v * own.v);
        dx += slope * model_[first_ + l];
        gradient_[first_ + l] += slope * own.x;
      }
    }
  }

  // Half the mean squared error over all labels. A sample's last token has nothing to say.
  double loss(const Slice& slice, Tokens length, double labels, const double* rows) {
    double sum = 0;
    for (Tokens t = slice.begin; t < std::min(slice.end, length - 1); ++t) {
      const double off = rows[t - slice.begin] - input(slice.sample, t + 1);
      output_gradient(slice.sample, t) = off / labels;
      sum += 0.5 * off * off / labels;
    }
    return sum;
  }
  double& output_gradient(SampleId sample, Tokens token) {
    return samples_.at(sample).at(std::size_t(token))[count_].dv;
  }

  void release(const slimpack::Release& release) {
    for (Tokens t = release.begin; t < release.end; ++t) samples_.at(release.sample).at(std::size_t(t)) = {};
    if (release.last) samples_.erase(release.sample);
  }
  bool empty() const { return samples_.empty(); }

 private:
  struct Kept {
    double x = 0, v = 0, dv = 0;
  };

  const Model& model_;
  Model& gradient_;
  std::size_t first_, count_;
  std::map<SampleId, std::vector<std::vector<Kept>>> samples_;  // [token][layer]
};

// Senders never wait; messages are told apart by sender and tag.
class Mail {
 public:
  void send(std::size_t from, std::uint64_t tag, Rows rows) {
    const std::lock_guard lock(mutex_);
    mail_[{from, tag}] = std::move(rows);
    changed_.notify_all();
  }
  Rows receive(std::size_t from, std::uint64_t tag) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failed_ || mail_.count({from, tag}) > 0; });
    if (failed_) throw std::runtime_error("another stage failed");
    return std::move(mail_.extract({from, tag}).mapped());
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<std::size_t, std::uint64_t>, Rows> mail_;
  bool failed_ = false;
};

struct Step {
  double loss = 0;
  Model gradient;
};

// The callbacks of one stage. A pack's rows stand in the order of its slices.
struct Stage {
  const StageProgram& program;
  Layers layers;
  Mail& mail;
  double loss = 0;
  Rows rows = {};

  void receive_activations(const StageTask& task) { rows = mail.receive(program.rank_before(), tag(task)); }
  void receive_gradients(const StageTask& task) { rows = mail.receive(program.rank_after(), tag(task)); }
  void send_activations(const StageTask& task) { mail.send(program.rank(), tag(task), std::move(rows)); }
  void send_gradients(const StageTask& task) { mail.send(program.rank(), tag(task), std::move(rows)); }

  void forward(const StageTask& task) {
    const slimpack::Plan& plan = program.plan();
    if (program.first()) fill(task, [](SampleId sample, Tokens t) { return input(sample, t); });
    for (double* at = rows.data(); const Slice& slice : task.slices) {
      layers.forward(slice, at);
      if (program.last())
        loss += layers.loss(slice, plan.tokens[slice.sample], double(label_tokens(plan)), at);
      at += slice.size();
    }
  }
  void recompute(const StageTask&) {}  // of no layer more is kept than inputs and values
  void backward(const StageTask& task) {
    if (program.last())
      fill(task, [&](SampleId sample, Tokens t) { return layers.output_gradient(sample, t); });
    for (double* at = rows.data(); const Slice& slice : task.slices) {
      layers.backward(slice, at);
      at += slice.size();
    }
  }
  void release(const StageTask& task) {
    for (const slimpack::Release& r : task.releases) layers.release(r);
  }
  void end_of_step() {
    if (!layers.empty()) throw std::logic_error("a token was not released");
  }

 private:
  static std::uint64_t tag(const StageTask& task) { return slimpack::message_tag(task.pass, task.pack); }
  template <class F>
  void fill(const StageTask& task, F&& row) {
    rows.clear();
    for (const Slice& slice : task.slices) {
      for (Tokens t = slice.begin; t < slice.end; ++t) rows.push_back(row(slice.sample, t));
    }
  }
};

// A thread for each stage of each pipeline, and the sum of their losses and gradients.
Step planned_step(const slimpack::Plan& plan, const Model& model) {
  Mail mail;
  const auto run = [&](std::size_t rank) {
    const slimpack::RankPlace place = slimpack::PlanRanks(plan).place_of(rank);
    const StageProgram program(plan, place);
    std::size_t first = 0;
    for (std::size_t s = 0; s < place.stage; ++s)
      first += std::size_t(plan.pipelines[place.pipeline].layers[s]);
    Step step{0, Model(model.size())};
    Stage stage{program, Layers(model, step.gradient, first, std::size_t(program.layers())), mail};
    try {
      run_stage(program, stage);
    } catch (...) {
      mail.fail();
      throw;
    }
    step.loss = stage.loss;
    return step;
  };
  std::vector<std::future<Step>> ranks;
  for (std::size_t r = 0; r < slimpack::rank_count(plan); ++r)
    ranks.push_back(std::async(std::launch::async, run, r));
  Step total{0, Model(model.size())};
  for (std::future<Step>& rank : ranks) {
    const Step step = rank.get();
    total.loss += step.loss;
    for (std::size_t l = 0; l < model.size(); ++l) total.gradient[l] += step.gradient[l];
  }
  return total;
}

// The same without a plan: sample after sample, unsliced, through all layers.
Step plain_step(const slimpack::Plan& plan, const Model& model) {
  Step step{0, Model(model.size())};
  for (SampleId sample = 0; sample < plan.tokens.size(); ++sample) {
    Layers layers(model, step.gradient, 0, model.size());
    const Slice whole{sample, 0, plan.tokens[sample]};
    Rows rows, gradients;
    for (Tokens t = 0; t < whole.end; ++t) rows.push_back(input(sample, t));
    layers.forward(whole, rows.data());
    step.loss += layers.loss(whole, whole.end, double(label_tokens(plan)), rows.data());
    for (Tokens t = 0; t < whole.end; ++t) gradients.push_back(layers.output_gradient(sample, t));
    layers.backward(whole, gradients.data());
  }
  return step;
}

bool same(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * std::abs(b); }

slimpack::Job toy_job() {
  slimpack::Job job;
  job.model = {"toy", 4, 8, 1, 1, 8, 8, 2};
  job.device = slimpack::device_preset("h100");
  job.device.peak_flops = 1e8;  // so slow that a toy's tokens cost something compared with a pack's constants
  job.layout = {.dp = 2, .pp = 2};
  return job;
}

int main() {
  const slimpack::Job job = toy_job();
  const std::vector<Tokens> lengths{150, 70, 64, 40, 33, 20, 12, 9, 5, 2, 1, 31};
  const slimpack::Plan plan = plan_slimpack(lengths, job, {.tile = 8, .merge = false, .packs = 5});

  Model model{0.3, -0.8, 0.5, 1.1};
  for (int i = 0; i < 5; ++i) {
    const Step step = planned_step(plan, model), plain = plain_step(plan, model);
    std::printf("step %d: loss %.12f, unsliced %.12f\n", i, step.loss, plain.loss);
    bool ok = same(step.loss, plain.loss, 1e-12);
    for (std::size_t l = 0; l < model.size(); ++l) {
      Model up = model, down = model;
      up[l] += 1e-5;
      down[l] -= 1e-5;
      const double slope = (plain_step(plan, up).loss - plain_step(plan, down).loss) / 2e-5;
      ok = ok && same(step.gradient[l], plain.gradient[l], 1e-12) && same(plain.gradient[l], slope, 1e-6);
    }
    if (!ok) {
      std::fprintf(stderr, "the planned step is not the unsliced one\n");
      return 1;
    }
    for (std::size_t l = 0; l < model.size(); ++l) model[l] -= 0.5 * step.gradient[l];
  }
}
