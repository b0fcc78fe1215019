#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_batch.hpp"
#include "kernels/cuda/device/head_exchange.hpp"
#include "kernels/cuda/device/kept_rows.hpp"
#include "kernels/cuda/library_plans.hpp"
#include "tests/kernels_cuda_device/host_launcher.hpp"
#include "tests/kernels_cuda_device/random_bf16.hpp"

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
    const HeadShape shape{.heads = 8, .kv_heads = 4, .head_dim = 8};
    const cuda::CudnnLists lists = cuda::cudnn_lists(batch, shape, gradients);
    const auto numbers = [&]<class T>(cuda::CudnnList list, const std::vector<T>& expected) {
      REQUIRE(lists.begin(list) % 16 == 0);
      REQUIRE(lists.begin(list) + expected.size() * sizeof(T) <= lists.bytes.size());
      std::vector<T> out(expected.size());
      std::memcpy(out.data(), lists.bytes.data() + lists.begin(list), out.size() * sizeof(T));
      CHECK(out == expected);
    };
    numbers(cuda::CudnnList::q, batch.q);
    numbers(cuda::CudnnList::lse, std::vector<std::int64_t>{0, 2 * 8, 3 * 8});
    numbers(cuda::CudnnList::query_lengths, batch.query_lengths);
    numbers(cuda::CudnnList::key_lengths, batch.key_lengths);
    if (!gradients) continue;
    numbers(cuda::CudnnList::dq, batch.dq);
    numbers(cuda::CudnnList::gradients, std::vector<std::int64_t>{0, 129 * 32, 130 * 32});
    numbers(cuda::CudnnList::gradient_rows, batch.gradient_rows);
  }
}

TEST_CASE("sequences of length zero fill a batch, and no pack's own change") {
  const std::vector<cuda::AttentionSlice> slices{{3, 5, 40, 7}, {8, 2, 10, 0}};
  const cuda::CudnnBatch batch =
      cuda::cudnn_batch(slices, 12, 60, {.q = 100, .k = 30, .v = 50, .out = 20, .dq = 70});
  for (const std::size_t samples : {1UL, 2UL, 7UL}) {
    cuda::CudnnBatch padded = batch;
    cuda::pad(padded, samples);
    const std::size_t all = std::max<std::size_t>(samples, 2);
    for (const auto& [lengths, before] : {std::pair(padded.query_lengths, batch.query_lengths),
                                          std::pair(padded.key_lengths, batch.key_lengths)}) {
      REQUIRE(lengths.size() == all);
      CHECK(std::equal(before.begin(), before.end(), lengths.begin()));
      CHECK(std::all_of(lengths.begin() + 2, lengths.end(), [](std::int32_t n) { return n == 0; }));
    }
    for (const auto member :
         {&cuda::CudnnBatch::q, &cuda::CudnnBatch::k, &cuda::CudnnBatch::v, &cuda::CudnnBatch::out,
          &cuda::CudnnBatch::dq, &cuda::CudnnBatch::lse, &cuda::CudnnBatch::gradients}) {
      const auto& offsets = padded.*member;
      const auto& before = batch.*member;
      REQUIRE(offsets.size() == all + 1);
      CHECK(std::equal(before.begin(), before.end(), offsets.begin()));
      CHECK(std::all_of(offsets.begin() + 2, offsets.end(), [&](auto at) { return at == before.back(); }));
    }
    CHECK(padded.gradient_rows == batch.gradient_rows);
  }
}

TEST_CASE("cuDNN's plans serve packs of rounded sizes") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto up_to = [&](std::int64_t most) {
      return static_cast<std::int64_t>(
          std::exp(std::uniform_real_distribution<double>(0.0, std::log(static_cast<double>(most)))(random)));
    };
    const std::int64_t samples = up_to(500), queries = up_to(5000);
    const cuda::CudnnSizes exact{.shape = {.heads = 32, .kv_heads = 8, .head_dim = 128},
                                 .strides = {},
                                 .tokens = queries + up_to(20000),
                                 .gradient_rows = samples + up_to(300000),
                                 .samples = samples,
                                 .longest_queries = queries,
                                 .longest_keys = queries + up_to(300000),
                                 .gradients = seed % 2 == 0};
    const cuda::CudnnSizes rounded = exact.rounded();
    const auto within = [](std::int64_t to, std::int64_t from, double factor) {
      return from <= to && static_cast<double>(to) <= std::max(128.0, factor * static_cast<double>(from));
    };
    CHECK(within(rounded.tokens, exact.tokens, 1.25));
    CHECK(within(rounded.samples, exact.samples, 2.0));
    CHECK(within(rounded.longest_queries, exact.longest_queries, 2.0));
    CHECK(within(rounded.longest_keys, exact.longest_keys, 2.0));
    CHECK(rounded.longest_queries <= rounded.longest_keys);
    CHECK((exact.gradients ? within(rounded.gradient_rows, exact.gradient_rows, 1.25)
                           : rounded.gradient_rows == exact.gradient_rows));
    CHECK(rounded.rounded().key() == rounded.key());
    // What grouped heads take for keys is the less of both ways.
    const auto most = exact.most_keys();
    CHECK(most.has_value() == (2 * exact.gradient_rows <= exact.samples * exact.longest_keys));
    if (most) CHECK(*most == exact.gradient_rows);
  }
  // Heads x queries x keys, twice a byte.
  const cuda::CudnnSizes long_prefix{.shape = {.heads = 32, .kv_heads = 8, .head_dim = 128},
                                     .strides = {},
                                     .tokens = 4096,
                                     .gradient_rows = 262144,
                                     .samples = 1,
                                     .longest_queries = 4096,
                                     .longest_keys = 262144,
                                     .gradients = true};
  CHECK(long_prefix.fixed_order_bytes() == std::size_t{32} * 4096 * 262144 * 2);
}

TEST_CASE("a scale of sizes has a bounded number of them") {
  for (const std::int64_t steps : {1, 4}) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t n = 1; n <= 1 << 18; ++n) {
      const std::int64_t size = cuda::rounded_up(n, 128, steps);
      REQUIRE(size >= n);
      REQUIRE(static_cast<double>(size) <=
              std::max(128.0, static_cast<double>(n) * (1.0 + 1.0 / static_cast<double>(steps))));
      if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
      REQUIRE(sizes.back() == size);
    }
    CHECK(std::is_sorted(sizes.begin(), sizes.end()));
    CHECK(sizes.size() == static_cast<std::size_t>(1 + 11 * steps));
    for (const std::int64_t size : sizes) CHECK(cuda::rounded_up(size, 128, steps) == size);
  }
}

TEST_CASE("values that were asked for last are kept, and no more than so many") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::size_t most = 1 + seed % 5;
    cuda::Recent<int, int> recent(most);
    std::vector<int> asked;  // the last one first
    for (int i = 0; i < 200; ++i) {
      const int key = std::uniform_int_distribution<int>(0, 8)(random);
      const auto before = std::find(asked.begin(), asked.end(), key);
      const bool kept = before != asked.end() && before - asked.begin() < static_cast<std::ptrdiff_t>(most);
      if (before != asked.end()) asked.erase(before);
      REQUIRE(recent.has(key) == kept);
      bool made = false;
      const int value = recent.get(key, [&] {
        made = true;
        return 10 * key;
      });
      asked.insert(asked.begin(), key);
      REQUIRE((value == 10 * key && made == !kept));
      REQUIRE(recent.size() == std::min(most, asked.size()));
    }
    CHECK_THROWS_AS(recent.get(99, []() -> int { throw InvalidInput("no"); }), InvalidInput);
    CHECK((recent.has(asked[0]) && !recent.has(99)));
  }
  CHECK_THROWS_AS((cuda::Recent<int, int>(0)), InvalidInput);
}

TEST_CASE("CUDA: numbers per head are put in the tokens' order and back") {
  for (const auto& [heads, tokens] : {std::pair(1UL, 5UL), std::pair(32UL, 77UL), std::pair(3UL, 1UL)}) {
    Matrix<float> per_head(heads, tokens), back(heads, tokens);
    for (std::size_t i = 0; i < heads * tokens; ++i) per_head.data()[i] = static_cast<float>(i);
    std::vector<float> by_token(heads * tokens, -1.0F);
    cuda::token_order_by(HostLauncher{}, per_head.view(), std::span(by_token), true);
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t t = 0; t < tokens; ++t)
        REQUIRE(by_token[t * heads + h] == per_head.data()[h * tokens + t]);
    }
    cuda::token_order_by(HostLauncher{}, back.view(), std::span(by_token), false);
    CHECK(std::equal(back.data(), back.data() + heads * tokens, per_head.data()));
    CHECK_THROWS_AS(cuda::token_order_by(HostLauncher{}, back.view(), std::span<float>(), true),
                    InvalidInput);
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
    for (const auto order : {cuda::CudnnOrder::automatic, cuda::CudnnOrder::fixed, cuda::CudnnOrder::any}) {
      for (const bool rounded : {false, true}) {
        INFO(pack.name << ", order " << static_cast<int>(order) << (rounded ? ", rounded" : ""));
        const auto refusal =
            cuda::cudnn_refusal(shape, pack.slices, {q, k, k}, true, {.order = order, .rounded = rounded});
        CHECK(refusal.value_or("") == "");
      }
    }
  }
}
#endif
