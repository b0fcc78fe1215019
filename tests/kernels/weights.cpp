#include "kernels/model/weights.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "slimpack/core/error.hpp"

using namespace slimpack;
using namespace slimpack::kernels;

namespace {

const Transformer model{"tiny", 6, 16, 4, 2, 8, 24, 50};

Plan plan_of(std::vector<std::int32_t> layers) {
  Plan plan;
  plan.pipelines.push_back({.id = 0, .layers = std::move(layers), .order = {}});
  return plan;
}

/// All weights of a model cut into stages, by name.
template <class Real>
std::map<std::string, std::vector<Real>> by_name(const std::vector<std::int32_t>& layers,
                                                 std::uint64_t seed) {
  std::map<std::string, std::vector<Real>> out;
  const Plan plan = plan_of(layers);
  for (std::size_t s = 0; s < layers.size(); ++s) {
    StageWeights<Real> weights(stage_part(model, plan, 0, s));
    weights.initialise({.seed = seed});
    for (const WeightTensor& t : weights.tensors()) {
      const auto part = weights.parameters().subspan(t.offset, t.size());
      CHECK(out.emplace(t.name, std::vector<Real>(part.begin(), part.end())).second);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("weights are the same for any number of stages, and depend on the seed") {
  const auto whole = by_name<double>({6}, 3);
  CHECK(whole.size() == 6 * 6 + 3);
  CHECK(by_name<double>({1, 2, 3}, 3) == whole);
  CHECK(by_name<double>({2, 0, 1, 1, 1, 1}, 3) == whole);
  CHECK(by_name<double>({6}, 4) != whole);
  const auto rounded = by_name<float>({3, 3}, 3);
  for (const auto& [name, values] : whole) {
    INFO(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (rounded.at(name)[i] != static_cast<float>(values[i])) FAIL_CHECK("differs in float at " << i);
    }
  }
  CHECK(whole.at("layers.0.qkv") != whole.at("layers.1.qkv"));
}

TEST_CASE("weights have the mean and deviation that was asked for") {
  const auto whole = by_name<double>({6}, 7);
  for (const auto& [name, values] : whole) {
    INFO(name);
    double sum = 0, square = 0;
    for (const double w : values) {
      sum += w;
      square += w * w;
    }
    const double n = double(values.size());
    if (name.ends_with("norm")) {
      CHECK(sum == n);
      continue;
    }
    const bool residual = name.ends_with("output") || name.ends_with("down");
    const double expected = residual ? 0.02 / std::sqrt(12.0) : 0.02;
    CHECK(std::abs(sum / n) < 5 * expected / std::sqrt(n));
    CHECK(std::sqrt(square / n) == Approx(expected).epsilon(0.15));
  }
}

TEST_CASE("views cover a stage's buffers without gap or overlap") {
  for (const auto& layers : std::vector<std::vector<std::int32_t>>{{6}, {1, 5}, {2, 2, 2}, {0, 6}}) {
    double held = 0;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const StagePart part = stage_part(model, plan_of(layers), 0, s);
      StageWeights<double> weights(part);
      const auto mark_span = [](auto view) {
        for (double& x : view) x += 1;
      };
      const auto mark = [&](auto view) { mark_span(std::span(view.data, view.rows * view.cols)); };
      for (std::size_t l = 0; l < part.layer_count(); ++l) {
        const auto g = weights.layer_gradients(l);
        mark_span(g.attention_norm);
        mark_span(g.mlp_norm);
        for (const auto& m : {g.qkv, g.output, g.gate_up, g.down}) mark(m);
        CHECK(weights.layer(l).down.rows == 24);
        CHECK(weights.layer(l).qkv.cols == 64);
      }
      const auto ends = weights.end_gradients();
      mark(ends.embedding);
      mark(ends.head);
      mark_span(ends.final_norm);
      for (const double x : weights.gradients()) {
        if (x != 1) FAIL_CHECK("covered " << x << " times");
      }
      held += double(weights.parameters().size());
    }
    CHECK(held == parameters(model));
  }
}

TEST_CASE("parts that are not of the model are refused") {
  CHECK_THROWS_WITH(stage_part(model, plan_of({3, 4}), 0, 0),
                    Catch::StartsWith("stages of pipeline 0 hold 7 layers"));
  CHECK_THROWS_AS(stage_part(model, plan_of({3, 3}), 0, 2), InvalidInput);
  CHECK_THROWS_AS(stage_part(model, plan_of({3, 3}), 1, 0), InvalidInput);
  CHECK_THROWS_AS(StageWeights<float>({.model = model, .first_layer = 4, .layers = 3}), InvalidInput);
  CHECK_THROWS_AS(StageWeights<float>({.model = Transformer{}}), InvalidInput);
  StageWeights<float> weights({.model = model, .layers = 1});
  CHECK_THROWS_AS(weights.initialise({.deviation = 0.0}), InvalidInput);
}

TEST_CASE("units of weights are the same wherever they are held, and make up a stage") {
  std::map<std::int32_t, std::size_t> sizes;
  for (const std::vector<std::int32_t>& layers :
       std::vector<std::vector<std::int32_t>>{{6}, {2, 4}, {0, 4, 2}, {1, 1, 2, 1, 1}}) {
    std::set<std::int32_t> places;
    std::int32_t before = 0;
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const StagePart part{model, before, layers[s], s == 0, s + 1 == layers.size()};
      const WeightLayout layout(part);
      before += layers[s];
      std::size_t numbers = 0;
      std::int32_t last = -1;
      for (const WeightUnit& unit : layout.units()) {
        CHECK(unit.place > last);
        last = unit.place;
        CHECK(places.insert(unit.place).second);
        CHECK(stage_of_unit(layers, unit.place) == s);
        CHECK(sizes.try_emplace(unit.place, unit.numbers.size()).first->second == unit.numbers.size());
        numbers += unit.numbers.size();
      }
      CHECK(numbers == layout.size());
    }
    CHECK(places.size() == 8);
  }
}

TEST_CASE("tensor-parallel ranks have the model's weights, each share the same numbers in the same order") {
  const Transformer wide{"wide", 2, 6, 8, 4, 2, 9, 11};  // whose MLP and vocabulary can't be shared equally
  std::map<std::pair<std::int32_t, std::size_t>, std::vector<double>> known;  // by unit and share
  for (const std::size_t size : {1U, 2U, 4U}) {
    double shared = 0.0, common = 0.0;
    for (std::size_t rank = 0; rank < size; ++rank) {
      INFO("rank " << rank << " of " << size);
      const StagePart part{.model = wide, .first_layer = 0, .layers = 2, .tensor = {size, rank}};
      StageWeights<double> weights(part);
      weights.initialise({.seed = 5});
      CHECK(double(weights.parameters().size()) == weight_count(part));
      std::vector<int> covered(weights.parameters().size());
      for (const WeightPiece& piece : weights.layout().pieces(4)) {
        std::vector<double> numbers;
        for (const Part& run : piece.runs) {
          for (std::size_t i = run.begin; i < run.end; ++i) {
            ++covered[i];
            numbers.push_back(weights.parameters()[i]);
          }
        }
        CHECK(numbers.size() == piece.size());
        CHECK(known.try_emplace({piece.place, piece.share}, numbers).first->second == numbers);
        (piece.share == 4 ? common : shared) += double(piece.size());
      }
      CHECK(covered == std::vector<int>(covered.size(), 1));
      CHECK_THROWS_WITH(weights.layout().pieces(3), Catch::Contains("shares; expected a "));
    }
    CHECK(shared + common / double(size) == parameters(wide));
  }
  CHECK(known.size() == 4 * 4 + 3);  // norms of two layers, and the final one
  CHECK_THROWS_WITH(require_tensor_ranks(wide, 3), Catch::Contains("tp is 3; expected a divisor of the 4"));
}
