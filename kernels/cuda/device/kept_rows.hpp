#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "kernels/cuda/device/block.hpp"
#include "kernels/math/matrix.hpp"
#include "slimpack/core/error.hpp"

// How rows of a task get into a stage's stores and out again.
namespace slimpack::kernels::cuda {

/// A fragment's tokens within a task: their numbers stand in pages, field by field.
struct KeptPiece {
  std::int32_t row = 0;  ///< of the task, where it begins
  std::int32_t tokens = 0;
  std::int32_t recompute_layers = 0;  ///< of which the input alone is kept
  std::int32_t first_page = 0;        ///< in the list of pages
};

/// A stage's activations, in pages. Numbers are bf16.
struct KeptPages {
  Bf16* units = nullptr;
  std::size_t unit = 0;                    ///< numbers of a page, a multiple of 8
  const KeptPiece* pieces = nullptr;       ///< of the task
  const std::int32_t* piece_of = nullptr;  ///< [rows of the task]
  const std::int32_t* pages = nullptr;     ///< of all pieces
};

/// A field of a layer among what is kept of a token.
struct KeptField {
  std::size_t layer = 0;
  std::size_t before = 0;  ///< numbers of the layer before the field
  std::size_t width = 0;   ///< numbers of the field
  std::size_t input = 0;   ///< numbers of a recomputed layer
  std::size_t full = 0;    ///< numbers of another layer
  bool always = false;     ///< also kept of recomputed layers
};

/// Where the numbers of a row begin, among those of its piece. A piece keeps each field as consecutive rows.
[[nodiscard]] SLIMPACK_HOST_DEVICE inline std::size_t kept_begin(const KeptField& field,
                                                                 const KeptPiece& piece, std::size_t row) {
  const auto recomputed = static_cast<std::size_t>(piece.recompute_layers);
  const std::size_t thin = field.layer < recomputed ? field.layer : recomputed;
  const std::size_t offset = thin * field.input + (field.layer - thin) * field.full + field.before;
  return offset * static_cast<std::size_t>(piece.tokens) +
         (row - static_cast<std::size_t>(piece.row)) * field.width;
}

[[nodiscard]] SLIMPACK_HOST_DEVICE inline bool is_kept(const KeptField& field, const KeptPiece& piece) {
  return field.always || field.layer >= static_cast<std::size_t>(piece.recompute_layers);
}

/// Where a row's numbers stand. The row's first place takes a division of 64 bits, each further number one of 32.
struct KeptRow {
  const std::int32_t* pages = nullptr;  ///< from the row's first on
  std::uint32_t first = 0;              ///< number of that page, where the row begins
};

/// @param begin of the row among the piece's numbers
[[nodiscard]] SLIMPACK_HOST_DEVICE inline KeptRow kept_row(const KeptPages& kept, const KeptPiece& piece,
                                                           std::size_t begin) {
  const std::size_t page = begin / kept.unit;
  return {kept.pages + piece.first_page + page, narrow(begin - page * kept.unit)};
}

/// @param i of the row's numbers
[[nodiscard]] SLIMPACK_HOST_DEVICE inline Bf16* kept_number(const KeptPages& kept, const KeptRow& row,
                                                            std::uint32_t i) {
  const std::uint32_t unit = narrow(kept.unit), at = row.first + i, page = at / unit;
  return kept.units + static_cast<std::size_t>(row.pages[page]) * kept.unit + (at - page * unit);
}

/// A block per row: saves it if T is constant, and loads it otherwise.
template <class T>
struct KeptRowsKernel {
  KeptPages kept;
  KeptField field;
  MatrixView<T> rows;  ///< [tokens x width of the field]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t row = warp.block(); row < rows.rows; row += warp.blocks()) {
      const KeptPiece piece = kept.pieces[kept.piece_of[row]];
      if (!is_kept(field, piece)) continue;
      const KeptRow place = kept_row(kept, piece, kept_begin(field, piece, row));
      for_each_in_block<8>(warp, field.width, [&](int, std::size_t i) {
        Bf16* at = kept_number(kept, place, narrow(i));
        if constexpr (std::is_const_v<T>) {
          copy_numbers<8>(at, row_of(rows, row) + i);
        } else {
          copy_numbers<8>(row_of(rows, row) + i, static_cast<const Bf16*>(at));
        }
      });
    }
  }
};

/// The same of a float for each head and token, a warp per token.
template <class T>
struct KeptHeadsKernel {
  KeptPages kept;
  KeptField field;
  MatrixView<T> numbers;  ///< [heads x tokens]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for_each_row_in_grid(warp, numbers.cols, [&](std::size_t token) {
      const KeptPiece piece = kept.pieces[kept.piece_of[token]];
      if (!is_kept(field, piece)) return;
      const KeptRow place = kept_row(kept, piece, kept_begin(field, piece, token));
      for_each_in_warp<1>(warp, narrow(numbers.rows), [&](int, std::uint32_t head) {
        Bf16* at = kept_number(kept, place, 2 * head);
        T* number = row_of(numbers, head) + token;
        if constexpr (std::is_const_v<T>) {
          memcpy(at, number, sizeof *number);
        } else {
          memcpy(number, at, sizeof *number);
        }
      });
    });
  }
};

/// A block per token: its keys and values of a layer, to their row.
struct StoreKeysKernel {
  MatrixView<const Bf16> from;         ///< [tokens x 2 kv_heads * head_dim]: keys, then values
  const std::int32_t* rows = nullptr;  ///< [tokens]
  MatrixView<Bf16> to;                 ///< [rows of the cache x 2 kv_heads * head_dim]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t row = warp.block(); row < from.rows; row += warp.blocks()) {
      Bf16* out = row_of(to, static_cast<std::size_t>(rows[row]));
      for_each_in_block<8>(warp, from.cols,
                           [&](int, std::size_t i) { copy_numbers<8>(out + i, row_of(from, row) + i); });
    }
  }
};

/// A block per token: the gradients of its keys and values, from their row.
struct LoadKeyGradientsKernel {
  MatrixView<const float> from;        ///< [rows of gradients x 2 kv_heads * head_dim]
  const std::int32_t* rows = nullptr;  ///< [tokens]
  MatrixView<Bf16> to;                 ///< [tokens x 2 kv_heads * head_dim]

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t row = warp.block(); row < to.rows; row += warp.blocks()) {
      const float* in = row_of(from, static_cast<std::size_t>(rows[row]));
      for_each_in_block<8>(warp, to.cols, [&](int, std::size_t i) {
        Pack<8> numbers;
        SLIMPACK_UNROLL
        for (int j = 0; j < 8; ++j) numbers.at[j] = in[i + static_cast<std::size_t>(j)];
        store(row_of(to, row) + i, numbers);
      });
    }
  }
};

/// Numbers rounded, n at a time.
template <int n>
struct RoundKernel {
  const float* from = nullptr;
  Bf16* to = nullptr;
  std::size_t size = 0;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for_each_in_grid<n>(warp, size, [&](int, std::size_t i) {
      Pack<n> numbers;
      SLIMPACK_UNROLL
      for (int j = 0; j < n; ++j) numbers.at[j] = from[i + static_cast<std::size_t>(j)];
      store(to + i, numbers);
    });
  }
};

/// Saves rows of a task, or loads them.
template <class Launch, class T>
void kept_rows_by(Launch&& launch, const KeptPages& kept, const KeptField& field, const MatrixView<T>& rows) {
  require(rows.cols == field.width && in_packs(rows) && kept.unit % 8 == 0, "rows of ", rows.cols,
          " numbers shall be kept as ", field.width, " in pages of ", kept.unit,
          "; expected as many, in packs of 8");
  if (rows.rows == 0 || rows.cols == 0) return;
  launch(KeptRowsKernel<T>{kept, field, rows}, Grid{.blocks = blocks_for(rows.rows), .warps = 4});
}

/// Saves floats [heads x tokens] of a task, or loads them.
template <class Launch, class T>
void kept_heads_by(Launch&& launch, const KeptPages& kept, const KeptField& field,
                   const MatrixView<T>& numbers) {
  require(2 * numbers.rows <= field.width && kept.unit % 8 == 0, "floats of ", numbers.rows,
          " heads shall be kept as ", field.width, " bf16; expected room for them");
  if (numbers.rows == 0 || numbers.cols == 0) return;
  launch(KeptHeadsKernel<T>{kept, field, numbers}, warp_per_row(numbers.cols));
}

template <class Launch>
void store_keys_by(Launch&& launch, const MatrixView<const Bf16>& from, std::span<const std::int32_t> rows,
                   const MatrixView<Bf16>& to) {
  require(from.rows == rows.size() && from.cols == to.cols && in_packs(from) && in_packs(to), "there are ",
          rows.size(), " rows for keys and values of ", from.rows, " tokens; expected one each, in packs");
  if (from.rows == 0 || from.cols == 0) return;
  launch(StoreKeysKernel{from, rows.data(), to}, Grid{.blocks = blocks_for(from.rows), .warps = 4});
}

template <class Launch>
void load_key_gradients_by(Launch&& launch, const MatrixView<const float>& from,
                           std::span<const std::int32_t> rows, const MatrixView<Bf16>& to) {
  require(to.rows == rows.size() && from.cols == to.cols && in_packs(to), "there are ", rows.size(),
          " rows for gradients of keys and values of ", to.rows, " tokens; expected one each, in packs");
  if (to.rows == 0 || to.cols == 0) return;
  launch(LoadKeyGradientsKernel{from, rows.data(), to}, Grid{.blocks = blocks_for(to.rows), .warps = 4});
}

template <class Launch>
void round_by(Launch&& launch, std::span<const float> from, std::span<Bf16> to) {
  require(from.size() == to.size(), from.size(), " numbers shall be rounded to ", to.size(),
          "; expected as many");
  if (from.empty()) return;
  const Grid grid{.blocks = blocks_for((from.size() + 127) / 128), .warps = 4};
  if (from.size() % 8 == 0 && in_packs(to.data())) {
    launch(RoundKernel<8>{from.data(), to.data(), from.size()}, grid);
  } else {
    launch(RoundKernel<1>{from.data(), to.data(), from.size()}, grid);
  }
}

/// A block per row: to += from, n numbers at a time; or the rows of `to` that `rows` names, each once.
template <class From, int n>
struct AccumulateRowsKernel {
  MatrixView<const From> from;
  MatrixView<float> to;
  const std::int32_t* rows = nullptr;

  template <class Warp>
  SLIMPACK_DEVICE void operator()(Warp& warp) const {
    for (std::size_t row = warp.block(); row < from.rows; row += warp.blocks()) {
      const std::size_t there = rows == nullptr ? row : static_cast<std::size_t>(rows[row]);
      for_each_in_block<n>(warp, from.cols, [&](int /*lane*/, std::size_t i) {
        float* sums = row_of(to, there) + i;
        if constexpr (sizeof(From) == sizeof(float)) {
          *sums += row_of(from, row)[i];
        } else {
          const Pack<n> numbers = load<n>(row_of(from, row) + i);
          SLIMPACK_UNROLL
          for (int j = 0; j < n; ++j) sums[j] += numbers.at[j];
        }
      });
    }
  }
};

/// `accumulate_rows` by any launcher; see operators.hpp.
template <class Launch, class From>
void accumulate_rows_by(Launch&& launch, const MatrixView<From>& from, const MatrixView<float>& to,
                        std::span<const std::int32_t> rows = {}) {
  const std::size_t expected = rows.empty() ? to.rows : rows.size();
  require(from.rows == expected && from.cols == to.cols, "rows to add are ", from.rows, " x ", from.cols,
          "; expected ", expected, " x ", to.cols);
  if (from.rows == 0) return;
  using Number = std::remove_const_t<From>;
  const Grid grid{.blocks = blocks_for(from.rows), .warps = 4};
  if constexpr (sizeof(Number) == sizeof(Bf16)) {
    if (in_packs(from)) return launch(AccumulateRowsKernel<Number, 8>{from, to, rows.data()}, grid);
  }
  launch(AccumulateRowsKernel<Number, 1>{from, to, rows.data()}, grid);
}

}  // namespace slimpack::kernels::cuda
