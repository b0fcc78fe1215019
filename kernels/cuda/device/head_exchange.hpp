#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/device/block.hpp"
#include "kernels/cuda/portable.hpp"
#include "kernels/math/matrix.hpp"
#include "slimpack/core/error.hpp"

// Merged packs whose members share heads (Jacobs et al., DeepSpeed Ulysses): each has some tokens with all
// heads, and for attention all tokens with some heads. What they exchange is gathered in one buffer, matrix
// by matrix, and each of these member by member.
namespace slimpack::kernels::cuda {

/// Numbers in rows and columns, either of which may be the one that lies together.
template <class T>
struct Strided {
  T* data = nullptr;
  std::size_t rows = 0, cols = 0;
  std::size_t row_stride = 0, col_stride = 1;

  [[nodiscard]] SLIMPACK_HOST_DEVICE T& at(std::size_t row, std::size_t col) const {
    return data[row * row_stride + col * col_stride];
  }
};

/// A matrix of tokens.
template <class T>
[[nodiscard]] Strided<T> strided(const MatrixView<T>& m) {
  return {m.data, m.rows, m.cols, m.stride, 1};
}

/// A matrix [heads x tokens] as one of tokens.
template <class T>
[[nodiscard]] Strided<T> transposed(const MatrixView<T>& m) {
  return {m.data, m.cols, m.rows, 1, m.stride};
}

/// A matrix of which members exchange parts: `tokens` has own tokens with all heads, `heads` all tokens with
/// own heads.
template <class T>
struct SharedMatrix {
  Strided<T> tokens, heads;
  std::size_t sections = 1;  ///< of the tokens' columns, as `MemberColumnsKernel` has them

  /// Bf16 numbers of a token that a member gets.
  [[nodiscard]] std::size_t row_numbers() const { return heads.cols * sizeof(T) / sizeof(Bf16); }
};

/// Matrices of tokens.
template <class T>
[[nodiscard]] SharedMatrix<T> shared(const MatrixView<T>& tokens, const MatrixView<T>& heads,
                                     std::size_t sections = 1) {
  return {strided(tokens), strided(heads), sections};
}

/// Matrices [heads x tokens].
template <class T>
[[nodiscard]] SharedMatrix<T> shared_per_head(const MatrixView<T>& tokens, const MatrixView<T>& heads) {
  return {transposed(tokens), transposed(heads)};
}

/// Own tokens with all heads: to the buffer, or from it. Columns are consecutive sections, such as
/// keys and values, of each of which a member has its share. The buffer is [member][row][its shares of all
/// sections].
/// A warp per member and row, n numbers at a time.
template <class T, int n>
struct MemberColumnsKernel {
  Strided<T> tokens;
  std::size_t members = 1, sections = 1;
  T* buffer = nullptr;
  bool to_buffer = true;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const std::uint32_t share = narrow(tokens.cols / members), part = share / narrow(sections);
    for_each_row_in_grid(warp, tokens.rows * members, [&](std::size_t line) {
      const std::size_t member = line / tokens.rows, row = line - member * tokens.rows;
      T* numbers = buffer + line * share;
      for_each_in_warp<n>(warp, share, [&](int, std::uint32_t i) {
        const std::uint32_t section = i / part;
        T* own = &tokens.at(row, section * (part * members) + member * part + (i - section * part));
        to_buffer ? copy_numbers<n>(numbers + i, static_cast<const T*>(own))
                  : copy_numbers<n>(own, static_cast<const T*>(numbers + i));
      });
    });
  }
};

/// All tokens with own heads: to the buffer, or from it, in the order in which members hold them. A warp per
/// row, n numbers at a time.
template <class T, int n>
struct OrderedRowsKernel {
  Strided<T> heads;
  const std::int32_t* order = nullptr;  ///< [rows]
  T* buffer = nullptr;
  bool to_buffer = true;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for_each_row_in_grid(warp, heads.rows, [&](std::size_t line) {
      const auto row = static_cast<std::size_t>(order[line]);
      T* numbers = buffer + line * heads.cols;
      for_each_in_warp<n>(warp, narrow(heads.cols), [&](int, std::uint32_t i) {
        T* own = &heads.at(row, i);
        to_buffer ? copy_numbers<n>(numbers + i, static_cast<const T*>(own))
                  : copy_numbers<n>(own, static_cast<const T*>(numbers + i));
      });
    });
  }
};

namespace detail {

/// Whether a matrix and a buffer can be copied 8 numbers at a time, in pieces of so many columns.
template <class T>
[[nodiscard]] bool in_packs(const Strided<T>& m, std::size_t piece, const T* buffer) {
  return sizeof(T) == sizeof(Bf16) && m.col_stride == 1 && m.row_stride % 8 == 0 && piece % 8 == 0 &&
         cuda::in_packs(static_cast<const void*>(m.data)) && cuda::in_packs(static_cast<const void*>(buffer));
}

}  // namespace detail

template <class Launch, class T>
void member_columns_by(Launch&& launch, const Strided<T>& tokens, std::size_t members, std::size_t sections,
                       T* buffer, bool to_buffer) {
  require(tokens.cols % (members * sections) == 0, "rows of ", tokens.cols, " numbers shall be shared by ",
          members, " members; expected equal shares of ", sections, " sections");
  if (tokens.rows * tokens.cols == 0) return;
  const Grid grid = warp_per_row(tokens.rows * members);
  if constexpr (sizeof(T) == sizeof(Bf16)) {
    if (detail::in_packs(tokens, tokens.cols / (members * sections), buffer))
      return launch(MemberColumnsKernel<T, 8>{tokens, members, sections, buffer, to_buffer}, grid);
  }
  launch(MemberColumnsKernel<T, 1>{tokens, members, sections, buffer, to_buffer}, grid);
}

template <class Launch, class T>
void ordered_rows_by(Launch&& launch, const Strided<T>& heads, const std::int32_t* order, T* buffer,
                     bool to_buffer) {
  if (heads.rows * heads.cols == 0) return;
  const Grid grid = warp_per_row(heads.rows);
  if constexpr (sizeof(T) == sizeof(Bf16)) {
    if (detail::in_packs(heads, heads.cols, buffer))
      return launch(OrderedRowsKernel<T, 8>{heads, order, buffer, to_buffer}, grid);
  }
  launch(OrderedRowsKernel<T, 1>{heads, order, buffer, to_buffer}, grid);
}

/// `to_token_order`, or `from_token_order`, by any launcher: as one member with one section would exchange it.
template <class Launch>
void token_order_by(Launch&& launch, const MatrixView<float>& per_head, std::span<float> by_token,
                    bool to_token_order) {
  require(by_token.size() == per_head.rows * per_head.cols, "there are ", by_token.size(),
          " numbers token by token; expected ", per_head.rows * per_head.cols);
  member_columns_by(launch, transposed(per_head), 1, 1, by_token.data(), to_token_order);
}

}  // namespace slimpack::kernels::cuda
