#pragma once

// For the kernels' own sources only. They may be compiled for this machine's processor, a program that links
// them for any. If both used Eigen under its own name, the linker would mix functions that expect
// differently aligned memory. So here it has another name.
#define Eigen slimpack_kernels_eigen
#include <Eigen/Core>
#include <type_traits>

#include "kernels/math/matrix.hpp"

namespace slimpack::kernels::detail {

using Index = Eigen::Index;

template <class Real>
using RowMajor = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class Real>
using MatrixMap = Eigen::Map<RowMajor<Real>, 0, Eigen::OuterStride<>>;
template <class Real>
using ConstMatrixMap = Eigen::Map<const RowMajor<Real>, 0, Eigen::OuterStride<>>;
template <class Real>
using ArrayMap = Eigen::Map<Eigen::Array<Real, Eigen::Dynamic, 1>>;
template <class Real>
using ConstArrayMap = Eigen::Map<const Eigen::Array<Real, Eigen::Dynamic, 1>>;

template <class Real>
[[nodiscard]] auto map(const MatrixView<Real>& m) {
  using Map = std::conditional_t<std::is_const_v<Real>, ConstMatrixMap<std::remove_const_t<Real>>,
                                 MatrixMap<std::remove_const_t<Real>>>;
  return Map(m.data, static_cast<Index>(m.rows), static_cast<Index>(m.cols),
             Eigen::OuterStride<>(static_cast<Index>(m.stride)));
}

template <class Real>
[[nodiscard]] auto array(Real* data, std::size_t size) {
  using Map = std::conditional_t<std::is_const_v<Real>, ConstArrayMap<std::remove_const_t<Real>>,
                                 ArrayMap<std::remove_const_t<Real>>>;
  return Map(data, static_cast<Index>(size));
}

}  // namespace slimpack::kernels::detail
