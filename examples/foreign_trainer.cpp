// A trainer of one's own, driven by a plan: a toy transformer in plain loops, a thread for each pipeline stage. What
// it takes from the library is a plan, the loop over a stage's tasks, and who frees what when.
#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "slimpack/exec/loop.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/plan/indices.hpp"
#include "slimpack/planners/slimpack.hpp"

using slimpack::SampleId, slimpack::Slice, slimpack::StageProgram, slimpack::StageTask, slimpack::Tokens;

constexpr std::size_t width = 8;
using Row = std::array<double, width>;
using Rows = std::vector<Row>;
// Three square matrices a layer, row by row: queries, keys, values. Gradients have the same shape.
using Model = Rows;
constexpr std::size_t layer_rows = 3 * width;

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < width; ++i) sum += a[i] * b[i];
  return sum;
}
void add(Row& to, double factor, const Row& x) {
  for (std::size_t i = 0; i < width; ++i) to[i] += factor * x[i];
}
Model sum(Model to, double factor, const Model& x) {
  for (std::size_t i = 0; i < to.size(); ++i) add(to[i], factor, x[i]);
  return to;
}
double dot(const Model& a, const Model& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += dot(a[i], b[i]);
  return sum;
}
Row times(const Row& x, const Row* matrix) {
  Row y{};
  for (std::size_t i = 0; i < width; ++i) add(y, x[i], matrix[i]);
  return y;
}

// A token's input is made up; what the model shall say is the next token's input.
Row input(SampleId sample, Tokens token) {
  Row x;
  for (std::size_t i = 0; i < width; ++i) x[i] = std::sin(double(sample) + 0.7 * double(token) + double(i));
  return x;
}

// Consecutive layers, each y = x + mean over j <= i of (q_i k_j) v_j. They take any slice of a sample, once the
// slices before it are done forward, or those behind it backward: what they keep is addressed by sample and token.
class Layers {
 public:
  Layers(const Model& model, Model& gradient, std::size_t first, std::size_t count)
      : model_(model), gradient_(gradient), first_(first), count_(count) {}

  void forward(const Slice& slice, Row* rows) {
    Sample& tokens = stored_[slice.sample];
    tokens.resize(std::max(tokens.size(), std::size_t(slice.end)), std::vector<Stored>(count_));
    for (std::size_t l = 0; l < count_; ++l) {
      const Row* w = &model_[(first_ + l) * layer_rows];
      for (auto t = std::size_t(slice.begin); t < std::size_t(slice.end); ++t) {
        Row& y = rows[t - std::size_t(slice.begin)];
        const Row x = y, q = times(x, w);
        tokens[t][l] = {x, times(x, w + width), times(x, w + 2 * width), {}, {}};
        for (std::size_t j = 0; j <= t; ++j) {
          add(y, dot(q, tokens[j][l].k) / double(t + 1), tokens[j][l].v);
        }
      }
    }
  }

  // Turns gradients of outputs into gradients of inputs.
  void backward(const Slice& slice, Row* rows) {
    Sample& tokens = stored_[slice.sample];
    for (std::size_t l = count_; l-- > 0;) {
      for (auto t = std::size_t(slice.end); t-- > std::size_t(slice.begin);) {
        Stored& own = tokens[t][l];
        Row& dx = rows[t - std::size_t(slice.begin)];
        const Row dy = dx, q = times(own.x, &model_[(first_ + l) * layer_rows]);
        Row dq{};
        for (std::size_t j = 0; j <= t; ++j) {
          Stored& other = tokens[j][l];
          const double ds = dot(dy, other.v) / double(t + 1);
          add(other.dv, dot(q, other.k) / double(t + 1), dy);
          add(other.dk, ds, q);
          add(dq, ds, other.k);
        }
        // All later tokens have added their share to this one's keys and values.
        backward_products((first_ + l) * layer_rows, own.x, {dq, own.dk, own.dv}, dx);
      }
    }
  }

  void release(const slimpack::Release& release) {
    Sample& tokens = stored_[release.sample];
    for (Tokens t = release.begin; t < release.end; ++t) tokens[std::size_t(t)] = {};
    if (release.last) stored_.erase(release.sample);
  }
  bool empty() const { return stored_.empty(); }

 private:
  struct Stored {  // of a token in a layer
    Row x, k, v, dk, dv;
  };
  using Sample = std::vector<std::vector<Stored>>;  // [token][layer]

  void backward_products(std::size_t row, const Row& x, const std::array<Row, 3>& gradients, Row& dx) {
    for (const Row& dy : gradients) {
      for (std::size_t i = 0; i < width; ++i, ++row) {
        dx[i] += dot(model_[row], dy);
        add(gradient_[row], x[i], dy);
      }
    }
  }

  const Model& model_;
  Model& gradient_;
  std::size_t first_, count_;
  std::map<SampleId, Sample> stored_;
};

// Turns outputs into gradients of half the mean squared error. A sample's last token has nothing to say.
double loss(const Slice& slice, Tokens length, double labels, Row* rows) {
  double sum = 0;
  for (Tokens t = slice.begin; t < slice.end; ++t) {
    Row& y = rows[t - slice.begin];
    t + 1 < length ? add(y, -1, input(slice.sample, t + 1)) : void(y = {});
    sum += 0.5 * dot(y, y) / labels;
    for (double& x : y) x /= labels;
  }
  return sum;
}

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

// The callbacks of one stage. A pack's rows stand in the order of its slices.
struct Stage {
  const StageProgram& program;
  double labels;
  Layers layers;
  Mail& mail;
  double loss_sum = 0;
  Rows rows = {};
  std::map<SampleId, Rows> output_gradients = {};  // on the last stage

  void receive_activations(const StageTask& task) { rows = mail.receive(program.rank() - 1, tag(task)); }
  void receive_gradients(const StageTask& task) { rows = mail.receive(program.rank() + 1, tag(task)); }
  void send_activations(const StageTask& task) { mail.send(program.rank(), tag(task), std::move(rows)); }
  void send_gradients(const StageTask& task) { mail.send(program.rank(), tag(task), std::move(rows)); }

  void forward(const StageTask& task) {
    if (program.first()) rows.clear();
    Tokens at = 0;
    for (const Slice& slice : task.slices) {
      for (Tokens t = slice.begin; program.first() && t < slice.end; ++t) {
        rows.push_back(input(slice.sample, t));
      }
      Row* own = rows.data() + at;
      layers.forward(slice, own);
      if (program.last()) {
        loss_sum += loss(slice, program.plan().tokens[slice.sample], labels, own);
        Rows& kept = output_gradients[slice.sample];
        kept.insert(kept.end(), own, own + slice.size());
      }
      at += slice.size();
    }
  }
  void recompute(const StageTask&) {}  // of no layer more is kept than inputs, keys and values
  void backward(const StageTask& task) {
    if (program.last()) rows.clear();
    Tokens at = 0;
    for (const Slice& slice : task.slices) {
      if (program.last()) {
        const Row* kept = output_gradients[slice.sample].data();
        rows.insert(rows.end(), kept + slice.begin, kept + slice.end);
      }
      layers.backward(slice, rows.data() + at);
      at += slice.size();
    }
  }
  void release(const StageTask& task) {
    for (const slimpack::Release& r : task.releases) {
      layers.release(r);
      if (r.last) output_gradients.erase(r.sample);
    }
  }
  void end_of_step() {
    if (!layers.empty() || !output_gradients.empty()) throw std::logic_error("a token was not released");
  }

 private:
  static std::uint64_t tag(const StageTask& task) { return slimpack::message_tag(task.pass, task.pack); }
};

struct Step {
  double loss = 0;
  Model gradient;
};

// A thread for each stage of each pipeline, and the sum of their gradients.
Step planned_step(const slimpack::Plan& plan, const Model& model) {
  const std::size_t ranks = slimpack::rank_count(plan), stages = slimpack::stages_per_pipeline(plan);
  std::vector<Step> steps(ranks, {0, Model(model.size())});
  std::vector<std::exception_ptr> errors(ranks);
  Mail mail;
  const auto run = [&](std::size_t rank) {
    try {
      const auto [pipeline, number] = slimpack::place_of(rank, stages);
      const StageProgram program(plan, pipeline, number);
      std::size_t first = 0;
      for (std::size_t s = 0; s < number; ++s) first += std::size_t(plan.pipelines[pipeline].layers[s]);
      Stage stage{program, double(label_tokens(plan)),
                  Layers(model, steps[rank].gradient, first, std::size_t(program.layers())), mail};
      run_stage(program, stage);
      steps[rank].loss = stage.loss_sum;
    } catch (...) {
      errors[rank] = std::current_exception();
      mail.fail();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  Step total{0, Model(model.size())};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (errors[rank]) std::rethrow_exception(errors[rank]);
    total.loss += steps[rank].loss;
    total.gradient = sum(total.gradient, 1, steps[rank].gradient);
  }
  return total;
}

// The same without a plan: sample after sample, unsliced, through all layers.
Step plain_step(const slimpack::Plan& plan, const Model& model) {
  Step step{0, Model(model.size())};
  for (SampleId sample = 0; sample < plan.tokens.size(); ++sample) {
    Layers layers(model, step.gradient, 0, model.size() / layer_rows);
    const Slice whole{sample, 0, plan.tokens[sample]};
    Rows rows;
    for (Tokens t = 0; t < whole.end; ++t) rows.push_back(input(sample, t));
    layers.forward(whole, rows.data());
    step.loss += loss(whole, whole.end, double(label_tokens(plan)), rows.data());
    layers.backward(whole, rows.data());
  }
  return step;
}

int main() {
  slimpack::Job job{.model = {"toy", 4, width, 1, 1, width, width, 2},
                    .device = slimpack::device_preset("h100"),
                    .layout = {.dp = 2, .pp = 2}};
  job.device.peak_flops = 1e8;  // so slow that a toy's tokens cost something beside a pack's constants
  const std::vector<Tokens> lengths{150, 70, 64, 40, 33, 20, 12, 9, 5, 2, 1, 31};
  const slimpack::Plan plan = plan_slimpack(lengths, job, {.tile = 8, .merge = false, .packs = 5});
  std::printf("%zu forward and %zu backward packs on %zu stages\n", plan.forward.packs.size(),
              plan.backward.packs.size(), slimpack::rank_count(plan));

  Model model(4 * layer_rows);
  double number = 0;
  for (Row& row : model) {
    for (double& x : row) x = 0.3 * std::sin(12.9898 * ++number);
  }
  for (int i = 0; i < 5; ++i) {
    const Step step = planned_step(plan, model), plain = plain_step(plan, model);
    const Model difference = sum(step.gradient, -1, plain.gradient);
    const double square = dot(plain.gradient, plain.gradient),
                 error = std::sqrt(dot(difference, difference) / square);
    // The slope of the loss along the gradient stands behind both.
    const double slope = (plain_step(plan, sum(model, 1e-5, plain.gradient)).loss -
                          plain_step(plan, sum(model, -1e-5, plain.gradient)).loss) /
                         2e-5;
    std::printf("step %d: loss %.6f, gradient off by %.1e\n", i, step.loss, error);
    if (!(error < 1e-12 && std::abs(step.loss / plain.loss - 1) < 1e-12 &&
          std::abs(slope / square - 1) < 1e-6)) {
      std::fprintf(stderr, "the planned step is not the plain one: loss %.17g, expected %.17g\n", step.loss,
                   plain.loss);
      return 1;
    }
    model = sum(model, -0.5, step.gradient);
  }
}
