#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/device/attention_launch.hpp"
#include "kernels/cuda/device/head_exchange.hpp"
#include "kernels/cuda/device/kept_rows.hpp"
#include "tests/kernels_cuda_device/host_launcher.hpp"
#include "tests/kernels_cuda_device/random_bf16.hpp"

// Kernels that only move rows, and delta: each number's place, by plain loops.
using namespace slimpack;
using namespace slimpack::kernels;
using namespace slimpack::kernels::cuda;
using slimpack::testing::Bf16Rows, slimpack::testing::HostLauncher, slimpack::testing::pick,
    slimpack::testing::random_bf16;

namespace {

/// Different numbers, no two alike up to 2^16.
std::vector<Bf16> counted(std::size_t n) {
  std::vector<Bf16> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i].bits = static_cast<std::uint16_t>(i);
  return out;
}

/// The numbers below n in any order.
std::vector<std::int32_t> shuffled(std::mt19937& random, std::size_t n) {
  std::vector<std::int32_t> out(n);
  std::iota(out.begin(), out.end(), 0);
  std::shuffle(out.begin(), out.end(), random);
  return out;
}

/// Pieces of a task in pages that are anywhere.
struct KeptTask {
  explicit KeptTask(std::mt19937& random) : unit(8 * pick(random, 1, 20)) {
    const std::size_t layers = pick(random, 1, 4);
    field = {.layer = pick(random, 0, layers - 1),
             .before = 8 * pick(random, 0, 5),
             .width = 8 * pick(random, 1, 40),
             .input = 8 * pick(random, 1, 9),
             .full = 0,
             .always = pick(random, 0, 1) == 1};
    field.full = field.before + field.width + 8 * pick(random, 0, 3);
    std::size_t page_count = 0;
    for (std::size_t n = pick(random, 1, 3); n > 0; --n) {
      KeptPiece piece{.row = static_cast<std::int32_t>(rows),
                      .tokens = static_cast<std::int32_t>(pick(random, 1, 30)),
                      .recompute_layers = static_cast<std::int32_t>(pick(random, 0, layers)),
                      .first_page = static_cast<std::int32_t>(page_count)};
      const std::size_t numbers =
          static_cast<std::size_t>(piece.tokens) * layers * (field.full + field.input);
      page_count += numbers / unit + 1;
      piece_of.insert(piece_of.end(), static_cast<std::size_t>(piece.tokens),
                      static_cast<std::int32_t>(pieces.size()));
      pieces.push_back(piece);
      rows += static_cast<std::size_t>(piece.tokens);
    }
    pages = shuffled(random, page_count);
    units = Bf16Rows(page_count, unit);
  }

  [[nodiscard]] KeptPages kept() {
    return {units.view().data, unit, pieces.data(), piece_of.data(), pages.data()};
  }
  /// Where a number of a row stands, as the pages' rule says.
  [[nodiscard]] const Bf16* place(std::size_t row, std::size_t i) {
    const KeptPiece& piece = pieces[static_cast<std::size_t>(piece_of[row])];
    const std::size_t at = kept_begin(field, piece, row) + i;
    const auto page = static_cast<std::size_t>(pages[static_cast<std::size_t>(piece.first_page) + at / unit]);
    return units.view().data + page * unit + at % unit;
  }
  [[nodiscard]] bool keeps(std::size_t row) const {
    return is_kept(field, pieces[static_cast<std::size_t>(piece_of[row])]);
  }

  std::size_t unit, rows = 0;
  KeptField field;
  std::vector<KeptPiece> pieces;
  std::vector<std::int32_t> piece_of, pages;
  Bf16Rows units{1, 8};
};

}  // namespace

TEST_CASE("CUDA: rows and numbers per head are kept in pages, and come back") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    KeptTask task(random);
    const std::size_t width = task.field.width;
    const Bf16Rows rows = random_bf16(random, task.rows, width);
    kept_rows_by(HostLauncher{}, task.kept(), task.field, rows.view());
    Bf16Rows loaded(task.rows, width);
    kept_rows_by(HostLauncher{}, task.kept(), task.field, loaded.view());
    for (std::size_t r = 0; r < task.rows; ++r) {
      for (std::size_t i = 0; task.keeps(r) && i < width; ++i) {
        REQUIRE(*task.place(r, i) == rows.view().row(r)[i]);
        REQUIRE(loaded.view().row(r)[i] == rows.view().row(r)[i]);
      }
    }
    const std::size_t heads = pick(random, 1, width / 2);
    Matrix<float> numbers(heads, task.rows), back(heads, task.rows);
    for (std::size_t i = 0; i < heads * task.rows; ++i) numbers.data()[i] = static_cast<float>(i) + 0.5F;
    kept_heads_by(HostLauncher{}, task.kept(), task.field, MatrixView<const float>(numbers.view()));
    kept_heads_by(HostLauncher{}, task.kept(), task.field, back.view());
    for (std::size_t r = 0; r < task.rows; ++r) {
      for (std::size_t h = 0; h < heads; ++h)
        REQUIRE(back.view().row(h)[r] == (task.keeps(r) ? numbers.view().row(h)[r] : 0.0F));
    }
  }
}

TEST_CASE(
    "CUDA: members' shares of rows go to a buffer and come back, in "
    "packs or one by one") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t members = pick(random, 1, 4), sections = pick(random, 1, 3), rows = pick(random, 1, 20),
                      part = seed % 2 == 0 ? 8 * pick(random, 1, 20) : pick(random, 1, 30),
                      share = part * sections, cols = share * members,
                      stride = cols + (seed % 3 == 0 ? 8 : seed % 3);
    const std::vector<Bf16> all = counted(rows * stride);
    std::vector<Bf16> from = all, back(rows * stride), buffer(rows * cols);
    const MatrixView<Bf16> matrix(from.data(), rows, cols, stride), target(back.data(), rows, cols, stride);
    member_columns_by(HostLauncher{}, strided(matrix), members, sections, buffer.data(), true);
    for (std::size_t member = 0; member < members; ++member) {
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t j = 0; j < share; ++j) {
          const std::size_t column = j / part * (part * members) + member * part + j % part;
          REQUIRE(buffer[(member * rows + row) * share + j] == all[row * stride + column]);
        }
      }
    }
    member_columns_by(HostLauncher{}, strided(target), members, sections, buffer.data(), false);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < stride; ++i)
        REQUIRE(back[row * stride + i] == (i < cols ? all[row * stride + i] : Bf16{0}));
    }

    const std::vector<std::int32_t> order = shuffled(random, rows);
    ordered_rows_by(HostLauncher{}, strided(matrix), order.data(), buffer.data(), true);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < cols; ++i)
        REQUIRE(buffer[r * cols + i] == all[static_cast<std::size_t>(order[r]) * stride + i]);
    }
    std::fill(back.begin(), back.end(), Bf16{0});
    ordered_rows_by(HostLauncher{}, strided(target), order.data(), buffer.data(), false);
    for (std::size_t row = 0; row < rows; ++row)
      REQUIRE(std::equal(all.begin() + static_cast<std::ptrdiff_t>(row * stride),
                         all.begin() + static_cast<std::ptrdiff_t>(row * stride + cols),
                         back.begin() + static_cast<std::ptrdiff_t>(row * stride)));
  }
}

TEST_CASE(
    "CUDA: keys go to their rows, gradients come back rounded, and "
    "numbers are rounded in packs or not") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t rows = pick(random, 1, 20), cols = 8 * pick(random, 1, 40),
                      all = rows + pick(random, 0, 9);
    std::vector<std::int32_t> order = shuffled(random, all);
    order.resize(rows);
    const Bf16Rows from = random_bf16(random, rows, cols);
    Bf16Rows cache(all, cols), back(rows, cols);
    store_keys_by(HostLauncher{}, from.view(), order, cache.view());
    Matrix<float> gradients(all, cols);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < cols; ++i) {
        const auto to = static_cast<std::size_t>(order[r]);
        REQUIRE(cache.view().row(to)[i] == from.view().row(r)[i]);
        gradients.view().row(to)[i] = to_float(from.view().row(r)[i]) * 1.0001F;
      }
    }
    load_key_gradients_by(HostLauncher{}, MatrixView<const float>(gradients.view()), order, back.view());
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < cols; ++i)
        REQUIRE(back.view().row(r)[i] == to_bf16(to_float(from.view().row(r)[i]) * 1.0001F));
    }
    const std::size_t n = pick(random, 1, 900);
    std::vector<float> numbers(n);
    for (std::size_t i = 0; i < n; ++i) numbers[i] = 0.1F * static_cast<float>(i);
    std::vector<Bf16> rounded(n);
    round_by(HostLauncher{}, std::span<const float>(numbers), std::span(rounded));
    for (std::size_t i = 0; i < n; ++i) REQUIRE(rounded[i] == to_bf16(numbers[i]));
  }
}

TEST_CASE("CUDA: delta is the sum of output times gradient, of each token and head") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const HeadShape shape{
        .heads = pick(random, 1, 12), .kv_heads = 1, .head_dim = seed % 2 == 0 ? 64U : 128U};
    const std::size_t tokens = pick(random, 1, 30), width = shape.query_width(),
                      wider = width + 8 * pick(random, 0, 2);
    const Bf16Rows out = random_bf16(random, tokens, width, wider),
                   dout = random_bf16(random, tokens, width, wider);
    Matrix<float> delta(shape.heads, tokens);
    std::fill_n(delta.data(), shape.heads * tokens, NAN);
    attention_delta_by(HostLauncher{}, shape, out.view(), dout.view(), delta.view());
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t h = 0; h < shape.heads; ++h) {
        double sum = 0.0, size = 0.0;
        for (std::size_t i = 0; i < shape.head_dim; ++i) {
          const double product = static_cast<double>(to_float(out.view().row(t)[h * shape.head_dim + i])) *
                                 static_cast<double>(to_float(dout.view().row(t)[h * shape.head_dim + i]));
          sum += product;
          size += std::abs(product);
        }
        REQUIRE(std::abs(static_cast<double>(delta.view().row(h)[t]) - sum) <= 1e-5 * size);
      }
    }
  }
  const HeadShape odd{.heads = 2, .kv_heads = 1, .head_dim = 32};
  const Bf16Rows rows(3, 64);
  Matrix<float> delta(2, 3);
  CHECK_THROWS_AS(attention_delta_by(HostLauncher{}, odd, rows.view(), rows.view(), delta.view()),
                  InvalidInput);
}
