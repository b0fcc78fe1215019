#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/math/aligned.hpp"
#include "kernels/math/attention.hpp"
#include "kernels/math/matrix.hpp"
#include "kernels/transport/part.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/exec/ranks.hpp"
#include "slimpack/model/transformer.hpp"
#include "slimpack/sharding/tensor_share.hpp"

namespace slimpack::kernels {

/// The part of a model that a stage holds.
struct StagePart {
  Transformer model;
  std::int32_t first_layer = 0;
  std::int32_t layers = 0;
  bool first = true;  ///< holds the embedding
  bool last = true;   ///< holds the final norm and the output head
  /// Holds this rank's heads, columns of the MLP and tokens of the vocabulary, and all of the norms.
  TensorShare tensor = {};

  [[nodiscard]] std::size_t hidden() const { return static_cast<std::size_t>(model.hidden); }
  [[nodiscard]] std::size_t ffn() const { return share_of(model.ffn).size(); }
  [[nodiscard]] std::size_t vocab() const { return share_of(model.vocab).size(); }
  [[nodiscard]] std::size_t layer_count() const { return static_cast<std::size_t>(layers); }
  [[nodiscard]] HeadShape heads() const {
    return {share_of(model.heads).size(), share_of(model.kv_heads).size(),
            static_cast<std::size_t>(model.head_dim)};
  }
  /// What this rank has of some heads, columns or tokens of the model.
  [[nodiscard]] Part share_of(std::int32_t n) const {
    return part_of(static_cast<std::size_t>(n), tensor.size, tensor.rank);
  }
};

/// @throws InvalidInput naming the size of the model that so many tensor-parallel ranks can't share, and what they could.
void require_tensor_ranks(const Transformer& model, std::size_t ranks);

/// The part of a model that a plan gives to a rank.
/// @throws InvalidInput if the model is impossible, or the plan's stages hold another number of layers, or as
/// `require_tensor_ranks`.
[[nodiscard]] StagePart stage_part(const Transformer& model, const Plan& plan, const RankPlace& place);
/// The same of the whole stage of a pipeline, as if it were one rank.
[[nodiscard]] StagePart stage_part(const Transformer& model, const Plan& plan, PipelineId pipeline,
                                   std::size_t stage);

/// Numbers of a stage's weights; its gradients are as many.
[[nodiscard]] inline double weight_count(const StagePart& part) {
  const HeadShape heads = part.heads();
  const auto query = static_cast<double>(heads.query_width()), keys = static_cast<double>(heads.kv_width());
  const double hidden = part.model.hidden, ends = static_cast<double>(part.vocab()) * hidden;
  const double layer = hidden * (2.0 * query + 2.0 * keys + 3.0 * static_cast<double>(part.ffn()) + 2.0);
  return part.layers * layer + (part.first ? ends : 0.0) + (part.last ? ends + hidden : 0.0);
}

/// What tensor-parallel ranks have of a tensor: all of it, or their share of its rows or columns.
enum class TensorSplit : std::uint8_t { none, rows, columns };

/// A weight's place in the flat buffers. Vectors have one row.
struct WeightTensor {
  std::string name;  ///< such as `layers.3.qkv`, by the layer's number in the whole model
  std::size_t offset = 0;
  std::size_t rows = 0, cols = 0;  ///< that this rank holds
  TensorSplit split = TensorSplit::none;
  /// Rows or columns of the whole model that stand one after another, such as queries, keys, values; ranks share each.
  std::vector<std::size_t> sections = {};

  [[nodiscard]] std::size_t size() const { return rows * cols; }
};

/// Weights that ranks synchronise: what share `i` of `n` has of a unit, or what all tensor-parallel ranks have of it.
struct WeightPiece {
  std::int32_t place = 0;  ///< of the unit
  std::size_t share = 0;   ///< i; n for what all have
  std::vector<Part> runs;  ///< where its numbers stand in the flat buffers, in the order of all who hold it

  [[nodiscard]] std::size_t size() const {
    std::size_t numbers = 0;
    for (const Part& run : runs) numbers += run.size();
    return numbers;
  }
  friend bool operator==(const WeightPiece&, const WeightPiece&) = default;
};

/// Weights that are synchronised together: the embedding, a layer, or the final norm with the output head. Pipelines may
/// hold a unit on different stages, but each holds all of it on one.
struct WeightUnit {
  std::int32_t place = 0;  ///< in the model: 0 the embedding, then its layers, then what follows them
  Part numbers;            ///< where it stands in the flat buffers

  friend bool operator==(const WeightUnit&, const WeightUnit&) = default;
};

/// The stage of a pipeline that holds a unit. @param layers held by each stage. @pre place is one of theirs.
[[nodiscard]] std::size_t stage_of_unit(std::span<const std::int32_t> layers, std::int32_t place);

/// Weights of a layer, or their gradients; of a tensor-parallel rank, its share. Matrices are [inputs x outputs]: rows of tokens multiply from the
/// left.
template <class T>
struct LayerWeights {
  std::span<T> attention_norm;  ///< [hidden]
  MatrixView<T> qkv;            ///< [hidden x (heads + 2 kv_heads) * head_dim]: queries, keys, values
  MatrixView<T> output;         ///< [heads * head_dim x hidden]
  std::span<T> mlp_norm;        ///< [hidden]
  MatrixView<T> gate_up;        ///< [hidden x 2 ffn]: gate, up
  MatrixView<T> down;           ///< [ffn x hidden]
};

/// What the first and the last stage hold besides layers; empty on others.
template <class T>
struct EndWeights {
  MatrixView<T> embedding;  ///< [vocab x hidden]
  std::span<T> final_norm;  ///< [hidden]
  MatrixView<T> head;       ///< [hidden x vocab]
};

struct InitOptions {
  std::uint64_t seed = 1;
  double deviation =
      0.02;  ///< of matrices; those that write to the residual have it divided by sqrt(2 layers)
};

/// Where a stage's tensors stand in a flat buffer, wherever that lies: in the host's memory or a GPU's.
class WeightLayout {
 public:
  /// @throws InvalidInput if the part is impossible.
  explicit WeightLayout(const StagePart& part);

  [[nodiscard]] std::span<const WeightTensor> tensors() const { return tensors_; }
  /// Numbers in all.
  [[nodiscard]] std::size_t size() const {
    return tensors_.empty() ? 0 : tensors_.back().offset + tensors_.back().size();
  }

  /// The units that the stage holds, in the order of the model. Together they are all its numbers.
  [[nodiscard]] std::vector<WeightUnit> units() const;

  /// The same cut into pieces that tensor-parallel ranks of any pipelines have whole or not at all, in one order everywhere:
  /// unit by unit, of each its shares in order, then what all hold. With one share, the units are whole.
  /// @param shares of which each rank of every pipeline holds equally many. @throws InvalidInput unless this one does.
  [[nodiscard]] std::vector<WeightPiece> pieces(std::size_t shares) const;

  /// Numbers of the whole tensor, of which this rank has some.
  [[nodiscard]] std::size_t whole_size(const WeightTensor& tensor) const {
    if (tensor.split == TensorSplit::none) return tensor.size();
    return std::accumulate(tensor.sections.begin(), tensor.sections.end(), std::size_t{0}) *
           (tensor.split == TensorSplit::rows ? tensor.cols : tensor.rows);
  }

  /// Calls f(place in the tensor's part of the buffer, place in the whole tensor, numbers) for what share `i` of
  /// `shares` has of a tensor, row by row. @pre this rank holds the share.
  template <class F>
  void for_each_run(const WeightTensor& tensor, std::size_t shares, std::size_t i, F&& f) const;
  /// The same of all that this rank holds.
  template <class F>
  void for_each_run(const WeightTensor& tensor, F&& f) const {
    for_each_run(tensor, part_.tensor.size, part_.tensor.rank, f);
  }

  /// Numbers `first` and on of a whole tensor at the start of training. They depend on the seed and the tensor's name alone: the same
  /// model for any number of stages and, rounded, in float and double. Norms are 1, matrices uniform with mean 0.
  /// @throws InvalidInput if the deviation is not positive. O(size of out).
  template <class Real>
  void initial(const InitOptions& options, const WeightTensor& tensor, std::size_t first,
               std::span<Real> out) const;

  /// Views of a layer's tensors in a buffer. @param layer of this stage, from 0.
  template <class T>
  [[nodiscard]] LayerWeights<T> layer(T* buffer, std::size_t layer) const {
    const WeightTensor* tensor = &tensors_[layer * tensors_per_layer];
    return {vector_of(buffer, tensor[0]), matrix_of(buffer, tensor[1]), matrix_of(buffer, tensor[2]),
            vector_of(buffer, tensor[3]), matrix_of(buffer, tensor[4]), matrix_of(buffer, tensor[5])};
  }

  /// The same of what is not in a layer.
  template <class T>
  [[nodiscard]] EndWeights<T> ends(T* buffer) const {
    EndWeights<T> out;
    const WeightTensor* tensor = tensors_.data() + part_.layer_count() * tensors_per_layer;
    if (part_.first) out.embedding = matrix_of(buffer, *tensor++);
    if (part_.last) {
      out.final_norm = vector_of(buffer, *tensor++);
      out.head = matrix_of(buffer, *tensor);
    }
    return out;
  }

 private:
  static constexpr std::size_t tensors_per_layer = 6;

  /// A tensor of which all ranks have all.
  void add(std::string name, std::size_t cols) {
    tensors_.push_back({std::move(name), size(), 1, cols, TensorSplit::none, {}});
  }
  /// One that ranks share. @param other the number of its columns or rows that is not shared.
  void add(std::string name, TensorSplit split, std::vector<std::size_t> sections, std::size_t other);
  void add_runs(const WeightTensor& tensor, std::size_t shares, std::size_t i, WeightPiece& piece) const;
  template <class T>
  [[nodiscard]] static std::span<T> vector_of(T* buffer, const WeightTensor& tensor) {
    return {buffer + tensor.offset, tensor.size()};
  }
  template <class T>
  [[nodiscard]] static MatrixView<T> matrix_of(T* buffer, const WeightTensor& tensor) {
    return {buffer + tensor.offset, tensor.rows, tensor.cols};
  }

  StagePart part_;
  std::vector<WeightTensor> tensors_;
};

template <class F>
void WeightLayout::for_each_run(const WeightTensor& tensor, std::size_t shares, std::size_t i, F&& f) const {
  if (tensor.split == TensorSplit::none) return f(std::size_t{0}, std::size_t{0}, tensor.size());
  const std::size_t whole = std::accumulate(tensor.sections.begin(), tensor.sections.end(), std::size_t{0});
  const bool by_rows = tensor.split == TensorSplit::rows;
  for (std::size_t row = 0; row < (by_rows ? 1 : tensor.rows); ++row) {
    std::size_t held = 0, before = 0;  // of the sections so far, by this rank and by all
    for (const std::size_t section : tensor.sections) {
      const Part own = part_of(section, part_.tensor.size, part_.tensor.rank),
                 asked = part_of(section, shares, i);
      const std::size_t here = held + asked.begin - own.begin, there = before + asked.begin;
      if (by_rows) {
        f(here * tensor.cols, there * tensor.cols, asked.size() * tensor.cols);
      } else {
        f(row * tensor.cols + here, row * whole + there, asked.size());
      }
      held += own.size();
      before += section;
    }
  }
}

/// A stage's weights and gradients in the host's memory, each one flat buffer, with views of its tensors.
template <class Real>
class StageWeights {
 public:
  /// All zero. @throws InvalidInput if the part is impossible.
  explicit StageWeights(const StagePart& part)
      : layout_(part), parameters_(layout_.size()), gradients_(layout_.size()) {}

  /// Sets weights to `WeightLayout::initial`. O(weights).
  void initialise(const InitOptions& options = {}) {
    for (const WeightTensor& tensor : tensors()) {
      layout_.for_each_run(tensor, [&](std::size_t here, std::size_t there, std::size_t numbers) {
        layout_.initial(options, tensor, there,
                        std::span(parameters_).subspan(tensor.offset + here, numbers));
      });
    }
  }

  [[nodiscard]] std::span<Real> parameters() { return parameters_; }
  [[nodiscard]] std::span<const Real> parameters() const { return parameters_; }
  [[nodiscard]] std::span<Real> gradients() { return gradients_; }
  [[nodiscard]] std::span<const Real> gradients() const { return gradients_; }
  [[nodiscard]] std::span<const WeightTensor> tensors() const { return layout_.tensors(); }
  [[nodiscard]] std::vector<WeightUnit> units() const { return layout_.units(); }
  [[nodiscard]] const WeightLayout& layout() const { return layout_; }

  /// @param layer of this stage, from 0.
  [[nodiscard]] LayerWeights<const Real> layer(std::size_t layer) const {
    return layout_.layer(parameters_.data(), layer);
  }
  [[nodiscard]] LayerWeights<Real> layer_gradients(std::size_t layer) {
    return layout_.layer(gradients_.data(), layer);
  }
  [[nodiscard]] EndWeights<const Real> ends() const { return layout_.ends(parameters_.data()); }
  [[nodiscard]] EndWeights<Real> end_gradients() { return layout_.ends(gradients_.data()); }

 private:
  WeightLayout layout_;
  AlignedVector<Real> parameters_, gradients_;
};

}  // namespace slimpack::kernels
