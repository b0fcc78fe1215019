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
template <class T>
struct MemberColumnsKernel {
  Strided<T> tokens;
  std::size_t members = 1, sections = 1;
  T* buffer = nullptr;
  bool to_buffer = true;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    const std::size_t share = tokens.cols / members, part = share / sections;
    for_each_in_grid<1>(warp, tokens.rows * tokens.cols, [&](int, std::size_t i) {
      const std::size_t member = i / (tokens.rows * share), row = i / share % tokens.rows, j = i % share;
      T& number = tokens.at(row, j / part * (part * members) + member * part + j % part);
      to_buffer ? void(buffer[i] = number) : void(number = buffer[i]);
    });
  }
};

/// All tokens with own heads: to the buffer, or from it, in the order in which members hold them.
template <class T>
struct OrderedRowsKernel {
  Strided<T> heads;
  const std::int32_t* order = nullptr;  ///< [rows]
  T* buffer = nullptr;
  bool to_buffer = true;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for_each_in_grid<1>(warp, heads.rows * heads.cols, [&](int, std::size_t i) {
      T& number = heads.at(static_cast<std::size_t>(order[i / heads.cols]), i % heads.cols);
      to_buffer ? void(buffer[i] = number) : void(number = buffer[i]);
    });
  }
};

template <class Launch, class T>
void member_columns_by(Launch&& launch, const Strided<T>& tokens, std::size_t members, std::size_t sections,
                       T* buffer, bool to_buffer) {
  require(tokens.cols % (members * sections) == 0, "rows of ", tokens.cols, " numbers shall be shared by ",
          members, " members; expected equal shares of ", sections, " sections");
  if (tokens.rows * tokens.cols == 0) return;
  launch(MemberColumnsKernel<T>{tokens, members, sections, buffer, to_buffer},
         Grid{.blocks = blocks_for((tokens.rows * tokens.cols + 127) / 128), .warps = 4});
}

template <class Launch, class T>
void ordered_rows_by(Launch&& launch, const Strided<T>& heads, const std::int32_t* order, T* buffer,
                     bool to_buffer) {
  if (heads.rows * heads.cols == 0) return;
  launch(OrderedRowsKernel<T>{heads, order, buffer, to_buffer},
         Grid{.blocks = blocks_for((heads.rows * heads.cols + 127) / 128), .warps = 4});
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
