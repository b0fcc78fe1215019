#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/visible.hpp"
#include "slimpack/model/device.hpp"
#include "slimpack/model/transformer.hpp"

namespace slimpack {

/// How the devices are divided: `dp` pipelines of `pp` stages of `tp * cp` devices.
struct Layout {
  std::int32_t dp = 1;  ///< data-parallel replicas (pipelines)
  std::int32_t tp = 1;  ///< tensor parallelism, with sequence parallelism
  std::int32_t cp = 1;  ///< context parallelism of every pack
  std::int32_t pp = 1;  ///< pipeline stages

  [[nodiscard]] constexpr std::int64_t devices() const { return std::int64_t{dp} * tp * cp * pp; }
};

/// What is trained, and where.
struct Job {
  Transformer model;
  Device device;
  Layout layout;
};

/// Layers of each of `stages` stages: as even as can be. Stages that hold one more stand first, because the
/// last stage also computes the output head.
[[nodiscard]] inline std::vector<std::int32_t> split_layers(std::int32_t layers, std::int32_t stages) {
  std::vector<std::int32_t> split(static_cast<std::size_t>(stages), layers / stages);
  for (std::int32_t s = 0; s < layers % stages; ++s) ++split[static_cast<std::size_t>(s)];
  return split;
}

/// Parameters of a stage: its layers, the embedding on the first stage, the output head and the final norm on the
/// last. @param layers held by each stage.
[[nodiscard]] inline double stage_parameters(const Transformer& model, std::span<const std::int32_t> layers,
                                             std::size_t stage) {
  double count = layers[stage] * layer_parameters(model);
  if (stage == 0) count += embedding_parameters(model);
  if (stage + 1 == layers.size()) count += embedding_parameters(model) + model.hidden;
  return count;
}

/// @throws InvalidInput naming the first size that no such job can have.
inline void validate(const Job& job) {
  validate(job.model);
  validate(job.device);
  const auto positive = [](const char* name, std::int32_t value) {
    require(value > 0, name, " is ", value, "; expected a positive number");
  };
  positive("dp", job.layout.dp);
  positive("tp", job.layout.tp);
  positive("cp", job.layout.cp);
  positive("pp", job.layout.pp);
  std::int64_t devices = 1;
  for (const std::int32_t size : {job.layout.dp, job.layout.tp, job.layout.cp, job.layout.pp}) {
    devices *= size;
    require(devices <= std::numeric_limits<std::int32_t>::max(), "dp ", job.layout.dp, ", tp ", job.layout.tp,
            ", cp ", job.layout.cp, ", pp ", job.layout.pp, " ask for more than ",
            std::numeric_limits<std::int32_t>::max(), " devices; expected at most that many");
  }
  require(job.layout.pp <= job.model.layers, "pp is ", job.layout.pp, "; expected at most the ",
          job.model.layers, " layers of model '", visible(job.model.name), "'");
  require(job.model.heads % job.layout.tp == 0, "tp is ", job.layout.tp, "; expected a divisor of the ",
          job.model.heads, " heads of model '", visible(job.model.name), "'");
}

}  // namespace slimpack
