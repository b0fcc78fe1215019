#pragma once

#include <cstddef>

#include "kernels/math/matrix.hpp"
#include "kernels/model/fragments.hpp"
#include "kernels/model/layout.hpp"
#include "kernels/model/pool.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Activations of a stage, addressed by sample and token, in fragments (see `FragmentTable`): memory is taken when the
/// forward pack runs and goes when the backward pack has, token by token. Offloaded layers are written to the host's
/// memory and read from there, layer by layer, so that the task's workspace is all that they need besides.
template <class Real>
class ActivationStore {
 public:
  /// @param memory, host have to outlive the store.
  ActivationStore(const StagePart& part, BufferPool<Real>& memory, BufferPool<Real>& host)
      : layout_(part), tensor_(part.tensor), memory_(memory), host_(host) {}

  ActivationStore(ActivationStore&&) = delete;
  ActivationStore& operator=(ActivationStore&&) = delete;
  ~ActivationStore() { clear(); }

  /// Finds the fragments of a step; frees what is left of the one before. O(n log n) in the stage's slices.
  void begin_step(const StageProgram& program);

  /// Takes memory for the tokens of a forward task. @throws InvalidInput if that exceeds a limit.
  void allocate(const StageTask& task);

  /// Copies rows of a forward task's tokens into the store, but for tokens whose layer is recomputed.
  /// @param rows [owned tokens x width of the field]; of the residual stream [rows x hidden], those of the rank
  void save(const StageTask& task, Kept field, std::size_t layer, const MatrixView<const Real>& rows);

  /// Copies rows of a task's tokens out of the store. @param rows as for `save`.
  void load(const StageTask& task, Kept field, std::size_t layer, const MatrixView<Real>& rows) const;

  /// Frees the memory of a backward or weight task's tokens. Does nothing if that has happened.
  void free(const StageTask& task);

  /// Frees all.
  void clear();

 private:
  struct Places {
    Buffer<Real> device, host;  ///< the second one is empty if nothing is offloaded
  };
  using Fragment = typename FragmentTable<Places>::Fragment;

  [[nodiscard]] Real* rows_of(const Fragment& fragment, Kept field, std::size_t layer) const;
  [[nodiscard]] std::size_t rows(const Fragment& fragment) const {
    return static_cast<std::size_t>(tensor_.count(fragment.tokens));
  }
  [[nodiscard]] std::size_t tokens(const Fragment& fragment) const {
    return static_cast<std::size_t>(fragment.tokens.size());
  }
  [[nodiscard]] ActivationLayout layout_of(const Fragment& fragment) const {
    return layout_.of(tokens(fragment), rows(fragment));
  }
  /// Calls f(fragment, first row, rows) for the fragments of a task, with the rows that the rank has of a field.
  template <class Fragments, class F>
  void for_each_rows(Fragments& fragments, const StageTask& task, Kept field, F&& f) const {
    std::size_t row = 0;
    fragments.for_each(task, [&](auto& fragment, std::size_t) {
      const std::size_t count = ActivationLayout::is_residual(field) ? rows(fragment) : tokens(fragment);
      f(fragment, row, count);
      row += count;
    });
  }
  void give_back(Fragment& fragment);

  ActivationLayout layout_;
  TensorShare tensor_;
  BufferPool<Real>&memory_, &host_;
  FragmentTable<Places> fragments_;
};

}  // namespace slimpack::kernels
