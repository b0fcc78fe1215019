#include "kernels/model/stage.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/math/cross_entropy.hpp"
#include "kernels/math/rms_norm.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

template <class T>
void copy_rows(const MatrixView<const T>& from, const MatrixView<T>& to) {
  for (std::size_t r = 0; r < from.rows; ++r) std::copy_n(from.row(r), from.cols, to.row(r));
}

template <class T>
Matrix<T> copy_of(const MatrixView<const T>& from) {
  Matrix<T> copy(from.rows, from.cols);
  copy_rows(from, copy.view());
  return copy;
}

}  // namespace

template <class Real>
CpuStage<Real>::CpuStage(const StagePart& part, const StageOptions& options)
    : part_(part),
      options_(options),
      memory_(options.limit_bytes, options.name),
      host_memory_(options.host_limit_bytes, options.name + " (host)"),
      weights_(counted(part, memory_)),
      pool_(memory_),
      host_pool_(host_memory_),
      activations_(part, pool_, host_pool_),
      key_values_(part, options.page_tokens, pool_),
      attention_(part.heads(), options.merged, options.ring_tokens, key_values_, pool_) {
  require_stage(part, options);
}

/// The part, once its weights and gradients are counted: too many are found before the system is asked for them.
template <class Real>
const StagePart& CpuStage<Real>::counted(const StagePart& part, HighWater& memory) {
  const double blocks = static_cast<double>(Attention<Real>::workspace_numbers(part.heads()));
  memory.take(sizeof(Real) * (2.0 * weight_count(part) + blocks), " for weights and gradients");
  return part;
}

template <class Real>
void CpuStage<Real>::begin_step(const StageProgram& program, const Ragged<std::int32_t>& ids) {
  require_shared_attention(part_, program, options_.merged);
  step_.begin(part_, program, ids);
  loss_ = 0.0;
  pool_.give_back(workspace_);
  while (!pending_.empty()) free_pending(pending_.begin()->first);
  activations_.begin_step(program);
  key_values_.begin_step(program, options_.merged);
  attention_.begin_step(program.owners());
  std::fill(weights_.gradients().begin(), weights_.gradients().end(), Real{0});
}

/// Needs the task's stores to be there: then the workspace may use whatever else is kept.
template <class Real>
void CpuStage<Real>::begin_task(const StageTask& task) {
  const auto tokens = static_cast<std::size_t>(task.owned_tokens);
  const std::size_t chunk = options_.head_chunk_tokens;
  const auto rows = static_cast<std::size_t>(task.rows);
  const std::size_t numbers = workspace_numbers<Real>(part_, chunk, task.pass, tokens, rows);
  workspace_ = pool_.take_any(numbers, " at ", to_string(task));
  work_.lay_out(part_, chunk, task.pass, tokens, rows, workspace_.data.get());
  tensor_rows_.begin_task(task, part_.tensor);
  positions_.clear();
  for (const Slice& slice : task.owned) positions_.push_back({slice.begin, slice.end});
  rope_.set(positions_, part_.heads().head_dim, options_.rope_theta);
}

/// Gives back the workspace of the task before, whose rows have been sent by now. @param task that comes.
template <class Real>
void CpuStage<Real>::end_task(const StageTask& task) {
  step_.require_begun(task);
  pool_.give_back(workspace_);
}

template <class Real>
MatrixView<const Real> CpuStage<Real>::forward(const StageTask& task, const MatrixView<const Real>& in) {
  end_task(task);
  activations_.allocate(task);
  for (const Slice& slice : task.slices) key_values_.allocate(slice);
  begin_task(task);
  if (part_.first) {
    embed(task);
  } else {
    require_rows(part_, task, in);
    copy_rows(in, work_.x);
  }
  for (std::size_t layer = 0; layer < part_.layer_count(); ++layer) layer_forward(layer, task);
  if (!part_.last) return work_.x;
  head_forward(task);
  return {};
}

template <class Real>
MatrixView<const Real> CpuStage<Real>::backward(const StageTask& task, const MatrixView<const Real>& dout) {
  end_task(task);
  for (const Slice& slice : task.slices) key_values_.allocate_gradients(slice.sample, slice.end);
  begin_task(task);
  if (part_.last) {
    head_backward(task);
  } else {
    require_rows(part_, task, dout);
    copy_rows(dout, work_.dx);
  }
  for (std::size_t layer = part_.layer_count(); layer-- > 0;) {
    load_or_recompute(layer, task);
    mlp_backward(layer, task);
    attention_backward(layer, task);
  }
  if (part_.first) embed_backward(task);
  if (step_.is_split(task)) activations_.free(task);  // the weight task has its factors
  return part_.first ? MatrixView<const Real>() : work_.dx;
}

template <class Real>
void CpuStage<Real>::release(const StageTask& task) {
  pool_.give_back(workspace_);
  bool activations = false;
  for (const Release& release : task.releases) {
    activations = activations || release.holds(Store::activations);
    // Backward has read the gradients, so they go with what they belong to.
    if (release.holds(Store::keys_values)) key_values_.release({release.sample, release.begin, release.end});
  }
  if (activations) activations_.free(task);
}

template <class Real>
void CpuStage<Real>::weight_gradient(const StageTask& task, const MatrixView<const Real>& a,
                                     const MatrixView<const Real>& b, const MatrixView<Real>& gradient) {
  if (!step_.is_split(task)) {
    transposed_multiply<Real>(a, b, gradient, Update::add);
    return;
  }
  memory_.take(pending_bytes(a, b), " at ", to_string(task));
  pending_[task.pack].push_back({copy_of(a), copy_of(b), gradient});
}

template <class Real>
double CpuStage<Real>::pending_bytes(const MatrixView<const Real>& a, const MatrixView<const Real>& b) {
  return static_cast<double>(sizeof(Real)) * static_cast<double>(a.rows * a.cols + b.rows * b.cols);
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
  for (const Pending& kept : pending_[pack]) memory_.give_back(pending_bytes(kept.a.view(), kept.b.view()));
  pending_.erase(pack);
}

template <class Real>
void CpuStage<Real>::embed(const StageTask& task) {
  const auto embedding = weights_.ends().embedding;
  const bool alone = part_.tensor.size == 1;
  const MatrixView<Real> to = alone ? work_.x : work_.whole;
  const std::size_t first = part_.share_of(part_.model.vocab).begin;
  step_.for_each_id(task, [&](std::size_t row, std::int32_t id) {
    const std::size_t own = static_cast<std::size_t>(id) - first;  // far away if another rank has it
    if (own < embedding.rows) {
      std::copy_n(embedding.row(own), part_.hidden(), to.row(row));
    } else {
      std::fill_n(to.row(row), part_.hidden(), Real{0});
    }
  });
  if (!alone) tensor_rows_.reduce(work_.whole, work_.message, work_.x, Update::set);
}

template <class Real>
void CpuStage<Real>::embed_backward(const StageTask& task) {
  const auto gradient = weights_.end_gradients().embedding;
  const MatrixView<const Real> dx = gathered(work_.dx);
  const std::size_t first = part_.share_of(part_.model.vocab).begin;
  step_.for_each_id(task, [&](std::size_t row, std::int32_t id) {
    const std::size_t own = static_cast<std::size_t>(id) - first;
    if (own >= gradient.rows) return;
    Real* to = gradient.row(own);
    const Real* from = dx.row(row);
    for (std::size_t i = 0; i < part_.hidden(); ++i) to[i] += from[i];
  });
}

template <class Real>
void CpuStage<Real>::set_labels(const StageTask& task) {
  labels_.resize(static_cast<std::size_t>(task.owned_tokens));
  step_.for_each_label(task, [&](std::size_t row, std::int32_t label) { labels_[row] = label; });
}

template <class Real>
template <class F>
void CpuStage<Real>::for_each_chunk(const MatrixView<const Real>& all, F&& f) {
  const auto ends = weights_.ends();
  for (std::size_t row = 0; row < all.rows; row += options_.head_chunk_tokens) {
    const std::size_t rows = std::min(options_.head_chunk_tokens, all.rows - row);
    const auto normed = all.middle_rows(row, rows);
    const auto logits = work_.logits.middle_rows(0, rows);
    multiply<Real>(normed, ends.head, logits);
    f(row, normed, logits, std::span<const std::int32_t>(labels_).subspan(row, rows));
  }
}

/// Cross-entropy of rows of which each tensor-parallel rank has some logits. Where there are several, the workspace's scores
/// then begin with the log-sum-exps.
template <class Real>
double CpuStage<Real>::shared_cross_entropy(const MatrixView<const Real>& logits,
                                            std::span<const std::int32_t> labels) {
  if (part_.tensor.size == 1) return cross_entropy<Real>(logits, labels);
  const auto all = work_.scores.middle_rows(0, part_.tensor.size * logits.rows),
             own = work_.scores.middle_rows(all.rows, logits.rows);
  vocabulary_scores<Real>(logits, labels, part_.share_of(part_.model.vocab).begin, own);
  tensor_rows_.share({own.data, own.rows * own.cols}, {all.data, all.rows * all.cols});
  return combined_cross_entropy<Real>(all, labels);
}

template <class Real>
void CpuStage<Real>::head_forward(const StageTask& task) {
  activations_.save(task, Kept::output, 0, work_.x);
  set_labels(task);
  norm(work_.x, weights_.ends().final_norm);
  double sum = 0.0;
  for_each_chunk(gathered(work_.normed),
                 [&](std::size_t, const MatrixView<const Real>&, const MatrixView<Real>& logits,
                     std::span<const std::int32_t> labels) { sum += shared_cross_entropy(logits, labels); });
  require(std::isfinite(sum), "the loss of ", to_string(task), " is ", sum, "; expected a finite number");
  if (part_.tensor.rank == 0) loss_ += sum * step_.label_weight();
}

/// Logits are recomputed: kept, they would be the largest activations of all.
template <class Real>
void CpuStage<Real>::head_backward(const StageTask& task) {
  const auto ends = weights_.ends();
  const auto gradients = weights_.end_gradients();
  activations_.load(task, Kept::output, 0, work_.x);
  set_labels(task);
  norm(work_.x, ends.final_norm);
  const bool alone = part_.tensor.size == 1;
  // A chunk's normed rows are not needed once it is done.
  const MatrixView<Real> terms = alone ? work_.dnormed : work_.whole;
  for_each_chunk(gathered(work_.normed),
                 [&](std::size_t row, const MatrixView<const Real>& normed, const MatrixView<Real>& logits,
                     std::span<const std::int32_t> labels) {
                   if (alone) {
                     cross_entropy_backward<Real>(logits, labels, step_.label_weight());
                   } else {
                     static_cast<void>(shared_cross_entropy(logits, labels));
                     cross_entropy_backward<Real>(logits, labels, part_.share_of(part_.model.vocab).begin,
                                                  work_.scores, step_.label_weight());
                   }
                   transposed_multiply<Real>(normed, logits, gradients.head, Update::add);
                   multiply_transposed<Real>(logits, ends.head, terms.middle_rows(row, normed.rows));
                 });
  if (!alone) tensor_rows_.reduce(work_.whole, work_.message, work_.dnormed, Update::set);
  std::fill_n(work_.dx.data, work_.dx.rows * work_.dx.cols, Real{0});
  norm_backward(work_.x, ends.final_norm, gradients.final_norm);
}

template class CpuStage<float>;
template class CpuStage<double>;

}  // namespace slimpack::kernels
