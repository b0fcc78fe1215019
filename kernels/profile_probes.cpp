#include "kernels/profile_probes.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace slimpack::kernels {

namespace {

/// A probe's samples and packs.
struct Shape {
  std::vector<Tokens> lengths;
  Packs forward, backward;
};

/// The next tokens of a new sample or of the last one, in the open pack.
class ShapeBuilder {
 public:
  ShapeBuilder& sample(Tokens tokens) {
    shape_.lengths.push_back(0);
    return more(tokens);
  }
  /// More of the last sample.
  ShapeBuilder& more(Tokens tokens) {
    Tokens& length = shape_.lengths.back();
    shape_.forward.add({static_cast<SampleId>(shape_.lengths.size() - 1), length, length + tokens});
    length += tokens;
    return *this;
  }
  ShapeBuilder& close() {
    shape_.forward.close();
    return *this;
  }
  /// Backward packs are the forward ones in reverse order.
  [[nodiscard]] Shape finish() {
    for (std::size_t k = shape_.forward.size(); k-- > 0;) {
      for (const Slice& slice : shape_.forward[k]) shape_.backward.add(slice);
      shape_.backward.close();
    }
    return std::move(shape_);
  }

 private:
  Shape shape_;
};

/// Lengths, prefixes and numbers of slices, each varied by itself.
std::vector<Shape> regular_shapes(Tokens t) {
  std::vector<Shape> shapes;
  ShapeBuilder whole, long_sample, behind_prefix, short_samples, mixed;
  for (const Tokens part : {1, 2, 4, 8}) whole.sample(t / part).close();
  shapes.push_back(whole.finish());
  long_sample.sample(t).close();
  for (int i = 0; i < 3; ++i) long_sample.more(t).close();
  shapes.push_back(long_sample.finish());
  for (const Tokens part : {4, 8, 16}) {
    for (Tokens i = 0; i < part; ++i) short_samples.sample(t / part);
    short_samples.close();
  }
  shapes.push_back(short_samples.finish());
  behind_prefix.sample(t).close();
  for (const Tokens part : {2, 4, 8}) behind_prefix.more(t / part).close();
  shapes.push_back(behind_prefix.finish());
  for (int i = 0; i < 4; ++i) mixed.sample(t / 8);
  mixed.sample(t / 2).close().more(t / 4);
  for (int i = 0; i < 4; ++i) mixed.sample(t / 16);
  shapes.push_back(mixed.close().finish());
  return shapes;
}

/// Cuts samples, one after another, into packs of up to `most` tokens.
Packs cut_forward(std::span<const Tokens> lengths, Tokens most) {
  Packs packs;
  Tokens room = most;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (Tokens begin = 0; begin < lengths[i];) {
      const Tokens size = std::min(room, lengths[i] - begin);
      packs.add({static_cast<SampleId>(i), begin, begin + size});
      begin += size;
      room -= size;
      if (room > 0) continue;
      packs.close();
      room = most;
    }
  }
  if (room < most) packs.close();
  return packs;
}

/// The same from the last token to the first.
Packs cut_backward(std::span<const Tokens> lengths, Tokens most) {
  const std::vector<Tokens> mirrored(lengths.rbegin(), lengths.rend());
  const Packs cut = cut_forward(mirrored, most);
  Packs packs;
  for (std::size_t k = 0; k < cut.size(); ++k) {
    for (const Slice& s : cut[k]) {
      const std::size_t i = lengths.size() - 1 - s.sample;
      packs.add({static_cast<SampleId>(i), lengths[i] - s.end, lengths[i] - s.begin});
    }
    packs.close();
  }
  return packs;
}

Shape random_shape(Tokens t, std::mt19937_64& random) {
  const auto between = [&](double low, double high) {  // evenly in the logarithm
    const double share = std::uniform_real_distribution<double>(0.0, 1.0)(random);
    const double unit = static_cast<double>(t);
    return std::max(Tokens{1}, static_cast<Tokens>(unit * low * std::pow(high / low, share)));
  };
  Shape shape;
  for (Tokens sum = 0; sum < 3 * t; sum += shape.lengths.back())
    shape.lengths.push_back(between(1.0 / 8, 3.0));
  shape.forward = cut_forward(shape.lengths, between(0.25, 1.5));
  shape.backward = cut_backward(shape.lengths, between(0.25, 1.5));
  return shape;
}

void fill_pass(const Packs& packs, PassPlan& out) {
  const PipelineId only[] = {0};
  out.packs = packs;
  out.pipelines.repeat_row(packs.size(), only);
}

Plan plan_of(const Transformer& model, std::span<const std::int32_t> layers, std::vector<Tokens> lengths,
             const Packs& forward, const Packs& backward, const Ragged<std::int32_t>& recompute) {
  Plan plan;
  plan.planner = "probe";
  plan.model = probe_model(model, layers);
  plan.tokens = std::move(lengths);
  fill_pass(forward, plan.forward);
  fill_pass(backward, plan.backward);
  plan.backward.recompute_layers = recompute;
  std::vector<Task> order;
  for (std::size_t k = 0; k < forward.size(); ++k) order.push_back({Pass::forward, static_cast<PackId>(k)});
  for (std::size_t k = 0; k < backward.size(); ++k) order.push_back({Pass::backward, static_cast<PackId>(k)});
  PipelinePlan pipeline;
  pipeline.layers.assign(layers.begin(), layers.end());
  pipeline.order.assign(layers.size(), order);
  plan.pipelines.push_back(std::move(pipeline));
  return plan;
}

/// Zero of none.
double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0.0;
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace

std::vector<std::int32_t> probe_layers(const Transformer& model, std::int32_t several) {
  const std::int32_t n = several > 0 ? several : std::clamp(model.layers / 2, 2, 4);
  return {n, std::max(n - 1, 1), n, n};
}

Transformer probe_model(const Transformer& model, std::span<const std::int32_t> layers) {
  Transformer whole = model;
  whole.layers = 0;
  for (const std::int32_t n : layers) whole.layers += n;
  return whole;
}

Probe::Probe(std::size_t number, const Transformer& model, std::span<const std::int32_t> layers,
             std::vector<Tokens> lengths, const Packs& forward, const Packs& backward,
             const Ragged<std::int32_t>& recompute, bool held_out)
    : number_(number), held_out_(held_out) {
  plan_ =
      std::make_unique<const Plan>(plan_of(model, layers, std::move(lengths), forward, backward, recompute));
  for (std::size_t s = 0; s < layers.size(); ++s) programs_.emplace_back(*plan_, PipelineId{0}, s);
  std::mt19937_64 random(number);
  for (const Tokens length : plan_->tokens) {
    for (std::int32_t& id : ids_.add_row(static_cast<std::size_t>(length)))
      id = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(model.vocab));
  }
}

std::vector<Probe> make_probes(const Transformer& model, std::span<const std::int32_t> layers, Tokens tokens,
                               std::uint64_t seed) {
  constexpr int random_probes = 3;
  std::mt19937_64 random(seed);
  std::vector<Probe> probes;
  const auto add = [&](const Shape& shape, bool held_out) {
    Ragged<std::int32_t> recompute;
    for (std::size_t k = 0; k < shape.backward.size(); ++k) {
      const bool recomputes = random() % 2 == 0;
      for (const std::int32_t n : layers) {
        const auto any = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(n + 1));
        recompute.add(!recomputes ? 0 : held_out ? any : n);
      }
      recompute.close();
    }
    probes.emplace_back(probes.size(), model, layers, shape.lengths, shape.forward, shape.backward, recompute,
                        held_out);
  };
  for (const Shape& shape : regular_shapes(tokens)) add(shape, false);
  for (int i = 0; i < random_probes; ++i) add(random_shape(tokens, random), true);
  return probes;
}

MeasuredTask measured_task(const StageProgram& program, const StageTask& task) {
  return {.pass = task.pass,
          .layers = program.layers(),
          .recompute_layers = task.recompute_layers,
          .first = program.first(),
          .last = program.last(),
          .slices = {task.slices.begin(), task.slices.end()}};
}

ProbeTimes::ProbeTimes(std::span<const Probe> probes) {
  for (const Probe& probe : probes) {
    auto& stages = seconds_.emplace_back();
    for (std::size_t s = 0; s < probe.stages(); ++s) stages.emplace_back(probe.program(s).tasks().size());
  }
}

void ProbeTimes::medians(std::span<const Probe> probes, std::vector<MeasuredTask>& fitted,
                         std::vector<MeasuredTask>& held_out) const {
  for (const Probe& probe : probes) {
    for (std::size_t s = 0; s < probe.stages(); ++s) {
      const StageProgram& program = probe.program(s);
      for (std::size_t i = 0; i < program.tasks().size(); ++i) {
        MeasuredTask& measured =
            (probe.held_out() ? held_out : fitted).emplace_back(measured_task(program, program.tasks()[i]));
        measured.seconds = median(seconds_[probe.number()][s][i]);
      }
    }
  }
}

}  // namespace slimpack::kernels
