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

void require_tensor_ranks(const Transformer& model, std::size_t ranks) {
  const auto kv_heads = static_cast<std::size_t>(model.kv_heads);
  require(ranks > 0 && kv_heads % ranks == 0, "tp is ", ranks, "; expected a divisor of the ", model.kv_heads,
          " key/value heads of model '", model.name, "', which tensor-parallel ranks share");
  for (const auto& [what, n] : {std::pair{"columns of the feed-forward network", model.ffn},
                                std::pair{"tokens in the vocabulary", model.vocab}}) {
    require(ranks <= static_cast<std::size_t>(n), "tp is ", ranks, "; expected at most the ", n, " ", what,
            " of model '", model.name, "'");
  }
}

StagePart stage_part(const Transformer& model, const Plan& plan, const RankPlace& place) {
  StagePart part = stage_part(model, plan, place.pipeline, place.stage);
  part.tensor = {static_cast<std::size_t>(plan.pipelines[place.pipeline].tp), place.tensor};
  require_tensor_ranks(model, part.tensor.size);
  return part;
}

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

WeightLayout::WeightLayout(const StagePart& part) : part_(part) {
  validate(part.model);
  require(part.first_layer >= 0 && part.layers >= 0 && part.layers <= part.model.layers - part.first_layer,
          "a stage holds ", part.layers, " layers from layer ", part.first_layer,
          " on; expected some of the ", part.model.layers, " of model '", part.model.name, "'");
  require_tensor_ranks(part.model, part.tensor.size);
  require(part.tensor.rank < part.tensor.size, "the tensor-parallel rank is ", part.tensor.rank,
          "; expected below ", part.tensor.size);
  const StagePart whole{.model = part.model};
  const std::size_t hidden = whole.hidden(), ffn = whole.ffn(), vocab = whole.vocab();
  const std::size_t query = whole.heads().query_width(), keys = whole.heads().kv_width();
  constexpr TensorSplit rows = TensorSplit::rows, columns = TensorSplit::columns;
  for (std::int32_t l = part.first_layer; l < part.first_layer + part.layers; ++l) {
    const std::string layer = concat("layers.", l, ".");
    add(layer + "attention_norm", hidden);
    add(layer + "qkv", columns, {query, keys, keys}, hidden);
    add(layer + "output", rows, {query}, hidden);
    add(layer + "mlp_norm", hidden);
    add(layer + "gate_up", columns, {ffn, ffn}, hidden);
    add(layer + "down", rows, {ffn}, hidden);
  }
  if (part.first) add("embedding", rows, {vocab}, hidden);
  if (part.last) {
    add("final_norm", hidden);
    add("head", columns, {vocab}, hidden);
  }
}

void WeightLayout::add(std::string name, TensorSplit split, std::vector<std::size_t> sections,
                       std::size_t other) {
  std::size_t own = 0;
  for (const std::size_t section : sections)
    own += part_of(section, part_.tensor.size, part_.tensor.rank).size();
  const bool by_rows = split == TensorSplit::rows;
  tensors_.push_back(
      {std::move(name), size(), by_rows ? own : other, by_rows ? other : own, split, std::move(sections)});
}

/// Runs that touch become one.
void WeightLayout::add_runs(const WeightTensor& tensor, std::size_t shares, std::size_t i,
                            WeightPiece& piece) const {
  for_each_run(tensor, shares, i, [&](std::size_t here, std::size_t, std::size_t numbers) {
    const std::size_t begin = tensor.offset + here;
    if (!piece.runs.empty() && piece.runs.back().end == begin) {
      piece.runs.back().end += numbers;
    } else if (numbers > 0) {
      piece.runs.push_back({begin, begin + numbers});
    }
  });
}

std::vector<WeightPiece> WeightLayout::pieces(std::size_t shares) const {
  const auto [ranks, rank] = part_.tensor;
  require(shares > 0 && shares % ranks == 0, "weights are cut into ", shares,
          " shares; expected a multiple of the ", ranks, " tensor-parallel ranks");
  require(static_cast<std::size_t>(part_.model.kv_heads) % shares == 0, "weights are cut into ", shares,
          " shares; expected a divisor of the ", part_.model.kv_heads, " key/value heads");
  std::vector<WeightPiece> pieces;
  for (const WeightUnit& unit : units()) {
    if (shares == 1) {
      pieces.push_back({unit.place, 0, {unit.numbers}});
      continue;
    }
    const auto in_unit = [&](const WeightTensor& tensor) {
      return unit.numbers.begin <= tensor.offset && tensor.offset < unit.numbers.end;
    };
    for (std::size_t i = rank * (shares / ranks); i < (rank + 1) * (shares / ranks); ++i) {
      WeightPiece& piece = pieces.emplace_back(WeightPiece{unit.place, i, {}});
      for (const WeightTensor& tensor : tensors_) {
        if (in_unit(tensor) && tensor.split != TensorSplit::none) add_runs(tensor, shares, i, piece);
      }
    }
    WeightPiece common{unit.place, shares, {}};
    for (const WeightTensor& tensor : tensors_) {
      if (in_unit(tensor) && tensor.split == TensorSplit::none) add_runs(tensor, shares, shares, common);
    }
    if (!common.runs.empty()) pieces.push_back(std::move(common));
  }
  return pieces;
}

std::size_t stage_of_unit(std::span<const std::int32_t> layers, std::int32_t place) {
  if (place == 0) return 0;
  std::int32_t before = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    before += layers[s];
    if (place <= before) return s;
  }
  return layers.size() - 1;
}

std::vector<WeightUnit> WeightLayout::units() const {
  const auto unit = [&](std::int32_t place, std::size_t first_tensor, std::size_t count) {
    const WeightTensor& last = tensors_[first_tensor + count - 1];
    return WeightUnit{place, {tensors_[first_tensor].offset, last.offset + last.size()}};
  };
  std::vector<WeightUnit> units;
  const std::size_t ends = part_.layer_count() * tensors_per_layer;
  if (part_.first) units.push_back(unit(0, ends, 1));
  for (std::int32_t l = 0; l < part_.layers; ++l) {
    const std::size_t first = static_cast<std::size_t>(l) * tensors_per_layer;
    units.push_back(unit(part_.first_layer + l + 1, first, tensors_per_layer));
  }
  if (part_.last) units.push_back(unit(part_.model.layers + 1, ends + (part_.first ? 1 : 0), 2));
  return units;
}

template <class Real>
void WeightLayout::initial(const InitOptions& options, const WeightTensor& tensor, std::size_t first,
                           std::span<Real> out) const {
  require(options.deviation > 0, "deviation is ", options.deviation, "; expected a positive number");
  if (ends_with(tensor.name, "norm")) {
    std::fill(out.begin(), out.end(), Real{1});
    return;
  }
  const bool residual = ends_with(tensor.name, ".output") || ends_with(tensor.name, ".down");
  const double deviation = options.deviation / (residual ? std::sqrt(2.0 * part_.model.layers) : 1.0);
  const std::uint64_t seed = mixed(options.seed, hash(tensor.name));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double unit = static_cast<double>(mixed(seed, first + i) >> 11) * 0x1p-53;  // uniform in [0, 1)
    out[i] = static_cast<Real>(deviation * std::sqrt(12.0) * (unit - 0.5));
  }
}

template void WeightLayout::initial(const InitOptions&, const WeightTensor&, std::size_t,
                                    std::span<float>) const;
template void WeightLayout::initial(const InitOptions&, const WeightTensor&, std::size_t,
                                    std::span<double>) const;

}  // namespace slimpack::kernels
