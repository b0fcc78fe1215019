#include "kernels/model/weights.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

/// Steele, Lea and Flood's SplitMix64: the n-th number of a sequence without those before it.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t n) {
  std::uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// FNV-1a.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

bool ends_with(std::string_view name, std::string_view end) { return name.ends_with(end); }

}  // namespace

StagePart stage_part(const Transformer& model, const Plan& plan, PipelineId pipeline, std::size_t stage) {
  validate(model);
  require(pipeline < plan.pipelines.size() && stage < plan.pipelines[pipeline].stages(), "stage ", stage,
          " of pipeline ", pipeline, " is not in the plan; expected one of its stages");
  const auto& layers = plan.pipelines[pipeline].layers;
  const auto before = layers.begin() + static_cast<std::ptrdiff_t>(stage);
  const auto held = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  require(held == model.layers, "stages of pipeline ", pipeline, " hold ", held, " layers; expected the ",
          model.layers, " of model '", model.name, "'");
  return {.model = model,
          .first_layer = std::accumulate(layers.begin(), before, std::int32_t{0}),
          .layers = *before,
          .first = stage == 0,
          .last = stage + 1 == layers.size()};
}

double weight_count(const StagePart& part) {
  const double ends = embedding_parameters(part.model);
  return part.layers * layer_parameters(part.model) + (part.first ? ends : 0.0) +
         (part.last ? ends + part.model.hidden : 0.0);
}

template <class Real>
StageWeights<Real>::StageWeights(const StagePart& part) : part_(part) {
  validate(part.model);
  require(part.first_layer >= 0 && part.layers >= 0 && part.layers <= part.model.layers - part.first_layer,
          "a stage holds ", part.layers, " layers from layer ", part.first_layer,
          " on; expected some of the ", part.model.layers, " of model '", part.model.name, "'");
  const std::size_t hidden = part.hidden(), ffn = part.ffn(), vocab = part.vocab();
  const HeadShape heads = part.heads();
  for (std::int32_t l = part.first_layer; l < part.first_layer + part.layers; ++l) {
    const std::string layer = concat("layers.", l, ".");
    add(layer + "attention_norm", 1, hidden);
    add(layer + "qkv", hidden, heads.query_width() + 2 * heads.kv_width());
    add(layer + "output", heads.query_width(), hidden);
    add(layer + "mlp_norm", 1, hidden);
    add(layer + "gate_up", hidden, 2 * ffn);
    add(layer + "down", ffn, hidden);
  }
  if (part.first) add("embedding", vocab, hidden);
  if (part.last) {
    add("final_norm", 1, hidden);
    add("head", hidden, vocab);
  }
  const std::size_t size = tensors_.empty() ? 0 : tensors_.back().offset + tensors_.back().size();
  parameters_.resize(size);
  gradients_.resize(size);
}

template <class Real>
void StageWeights<Real>::add(std::string name, std::size_t rows, std::size_t cols) {
  const std::size_t offset = tensors_.empty() ? 0 : tensors_.back().offset + tensors_.back().size();
  tensors_.push_back({std::move(name), offset, rows, cols});
}

template <class Real>
void StageWeights<Real>::initialise(const InitOptions& options) {
  require(options.deviation > 0, "deviation is ", options.deviation, "; expected a positive number");
  for (const WeightTensor& tensor : tensors_) {
    const auto weights = std::span(parameters_).subspan(tensor.offset, tensor.size());
    if (ends_with(tensor.name, "norm")) {
      std::fill(weights.begin(), weights.end(), Real{1});
      continue;
    }
    const bool residual = ends_with(tensor.name, ".output") || ends_with(tensor.name, ".down");
    const double deviation = options.deviation / (residual ? std::sqrt(2.0 * part_.model.layers) : 1.0);
    const std::uint64_t seed = mixed(options.seed, hash(tensor.name));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double unit = static_cast<double>(mixed(seed, i) >> 11) * 0x1p-53;  // uniform in [0, 1)
      weights[i] = static_cast<Real>(deviation * std::sqrt(12.0) * (unit - 0.5));
    }
  }
}

template <class Real>
template <class T>
LayerWeights<T> StageWeights<Real>::layer_of(T* buffer, std::size_t layer) const {
  const WeightTensor* tensor = &tensors_[layer * tensors_per_layer];
  const auto vector = [&](std::size_t i) {
    return std::span<T>(buffer + tensor[i].offset, tensor[i].size());
  };
  const auto matrix = [&](std::size_t i) {
    return MatrixView<T>(buffer + tensor[i].offset, tensor[i].rows, tensor[i].cols);
  };
  return {vector(0), matrix(1), matrix(2), vector(3), matrix(4), matrix(5)};
}

template <class Real>
template <class T>
EndWeights<T> StageWeights<Real>::ends_of(T* buffer) const {
  EndWeights<T> out;
  for (std::size_t i = part_.layer_count() * tensors_per_layer; i < tensors_.size(); ++i) {
    const WeightTensor& tensor = tensors_[i];
    const MatrixView<T> matrix(buffer + tensor.offset, tensor.rows, tensor.cols);
    if (tensor.name == "embedding") out.embedding = matrix;
    if (tensor.name == "final_norm") out.final_norm = {matrix.data, tensor.size()};
    if (tensor.name == "head") out.head = matrix;
  }
  return out;
}

template class StageWeights<float>;
template class StageWeights<double>;
template LayerWeights<const float> StageWeights<float>::layer_of(const float*, std::size_t) const;
template LayerWeights<float> StageWeights<float>::layer_of(float*, std::size_t) const;
template LayerWeights<const double> StageWeights<double>::layer_of(const double*, std::size_t) const;
template LayerWeights<double> StageWeights<double>::layer_of(double*, std::size_t) const;
template EndWeights<const float> StageWeights<float>::ends_of(const float*) const;
template EndWeights<float> StageWeights<float>::ends_of(float*) const;
template EndWeights<const double> StageWeights<double>::ends_of(const double*) const;
template EndWeights<double> StageWeights<double>::ends_of(double*) const;

}  // namespace slimpack::kernels
