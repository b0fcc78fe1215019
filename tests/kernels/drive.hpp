#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/math/adamw.hpp"
#include "kernels/model/stage.hpp"
#include "slimpack/plan/indices.hpp"
#include "tests/kernels/reference.hpp"

// Runs all stages of a plan in one process, with messages in maps; and compares with the reference.
namespace slimpack::testing {

/// Messages between a merged task's members, each of which has a thread.
template <class Real>
class Mail {
 public:
  explicit Mail(std::size_t members) : members_(members), boxes_(members * members) {}

  void send(std::size_t from, std::size_t to, std::span<const Real> numbers) {
    const std::lock_guard lock(mutex_);
    boxes_[from * members_ + to].emplace_back(numbers.begin(), numbers.end());
    arrived_.notify_all();
  }

  void receive(std::size_t from, std::size_t to, std::span<Real> numbers) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[from * members_ + to];
    const auto here = [&] { return !box.empty(); };
    if (!arrived_.wait_for(lock, std::chrono::minutes(1), here))
      throw std::runtime_error("a message is missing");
    const std::vector<Real> message = std::move(box.front());
    box.pop_front();
    if (message.size() != numbers.size()) throw std::runtime_error("a message has another size");
    std::copy(message.begin(), message.end(), numbers.begin());
  }

  void shift(std::size_t member, std::span<const Real> out, std::span<Real> in) {
    send(member, (member + 1) % members_, out);
    receive((member + members_ - 1) % members_, member, in);
  }

  void all_to_all(std::size_t member, std::span<const Real> out, std::span<const std::size_t> out_sizes,
                  std::span<Real> in, std::span<const std::size_t> in_sizes) {
    for (std::size_t m = 0; m < members_; ++m) {
      send(member, m, out.first(out_sizes[m]));
      out = out.subspan(out_sizes[m]);
    }
    for (std::size_t m = 0; m < members_; ++m) {
      receive(m, member, in.first(in_sizes[m]));
      in = in.subspan(in_sizes[m]);
    }
    if (!out.empty() || !in.empty()) throw std::runtime_error("parts of an all-to-all do not add up");
  }

 private:
  std::size_t members_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::deque<std::vector<Real>>> boxes_;  ///< [from][to]
};

template <class Real>
struct Rank {
  Rank(const Transformer& model, const Plan& plan, PipelineId pipeline, std::size_t s, Tokens block,
       const kernels::StageOptions& options)
      : program(plan, pipeline, s, {.block = block}),
        stage(kernels::stage_part(model, plan, pipeline, s), options) {}

  StageProgram program;
  kernels::CpuStage<Real> stage;
  std::size_t next = 0;
  std::vector<Real> first, second;                            ///< AdamW's moments
  std::map<std::pair<int, PackId>, std::vector<Real>> inbox;  ///< [pass, pack] rows
};

/// All ranks of a plan.
template <class Real>
class Cluster {
 public:
  Cluster(const Transformer& model, const Plan& plan, Tokens block, const kernels::InitOptions& init,
          const kernels::StageOptions& options = {})
      : plan_(plan) {
    for (const PipelinePlan& pipeline : plan.pipelines) {
      auto& stages = ranks_.emplace_back();
      for (std::size_t s = 0; s < pipeline.stages(); ++s) {
        stages.push_back(std::make_unique<Rank<Real>>(model, plan, pipeline.id, s, block, options));
        stages.back()->stage.weights().initialise(init);
      }
    }
  }

  /// Called, if set, after each task and its releases; for members of a merged pack by threads of their own.
  std::function<void(const Rank<Real>&, const StageTask&)> after_task;

  /// Runs a step: again and again, each rank's next task if its input is there.
  void step(const Ragged<std::int32_t>& ids) {
    std::size_t left = 0;
    for (auto& stages : ranks_) {
      for (auto& rank : stages) {
        rank->stage.begin_step(rank->program, ids);
        rank->next = 0;
        left += rank->program.tasks().size();
      }
    }
    while (left > 0) {
      const std::size_t before = left;
      for (std::size_t p = 0; p < ranks_.size(); ++p) {
        for (std::size_t s = 0; s < ranks_[p].size(); ++s) left -= run_next(p, s);
      }
      REQUIRE(left < before);
    }
  }

  /// One step of AdamW on every pipeline, by the sum of all pipelines' gradients.
  void update(std::int64_t step, const kernels::AdamWOptions& options) {
    const auto summed = gradients();
    for (auto& stages : ranks_) {
      for (auto& rank : stages) {
        auto& weights = rank->stage.weights();
        rank->first.resize(weights.parameters().size());
        rank->second.resize(weights.parameters().size());
        for (const kernels::WeightTensor& t : weights.tensors()) {
          const auto part = [&](auto&& numbers) {
            return std::span<Real>(numbers).subspan(t.offset, t.size());
          };
          const std::vector<Real> gradient(summed.at(t.name).begin(), summed.at(t.name).end());
          kernels::adamw<Real>(part(weights.parameters()), gradient, part(rank->first), part(rank->second),
                               step, options);
        }
      }
    }
  }

  [[nodiscard]] double loss() const {
    double sum = 0.0;
    for (const auto& stages : ranks_) sum += stages.back()->stage.loss();
    return sum;
  }

  /// Summed over pipelines, by tensor.
  [[nodiscard]] std::map<std::string, std::vector<double>> gradients() const {
    return sum([](const auto& weights) { return weights.gradients(); });
  }

  /// Of the first pipeline, by tensor.
  [[nodiscard]] std::map<std::string, std::vector<double>> weights() const {
    return sum([](const auto& weights) { return weights.parameters(); }, 1);
  }

  [[nodiscard]] Rank<Real>& rank(std::size_t pipeline, std::size_t stage) { return *ranks_[pipeline][stage]; }

 private:
  template <class F>
  [[nodiscard]] std::map<std::string, std::vector<double>> sum(F&& numbers,
                                                               std::size_t pipelines = SIZE_MAX) const {
    std::map<std::string, std::vector<double>> out;
    for (std::size_t p = 0; p < std::min(pipelines, ranks_.size()); ++p) {
      for (const auto& rank : ranks_[p]) {
        const auto& weights = rank->stage.weights();
        for (const kernels::WeightTensor& t : weights.tensors()) {
          auto& to = out[t.name];
          to.resize(t.size());
          for (std::size_t i = 0; i < t.size(); ++i) to[i] += double(numbers(weights)[t.offset + i]);
        }
      }
    }
    return out;
  }

  [[nodiscard]] const StageTask* ready(std::size_t p, std::size_t s) const {
    const Rank<Real>& rank = *ranks_[p][s];
    if (rank.next == rank.program.tasks().size()) return nullptr;
    const StageTask& task = rank.program.tasks()[rank.next];
    const bool receives =
        task.pass == Pass::forward ? s > 0 : task.pass == Pass::backward && s + 1 < ranks_[p].size();
    return !receives || rank.inbox.contains({int(task.pass), task.pack}) ? &task : nullptr;
  }

  /// Returns the tasks done: merged ones run on all members at once.
  std::size_t run_next(std::size_t p, std::size_t s) {
    const StageTask* task = ready(p, s);
    if (task == nullptr) return 0;
    if (!task->merged() || task->pass == Pass::weight) {
      run(p, s, *task);
      return 1;
    }
    std::vector<const StageTask*> tasks;
    for (const PipelineId m : task->members) {
      const StageTask* other = ready(m, s);
      if (other == nullptr || other->pass != task->pass || other->pack != task->pack) return 0;
      tasks.push_back(other);
    }
    Mail<Real> mail(tasks.size());
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(tasks.size());
    for (std::size_t m = 0; m < tasks.size(); ++m) {
      const std::size_t pipeline = task->members[m];
      auto& stage = ranks_[pipeline][s]->stage;
      stage.set_ring_shift([&mail, m](const StageTask&, std::span<const Real> out, std::span<Real> in) {
        mail.shift(m, out, in);
      });
      stage.set_all_to_all([&mail, m](const StageTask&, std::span<const Real> out,
                                      std::span<const std::size_t> out_sizes, std::span<Real> in,
                                      std::span<const std::size_t> in_sizes) {
        mail.all_to_all(m, out, out_sizes, in, in_sizes);
      });
      threads.emplace_back([&, m, pipeline] {
        try {
          run(pipeline, s, *tasks[m]);
        } catch (...) {
          errors[m] = std::current_exception();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    return tasks.size();
  }

  void run(std::size_t p, std::size_t s, const StageTask& task) {
    Rank<Real>& rank = *ranks_[p][s];
    const auto rows = static_cast<std::size_t>(task.owned_tokens), hidden = rank.stage.part().hidden();
    const auto key = std::pair(int(task.pass), task.pack);
    const auto in = rank.inbox.find(key);
    kernels::MatrixView<const Real> given, made;
    if (in != rank.inbox.end()) given = {in->second.data(), rows, hidden};
    if (task.pass == Pass::forward) made = rank.stage.forward(task, given);
    if (task.pass == Pass::backward) made = rank.stage.backward(task, given);
    if (task.pass == Pass::weight) rank.stage.weight(task);
    if (in != rank.inbox.end()) rank.inbox.erase(in);
    const bool forward = task.pass == Pass::forward;
    if (task.pass != Pass::weight && (forward ? s + 1 < ranks_[p].size() : s > 0)) {
      if (made.rows != rows || (rows > 0 && made.cols != hidden))
        throw std::runtime_error("wrong rows were made");
      ranks_[p][forward ? s + 1 : s - 1]->inbox[key].assign(made.data, made.data + rows * hidden);
    }
    rank.stage.release(task);
    if (after_task) after_task(rank, task);
    ++rank.next;
  }

  const Plan& plan_;
  std::vector<std::vector<std::unique_ptr<Rank<Real>>>> ranks_;
};

/// A small model of as many layers as the plan's.
[[nodiscard]] inline Transformer small_model(std::mt19937& random, const Plan& plan) {
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  Transformer m{"small",    plan.model.layers, pick(4, 14), 0,
                pick(1, 3), 2 * pick(1, 3),    pick(3, 20), pick(3, 30)};
  m.heads = m.kv_heads * pick(1, 4);
  return m;
}

[[nodiscard]] inline Ragged<std::int32_t> random_ids(std::mt19937& random, const Plan& plan,
                                                     std::int32_t vocab) {
  Ragged<std::int32_t> ids;
  for (const Tokens length : plan.tokens) {
    for (Tokens t = 0; t < length; ++t)
      ids.add(std::uniform_int_distribution<std::int32_t>(0, vocab - 1)(random));
    ids.close();
  }
  return ids;
}

/// Loss and gradients of the plan's samples by the reference, from the cluster's weights.
inline void run_reference(Reference& reference, const Plan& plan, const Ragged<std::int32_t>& ids) {
  reference.clear();
  std::vector<bool> deferred(plan.tokens.size());
  for (const SampleId id : plan.deferred) deferred[id] = true;
  const Tokens labels = label_tokens(plan);
  const double scale = labels > 0 ? 1.0 / double(labels) : 0.0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!deferred[i]) reference.run(ids[i], scale);
  }
}

/// Largest relative difference of a tensor by the Euclidean norm, and the tensor.
inline std::pair<double, std::string> worst(const std::map<std::string, std::vector<double>>& result,
                                            const std::map<std::string, std::vector<double>>& expected) {
  REQUIRE(result.size() == expected.size());
  std::pair<double, std::string> out{0.0, "none"};
  for (const auto& [name, numbers] : expected) {
    double off = 0.0, all = 0.0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      off += (result.at(name).at(i) - numbers[i]) * (result.at(name).at(i) - numbers[i]);
      all += numbers[i] * numbers[i];
    }
    const double relative = off == 0.0 ? 0.0 : std::sqrt(off / all);
    if (!(relative <= out.first)) out = {relative, name};
  }
  return out;
}

}  // namespace slimpack::testing
