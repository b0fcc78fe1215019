#pragma once

#include <cstddef>

#include "kernels/math/matrix.hpp"
#include "kernels/model/fragments.hpp"
#include "kernels/model/layout.hpp"
#include "kernels/model/pool.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Activations of a stage, addressed by sample and token, in fragments (see `FragmentTable`): memory is taken when the
/// forward pack runs and goes when the backward pack has, token by token.
template <class Real>
class ActivationStore {
 public:
  /// @param memory has to outlive the store.
  ActivationStore(const StagePart& part, BufferPool<Real>& memory) : layout_(part), memory_(memory) {}

  ActivationStore(ActivationStore&&) = delete;
  ActivationStore& operator=(ActivationStore&&) = delete;
  ~ActivationStore() { clear(); }

  /// Finds the fragments of a step; frees what is left of the one before. O(n log n) in the stage's slices.
  void begin_step(const StageProgram& program);

  /// Takes memory for the tokens of a forward task. @throws InvalidInput if that exceeds the limit.
  void allocate(const StageTask& task);

  /// Copies rows of a forward task's tokens into the store, but for tokens whose layer is recomputed.
  /// @param rows [owned tokens x width of the field]
  void save(const StageTask& task, Kept field, std::size_t layer, const MatrixView<const Real>& rows);

  /// Copies rows of a task's tokens out of the store. @param rows [owned tokens x width of the field]
  void load(const StageTask& task, Kept field, std::size_t layer, const MatrixView<Real>& rows) const;

  /// Frees the memory of a backward or weight task's tokens. Does nothing if that has happened.
  void free(const StageTask& task);

  /// Frees all.
  void clear();

 private:
  using Fragment = typename FragmentTable<Buffer<Real>>::Fragment;

  ActivationLayout layout_;
  BufferPool<Real>& memory_;
  FragmentTable<Buffer<Real>> fragments_;
};

}  // namespace slimpack::kernels
