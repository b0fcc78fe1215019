#include "kernels/model/stage.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/math/cross_entropy.hpp"
#include "kernels/math/rms_norm.hpp"
#include "kernels/model/memory.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/plan/indices.hpp"

namespace slimpack::kernels {

namespace {

template <class T>
void copy_rows(const MatrixView<const T>& from, Matrix<T>& to) {
  to.resize(from.rows, from.cols);
  for (std::size_t r = 0; r < from.rows; ++r) std::copy_n(from.row(r), from.cols, to.data() + r * from.cols);
}

/// Calls f(sample, position, row) for each token of a task that this member holds.
template <class F>
void for_each_token(const StageTask& task, F&& f) {
  std::size_t row = 0;
  for (const Slice& slice : task.owned) {
    for (Tokens t = slice.begin; t < slice.end; ++t) f(slice.sample, static_cast<std::size_t>(t), row++);
  }
}

}  // namespace

/// A task's workspace in the count of bytes.
template <class Real>
class CpuStage<Real>::Taken {
 public:
  Taken(HighWater& memory, std::size_t numbers, const StageTask& task)
      : memory_(memory), bytes_(static_cast<double>(sizeof(Real)) * static_cast<double>(numbers)) {
    memory_.take(bytes_, " at ", to_string(task));
  }
  Taken(Taken&&) = delete;
  Taken& operator=(Taken&&) = delete;
  ~Taken() { memory_.give_back(bytes_); }

 private:
  HighWater& memory_;
  double bytes_;
};

template <class Real>
CpuStage<Real>::CpuStage(const StagePart& part, const StageOptions& options)
    : part_(part),
      options_(options),
      memory_(options.limit_bytes),
      weights_(counted(part, memory_)),
      pool_(memory_),
      activations_(part, pool_),
      key_values_(part, options.page_tokens, pool_),
      attention_(part.heads(), options.merged, options.ring_tokens, key_values_, pool_) {
  require(options.norm_epsilon > 0, "norm_epsilon is ", options.norm_epsilon, "; expected a positive number");
  require(options.head_chunk_tokens > 0, "head_chunk_tokens is 0; expected a positive number");
  require(part.model.head_dim % 2 == 0, "head_dim is ", part.model.head_dim,
          "; expected an even number for the rotary embedding");
}

/// The part, once its weights and gradients are counted: too many are found before the system is asked for them.
template <class Real>
const StagePart& CpuStage<Real>::counted(const StagePart& part, HighWater& memory) {
  memory.take(2.0 * sizeof(Real) * weight_count(part), " by weights and gradients");
  return part;
}

template <class Real>
void CpuStage<Real>::begin_step(const StageProgram& program, const Ragged<std::int32_t>& ids) {
  require(program.layers() == part_.layers && program.first() == part_.first && program.last() == part_.last,
          "the program is for stage ", program.stage(), " of ", program.stages(), " with ", program.layers(),
          " layers; expected this stage's ", part_.layers);
  const Plan& plan = program.plan();
  require(ids.size() == plan.tokens.size(), "there are ids of ", ids.size(), " samples; expected the plan's ",
          plan.tokens.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    require(static_cast<Tokens>(ids[i].size()) == plan.tokens[i], "sample ", i, " has ", ids[i].size(),
            " ids; expected the plan's ", plan.tokens[i]);
  }
  for (const std::int32_t id : ids.values()) {
    require(id >= 0 && id < part_.model.vocab, "a token's id is ", id, "; expected below the vocabulary of ",
            part_.model.vocab);
  }
  program_ = &program;
  ids_ = &ids;
  loss_ = 0.0;
  const Tokens labels = label_tokens(plan);
  label_weight_ = labels > 0 ? 1.0 / static_cast<double>(labels) : 0.0;
  split_.assign(plan.backward.packs.size(), 0);
  for (const StageTask& task : program.tasks()) {
    if (task.pass == Pass::weight) split_[task.pack] = 1;
  }
  while (!pending_.empty()) free_pending(pending_.begin()->first);
  activations_.begin_step(program);
  key_values_.begin_step(program, options_.merged == MergedAttention::heads);
  attention_.begin_step(program.block());
  std::fill(weights_.gradients().begin(), weights_.gradients().end(), Real{0});
}

template <class Real>
void CpuStage<Real>::begin_task(const StageTask& task) {
  require(program_ != nullptr, to_string(task), " comes before begin_step; expected the step to be begun");
  positions_.clear();
  for (const Slice& slice : task.owned) positions_.push_back({slice.begin, slice.end});
  rope_.set(positions_, part_.heads().head_dim, options_.rope_theta);
}

template <class Real>
MatrixView<const Real> CpuStage<Real>::forward(const StageTask& task, const MatrixView<const Real>& in) {
  begin_task(task);
  const auto tokens = static_cast<std::size_t>(task.owned_tokens);
  const Taken workspace(memory_, workspace_numbers(part_, options_, Pass::forward, tokens), task);
  activations_.allocate(task);
  for (const Slice& slice : task.slices) key_values_.allocate(slice);
  if (part_.first) {
    embed(task);
  } else {
    check_rows(task, in);
    copy_rows(in, x_);
  }
  for (std::size_t layer = 0; layer < part_.layer_count(); ++layer) layer_forward(layer, task);
  if (!part_.last) return x_.view();
  head_forward(task);
  return {};
}

template <class Real>
MatrixView<const Real> CpuStage<Real>::backward(const StageTask& task, const MatrixView<const Real>& dout) {
  begin_task(task);
  const auto tokens = static_cast<std::size_t>(task.owned_tokens);
  const Taken workspace(memory_, workspace_numbers(part_, options_, Pass::backward, tokens), task);
  for (const Slice& slice : task.slices) key_values_.allocate_gradients(slice.sample, slice.end);
  if (part_.last) {
    head_backward(task);
  } else {
    check_rows(task, dout);
    copy_rows(dout, dx_);
  }
  for (std::size_t layer = part_.layer_count(); layer-- > 0;) {
    load_or_recompute(layer, task);
    mlp_backward(layer, task);
    attention_backward(layer, task);
  }
  if (split_[task.pack] != 0) activations_.free(task);  // the weight task has its factors
  if (!part_.first) return dx_.view();
  embed_backward(task);
  return {};
}

template <class Real>
void CpuStage<Real>::check_rows(const StageTask& task, const MatrixView<const Real>& rows) const {
  require(rows.rows == static_cast<std::size_t>(task.owned_tokens) && rows.cols == part_.hidden(),
          to_string(task), " is given [", rows.rows, " x ", rows.cols, "]; expected [", task.owned_tokens,
          " x ", part_.hidden(), "]");
}

template <class Real>
void CpuStage<Real>::release(const StageTask& task) {
  bool activations = false;
  for (const Release& release : task.releases) {
    activations = activations || release.holds(Store::activations);
    // Backward has read the gradients, so they go with what they belong to.
    if (release.holds(Store::keys_values)) key_values_.release({release.sample, release.begin, release.end});
  }
  if (activations) activations_.free(task);
}

template <class Real>
void CpuStage<Real>::weight_gradient(const StageTask& task, const Matrix<Real>& a, const Matrix<Real>& b,
                                     const MatrixView<Real>& gradient) {
  if (split_[task.pack] == 0) {
    transposed_multiply<Real>(a.view(), b.view(), gradient, Update::add);
    return;
  }
  memory_.take(pending_bytes(a, b), " at ", to_string(task));
  Pending& kept = pending_[task.pack].emplace_back();
  copy_rows(a.view(), kept.a);
  copy_rows(b.view(), kept.b);
  kept.gradient = gradient;
}

template <class Real>
double CpuStage<Real>::pending_bytes(const Matrix<Real>& a, const Matrix<Real>& b) {
  return static_cast<double>(sizeof(Real)) * static_cast<double>(a.rows() * a.cols() + b.rows() * b.cols());
}

template <class Real>
void CpuStage<Real>::weight(const StageTask& task) {
  const auto pending = pending_.find(task.pack);
  if (pending == pending_.end()) return;
  for (const Pending& kept : pending->second) {
    transposed_multiply<Real>(kept.a.view(), kept.b.view(), kept.gradient, Update::add);
  }
  free_pending(task.pack);
}

template <class Real>
void CpuStage<Real>::free_pending(PackId pack) {
  for (const Pending& kept : pending_[pack]) memory_.give_back(pending_bytes(kept.a, kept.b));
  pending_.erase(pack);
}

template <class Real>
void CpuStage<Real>::embed(const StageTask& task) {
  const auto embedding = weights_.ends().embedding;
  x_.resize(static_cast<std::size_t>(task.owned_tokens), part_.hidden());
  for_each_token(task, [&](SampleId sample, std::size_t position, std::size_t row) {
    const auto id = static_cast<std::size_t>((*ids_)[sample][position]);
    std::copy_n(embedding.row(id), part_.hidden(), x_.view().row(row));
  });
}

template <class Real>
void CpuStage<Real>::embed_backward(const StageTask& task) {
  const auto gradient = weights_.end_gradients().embedding;
  for_each_token(task, [&](SampleId sample, std::size_t position, std::size_t row) {
    Real* to = gradient.row(static_cast<std::size_t>((*ids_)[sample][position]));
    const Real* from = dx_.view().row(row);
    for (std::size_t i = 0; i < part_.hidden(); ++i) to[i] += from[i];
  });
}

template <class Real>
void CpuStage<Real>::set_labels(const StageTask& task) {
  labels_.resize(static_cast<std::size_t>(task.owned_tokens));
  for_each_token(task, [&](SampleId sample, std::size_t position, std::size_t row) {
    const auto sample_ids = (*ids_)[sample];
    labels_[row] = position + 1 < sample_ids.size() ? sample_ids[position + 1] : no_label;
  });
}

template <class Real>
template <class F>
void CpuStage<Real>::for_each_chunk(F&& f) {
  const auto ends = weights_.ends();
  for (std::size_t row = 0; row < x_.rows(); row += options_.head_chunk_tokens) {
    const std::size_t rows = std::min(options_.head_chunk_tokens, x_.rows() - row);
    const auto normed = normed_.view().middle_rows(row, rows);
    logits_.resize(rows, part_.vocab());
    multiply<Real>(normed, ends.head, logits_.view());
    f(row, rows, normed, std::span<const std::int32_t>(labels_).subspan(row, rows));
  }
}

template <class Real>
void CpuStage<Real>::head_forward(const StageTask& task) {
  activations_.save(task, Kept::output, 0, x_.view());
  set_labels(task);
  norm(x_.view(), weights_.ends().final_norm);
  double sum = 0.0;
  for_each_chunk(
      [&](std::size_t, std::size_t, const MatrixView<Real>&, std::span<const std::int32_t> labels) {
        sum += cross_entropy<Real>(logits_.view(), labels);
      });
  require(std::isfinite(sum), "the loss of ", to_string(task), " is ", sum, "; expected a finite number");
  loss_ += sum * label_weight_;
}

/// Logits are computed again: kept, they would be the largest activations of all.
template <class Real>
void CpuStage<Real>::head_backward(const StageTask& task) {
  const auto ends = weights_.ends();
  const auto gradients = weights_.end_gradients();
  const auto tokens = static_cast<std::size_t>(task.owned_tokens);
  x_.resize(tokens, part_.hidden());
  dnormed_.resize(tokens, part_.hidden());
  dx_.resize(tokens, part_.hidden());
  activations_.load(task, Kept::output, 0, x_.view());
  set_labels(task);
  norm(x_.view(), ends.final_norm);
  for_each_chunk([&](std::size_t row, std::size_t rows, const MatrixView<Real>& normed,
                     std::span<const std::int32_t> labels) {
    cross_entropy_backward<Real>(logits_.view(), labels, label_weight_);
    transposed_multiply<Real>(normed, logits_.view(), gradients.head, Update::add);
    multiply_transposed<Real>(logits_.view(), ends.head, dnormed_.view().middle_rows(row, rows));
  });
  std::fill_n(dx_.data(), tokens * part_.hidden(), Real{0});
  norm_backward(x_.view(), ends.final_norm, gradients.final_norm);
}

template class CpuStage<float>;
template class CpuStage<double>;

}  // namespace slimpack::kernels
