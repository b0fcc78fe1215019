#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/math/aligned.hpp"
#include "kernels/math/attention.hpp"
#include "kernels/math/matrix.hpp"
#include "kernels/transport/part.hpp"
#include "slimpack/exec/program.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack::kernels {

/// The part of a model that a stage holds.
struct StagePart {
  Transformer model;
  std::int32_t first_layer = 0;
  std::int32_t layers = 0;
  bool first = true;  ///< holds the embedding
  bool last = true;   ///< holds the final norm and the output head

  [[nodiscard]] std::size_t hidden() const { return static_cast<std::size_t>(model.hidden); }
  [[nodiscard]] std::size_t ffn() const { return static_cast<std::size_t>(model.ffn); }
  [[nodiscard]] std::size_t vocab() const { return static_cast<std::size_t>(model.vocab); }
  [[nodiscard]] std::size_t layer_count() const { return static_cast<std::size_t>(layers); }
  [[nodiscard]] HeadShape heads() const {
    return {static_cast<std::size_t>(model.heads), static_cast<std::size_t>(model.kv_heads),
            static_cast<std::size_t>(model.head_dim)};
  }
};

/// The part of a model that a plan gives to a stage of a pipeline.
/// @throws InvalidInput if the model is impossible, or the plan's stages hold another number of layers.
[[nodiscard]] StagePart stage_part(const Transformer& model, const Plan& plan, PipelineId pipeline,
                                   std::size_t stage);

/// Numbers of a stage's weights; its gradients are as many.
[[nodiscard]] inline double weight_count(const StagePart& part) {
  const double ends = embedding_parameters(part.model);
  return part.layers * layer_parameters(part.model) + (part.first ? ends : 0.0) +
         (part.last ? ends + part.model.hidden : 0.0);
}

/// A weight's place in the flat buffers. Vectors have one row.
struct WeightTensor {
  std::string name;  ///< such as `layers.3.qkv`, by the layer's number in the whole model
  std::size_t offset = 0;
  std::size_t rows = 0, cols = 0;

  [[nodiscard]] std::size_t size() const { return rows * cols; }
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

/// Weights of a layer, or their gradients. Matrices are [inputs x outputs]: rows of tokens multiply from the
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

  /// Numbers `first` and on of a tensor at the start of training. They depend on the seed and the tensor's name alone: the same
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

  void add(std::string name, std::size_t rows, std::size_t cols) {
    tensors_.push_back({std::move(name), size(), rows, cols});
  }
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

/// A stage's weights and gradients in the host's memory, each one flat buffer, with views of its tensors.
template <class Real>
class StageWeights {
 public:
  /// All zero. @throws InvalidInput if the part is impossible.
  explicit StageWeights(const StagePart& part)
      : layout_(part), parameters_(layout_.size()), gradients_(layout_.size()) {}

  /// Sets weights to `WeightLayout::initial`. O(weights).
  void initialise(const InitOptions& options = {}) {
    for (const WeightTensor& tensor : tensors())
      layout_.initial(options, tensor, 0, std::span(parameters_).subspan(tensor.offset, tensor.size()));
  }

  [[nodiscard]] std::span<Real> parameters() { return parameters_; }
  [[nodiscard]] std::span<const Real> parameters() const { return parameters_; }
  [[nodiscard]] std::span<Real> gradients() { return gradients_; }
  [[nodiscard]] std::span<const Real> gradients() const { return gradients_; }
  [[nodiscard]] std::span<const WeightTensor> tensors() const { return layout_.tensors(); }
  [[nodiscard]] std::vector<WeightUnit> units() const { return layout_.units(); }

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
