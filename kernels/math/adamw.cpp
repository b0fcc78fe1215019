#include "kernels/math/adamw.hpp"

#include <cmath>
#include <cstddef>

#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

void validate(const AdamWOptions& o) {
  require(o.learning_rate > 0, "learning_rate is ", o.learning_rate, "; expected a positive number");
  require(o.beta1 >= 0 && o.beta1 < 1, "beta1 is ", o.beta1, "; expected a number in [0, 1)");
  require(o.beta2 >= 0 && o.beta2 < 1, "beta2 is ", o.beta2, "; expected a number in [0, 1)");
  require(o.epsilon > 0, "epsilon is ", o.epsilon, "; expected a positive number");
  require(o.weight_decay >= 0, "weight_decay is ", o.weight_decay, "; expected at least 0");
}

}  // namespace

template <class Real>
void adamw(std::span<Real> weights, std::span<const Real> gradients, std::span<Real> first,
           std::span<Real> second, std::int64_t step, const AdamWOptions& options) {
  validate(options);
  require(step >= 1, "step is ", step, "; expected at least 1");
  require(
      gradients.size() == weights.size() && first.size() == weights.size() && second.size() == weights.size(),
      "there are ", weights.size(), " weights, ", gradients.size(), " gradients and moments of ",
      first.size(), " and ", second.size(), "; expected equally many");
  const auto n = static_cast<double>(step);
  const auto b1 = static_cast<Real>(options.beta1), b2 = static_cast<Real>(options.beta2);
  const auto correction1 = static_cast<Real>(1.0 / (1.0 - std::pow(options.beta1, n)));
  const auto correction2 = static_cast<Real>(1.0 / (1.0 - std::pow(options.beta2, n)));
  const auto rate = static_cast<Real>(options.learning_rate), epsilon = static_cast<Real>(options.epsilon);
  const auto kept = static_cast<Real>(1.0 - options.learning_rate * options.weight_decay);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Real g = gradients[i];
    first[i] = b1 * first[i] + (1 - b1) * g;
    second[i] = b2 * second[i] + (1 - b2) * g * g;
    const Real change = correction1 * first[i] / (std::sqrt(correction2 * second[i]) + epsilon);
    weights[i] = kept * weights[i] - rate * change;
  }
}

template void adamw(std::span<float>, std::span<const float>, std::span<float>, std::span<float>,
                    std::int64_t, const AdamWOptions&);
template void adamw(std::span<double>, std::span<const double>, std::span<double>, std::span<double>,
                    std::int64_t, const AdamWOptions&);

}  // namespace slimpack::kernels
