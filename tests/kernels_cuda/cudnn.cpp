#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_batch.hpp"
#include "kernels/cuda/device/accumulate_rows.hpp"
#include "tests/kernels_cuda/host_launcher.hpp"
#include "tests/kernels_cuda/random_bf16.hpp"

#ifdef SLIMPACK_TEST_CUDNN
#include "bench/gpu/attention_shapes.hpp"
#include "kernels/cuda/cudnn/cudnn_attention.hpp"
#include "kernels/cuda/device.hpp"
#endif

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::Bf16Rows, slimpack::testing::HostLauncher, slimpack::testing::random_bf16;

TEST_CASE("a pack is a batch of sequences, each where its rows begin") {
  const std::vector<cuda::AttentionSlice> slices{{3, 5, 40, 7}, {8, 2, 10, 0}};
  const cuda::CudnnBatch batch =
      cuda::cudnn_batch(slices, 12, 60, {.q = 100, .k = 30, .v = 50, .out = 20, .dq = 70});
  CHECK((batch.longest_queries == 5 && batch.longest_keys == 12));
  CHECK(batch.query_lengths == std::vector<std::int32_t>{5, 2});
  CHECK(batch.key_lengths == std::vector<std::int32_t>{12, 2});
  CHECK(batch.q == std::vector<std::int64_t>{300, 800, 1000});
  CHECK(batch.k == std::vector<std::int64_t>{1200, 300, 360});
  CHECK(batch.v == std::vector<std::int64_t>{2000, 500, 600});
  CHECK(batch.out == std::vector<std::int64_t>{60, 160, 200});
  CHECK(batch.lse == std::vector<std::int64_t>{3, 8, 10});
  CHECK(batch.dq == std::vector<std::int64_t>{210, 560, 700});
  CHECK(batch.gradients == std::vector<std::int64_t>{0, 12, 14});
  CHECK_THROWS_WITH(cuda::cudnn_batch(slices, 9, 60, {}), Catch::StartsWith("slice 1 begins at row 8"));
}

TEST_CASE("the gradients of a pack's keys stand apart, each with the row that it goes to") {
  const std::vector<cuda::AttentionSlice> slices{{0, 2, 40, 127, 0}, {2, 1, 10, 0, 2}};
  const std::vector<std::int32_t> pieces{200, 10, 16};
  const cuda::CudnnBatch batch =
      cuda::cudnn_batch(slices, 3, 190, {.q = 8, .k = 8, .v = 8, .out = 8, .dq = 8}, pieces);
  CHECK(batch.gradients == std::vector<std::int64_t>{0, 129, 130});
  REQUIRE(batch.gradient_rows.size() == 130);
  for (std::int32_t key = 0; key < 128; ++key)
    CHECK(batch.gradient_rows[static_cast<std::size_t>(key)] == 200 + key);
  CHECK((batch.gradient_rows[128] == 10 && batch.gradient_rows[129] == 16));
  CHECK_THROWS_WITH(cuda::cudnn_batch(slices, 3, 190, {}, std::vector<std::int32_t>{200, 10}),
                    Catch::StartsWith("slice 1 has its keys' gradients in the pieces from 2 to 3"));
  for (const bool gradients : {false, true}) {
    const cuda::CudnnLists lists = cuda::cudnn_lists(batch, 32, gradients);
    const auto numbers = [&]<class T>(cuda::CudnnList list, const std::vector<T>& expected) {
      REQUIRE(lists.begin(list) % 16 == 0);
      REQUIRE(lists.begin(list) + expected.size() * sizeof(T) <= lists.bytes.size());
      std::vector<T> out(expected.size());
      std::memcpy(out.data(), lists.bytes.data() + lists.begin(list), out.size() * sizeof(T));
      CHECK(out == expected);
    };
    numbers(cuda::CudnnList::q, batch.q);
    numbers(cuda::CudnnList::lse, batch.lse);
    numbers(cuda::CudnnList::query_lengths, batch.query_lengths);
    numbers(cuda::CudnnList::key_lengths, batch.key_lengths);
    if (!gradients) continue;
    numbers(cuda::CudnnList::dq, batch.dq);
    numbers(cuda::CudnnList::gradients, std::vector<std::int64_t>{0, 129 * 32, 130 * 32});
    numbers(cuda::CudnnList::gradient_rows, batch.gradient_rows);
  }
}

TEST_CASE("cuDNN's gradients take one slice of each sample") {
  CHECK_NOTHROW(
      cuda::require_one_slice_per_sample(std::vector<cuda::AttentionSlice>{{0, 4, 9, 0}, {4, 2, 0, 0}}));
  CHECK_THROWS_WITH(cuda::require_one_slice_per_sample(
                        std::vector<cuda::AttentionSlice>{{0, 4, 9, 0}, {6, 2, 0, 1}, {4, 2, 9, 4}}),
                    Catch::StartsWith("two slices have their sample's keys from row 9 on"));
}

TEST_CASE("CUDA: rows of bf16 are added to rows of float") {
  std::mt19937 random(1);
  for (const std::size_t cols : {1UL, 37UL, 300UL}) {
    const Bf16Rows from = random_bf16(random, 9, cols, cols + 3);
    Matrix<float> to(9, cols);
    for (std::size_t i = 0; i < 9 * cols; ++i) to.data()[i] = static_cast<float>(i);
    cuda::accumulate_rows_by(HostLauncher{}, from.view(), to.view());
    for (std::size_t i = 0; i < 9 * cols; ++i) {
      const float added = cuda::to_float(from.view().row(i / cols)[i % cols]);
      REQUIRE(to.data()[i] == static_cast<float>(i) + added);
    }
    Matrix<float> some(20, cols);
    const std::vector<std::int32_t> rows{4, 19, 0, 7, 8, 1, 12, 11, 10};
    cuda::accumulate_rows_by(HostLauncher{}, from.view(), some.view(), std::span<const std::int32_t>(rows));
    for (std::size_t i = 0; i < 20; ++i) {
      const auto at = std::find(rows.begin(), rows.end(), static_cast<std::int32_t>(i));
      for (std::size_t k = 0; k < cols; ++k) {
        const auto row = static_cast<std::size_t>(at - rows.begin());
        REQUIRE(some.view().row(i)[k] == (at == rows.end() ? 0.0F : cuda::to_float(from.view().row(row)[k])));
      }
    }
    Matrix<float> wrong(8, cols);
    CHECK_THROWS_AS(cuda::accumulate_rows_by(HostLauncher{}, from.view(), wrong.view()), InvalidInput);
  }
}

#ifdef SLIMPACK_TEST_CUDNN
TEST_CASE("cuDNN takes packs of slices with prefixes and grouped heads, forward and backward") {
  const std::vector<cuda::AttentionSlice> slices{{0, 50, 0, 70}, {50, 1, 120, 0}, {51, 30, 121, 400}};
  for (const std::size_t dim : {64UL, 128UL}) {
    const HeadShape shape{.heads = 8, .kv_heads = 2, .head_dim = dim};
    const Bf16Rows q(81, shape.query_width(), 3 * shape.query_width()), k(551, shape.kv_width());
    const cuda::AttentionInput in{q.view(), k.view(), k.view()};
    for (const bool gradients : {false, true}) {
      INFO("heads of " << dim << (gradients ? ", backward" : ", forward"));
      CHECK(cuda::cudnn_refusal(shape, slices, in, gradients).value_or("") == "");
    }
    // As a stage asks for it: matrices are parts of wider ones, and gradients lie elsewhere than keys.
    const auto width = static_cast<std::int64_t>(shape.query_width());
    const cuda::PackProblem problem{
        .shape = shape,
        .slices = {{0, 50, 0, 70, 9}, {50, 31, 121, 400, -5}},
        .tokens = 81,
        .cache = 600,
        .strides = {.q = width, .k = 4096, .v = 4096, .out = width, .dq = 2 * width},
        .gradients = true};
    CHECK(cuda::cudnn_refusal(problem).value_or("") == "");
    if (cuda::probe_devices().count == 0) CHECK_THROWS_AS(cuda::cudnn_library()(problem), InvalidInput);
    CHECK_THROWS_AS(
        cuda::cudnn_refusal(shape, std::vector<cuda::AttentionSlice>{{0, 5, 0, 0}, {5, 5, 0, 5}}, in, true),
        InvalidInput);
    if (cuda::probe_devices().count == 0) {
      CHECK_THROWS_AS(cuda::CudnnAttention(shape, slices, in, true), InvalidInput);
    }
  }
}

TEST_CASE("cuDNN takes the packs that bench_gpu times, with gradients in one order or in any") {
  const HeadShape shape = bench::timed_heads;
  for (const bench::AttentionShape& pack : bench::attention_shapes()) {
    // cuDNN is asked about shapes alone.
    const MatrixView<const cuda::Bf16> q(nullptr, static_cast<std::size_t>(pack.tokens()),
                                         shape.query_width()),
        k(nullptr, static_cast<std::size_t>(pack.keys), shape.kv_width());
    for (const bool deterministic : {false, true}) {
      INFO(pack.name << (deterministic ? ", the same bits each time" : ""));
      const auto refusal =
          cuda::cudnn_refusal(shape, pack.slices, {q, k, k}, true, {.deterministic = deterministic});
      CHECK(refusal.value_or("") == "");
    }
  }
}
#endif
