#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "kernels/math/matrix.hpp"
#include "kernels/model/stage.hpp"
#include "kernels/model/weights.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// A back end: one stage of a model on some device, as `CpuStage` is on the CPU. It says there what each member does.
/// `Number` is what rows, weights and gradients consist of, as they travel between ranks.
template <class S>
concept StageBackEnd = std::constructible_from<S, const StagePart&, const StageOptions&> &&
    requires(S& s, const StageProgram& program, const StageTask& task, const Ragged<std::int32_t>& ids,
             const MatrixView<const typename S::Number>& rows, RingShift<typename S::Number> shift,
             AllToAll<typename S::Number> exchange) {
  { s.part() } -> std::convertible_to<const StagePart&>;
  { s.weights().parameters() } -> std::convertible_to<std::span<typename S::Number>>;
  { s.weights().gradients() } -> std::convertible_to<std::span<typename S::Number>>;
  { s.memory() } -> std::same_as<HighWater&>;
  s.set_ring_shift(shift);
  s.set_all_to_all(exchange);
  s.begin_step(program, ids);
  { s.forward(task, rows) } -> std::convertible_to<MatrixView<const typename S::Number>>;
  { s.backward(task, rows) } -> std::convertible_to<MatrixView<const typename S::Number>>;
  s.weight(task);
  s.release(task);
  { s.loss() } -> std::convertible_to<double>;
};

}  // namespace slimpack::kernels
