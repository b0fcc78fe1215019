#include "kernels/cuda/device/ring.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "kernels/cuda/ring_plan.hpp"
#include "tests/kernels_cuda_device/attention_case.hpp"
#include "tests/kernels_cuda_device/host_launcher.hpp"
#include "tests/kernels_cuda_device/random_bf16.hpp"

// What goes round between members of a merged pack, and how attention to it comes together.
using namespace slimpack;
using namespace slimpack::kernels;
using namespace slimpack::kernels::cuda;
using slimpack::testing::Bf16Rows, slimpack::testing::HostLauncher, slimpack::testing::numbers,
    slimpack::testing::pick, slimpack::testing::random_bf16, slimpack::testing::relative_error;

namespace {

/// Slices of some samples, run by some members, to which each sample is dealt by position or by a list of ranges.
struct RingCase {
  explicit RingCase(unsigned seed) : random(seed) {
    const auto count = pick(random, 2, 4);
    for (std::size_t i = 0; i < count; ++i) members.push_back(static_cast<PipelineId>(i));
    block = static_cast<Tokens>(pick(random, 1, 9));
    ring_tokens = pick(random, 1, 30);
    for (std::size_t i = pick(random, 1, 4); i > 0; --i) {
      const auto begin = static_cast<Tokens>(pick(random, 0, 1) * pick(random, 0, 80));
      slices.push_back({static_cast<SampleId>(i), begin, begin + static_cast<Tokens>(pick(random, 1, 90))});
    }
    owners = SampleOwners(5, block);
    for (const Slice& slice : slices)
      deal(slice, seed % 3 == 0 || (seed % 3 == 1 && pick(random, 0, 1) == 0));
  }

  /// @param listed by a list of ranges of random lengths.
  void deal(const Slice& slice, bool listed) {
    std::vector<OwnedRange> ranges;
    for (Tokens begin = 0; begin < slice.end;) {
      const Tokens end = std::min(begin + static_cast<Tokens>(pick(random, 1, 20)), slice.end);
      ranges.push_back({begin, end, pick(random, 0, members.size() - 1)});
      begin = end;
    }
    owner_of_token.resize(5);
    for (const OwnedRange& range : ranges) {
      for (Tokens t = range.begin; t < range.end; ++t)
        owner_of_token[slice.sample].push_back(listed ? range.member : owner_of(t, members.size(), block));
    }
    if (listed) {
      owners.deal(slice.sample, members.size(), ranges);
    } else {
      owners.deal_by_position(slice.sample, members.size());
    }
  }

  [[nodiscard]] std::size_t owner(SampleId sample, Tokens token) const {
    return owner_of_token[sample].at(static_cast<std::size_t>(token));
  }

  [[nodiscard]] StageTask task(std::size_t member) {
    StageTask task{};
    task.slices = slices;
    task.members = members;
    task.member = member;
    owned.clear();
    for (const Slice& slice : slices)
      owners.for_each_owned_range(slice, member, [&](const Slice& range) { owned.push_back(range); });
    task.owned = owned;
    task.tokens = task.owned_tokens = 0;
    for (const Slice& slice : slices) task.tokens += slice.size();
    for (const Slice& slice : owned) task.owned_tokens += slice.size();
    return task;
  }

  /// Tokens of a window that a member holds, by row.
  [[nodiscard]] std::vector<std::pair<SampleId, Tokens>> tokens_of(const RingWindow& window,
                                                                   std::size_t member) const {
    std::vector<std::pair<SampleId, Tokens>> tokens;
    for (const RingPiece& piece : window.pieces) {
      Tokens row = 0;
      for (Tokens t = 0; t < piece.keys.end; ++t) {
        if (owner(piece.keys.sample, t) != member) continue;
        if (row >= piece.first && row < piece.first + piece.rows) tokens.emplace_back(piece.keys.sample, t);
        ++row;
      }
    }
    return tokens;
  }

  std::mt19937 random;
  std::vector<PipelineId> members;
  std::vector<Slice> slices, owned;
  Tokens block = 1;
  std::size_t ring_tokens = 1;
  SampleOwners owners;
  std::vector<std::vector<std::size_t>> owner_of_token;  ///< [sample][token]
};

}  // namespace

TEST_CASE("CUDA: in a ring each query meets each key of other members that it sees once") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    RingCase c(seed);
    const std::size_t members = c.members.size();
    for (std::size_t member = 0; member < members; ++member) {
      const StageTask task = c.task(member);
      using Pair = std::pair<std::pair<SampleId, Tokens>, std::pair<SampleId, Tokens>>;
      std::set<Pair> met, expected;
      std::vector<std::pair<SampleId, Tokens>> queries;
      for (const Slice& range : task.owned) {
        for (Tokens t = range.begin; t < range.end; ++t) queries.emplace_back(range.sample, t);
      }
      for (const auto& query : queries) {
        for (Tokens key = 0; key < query.second; ++key) {
          if (c.owner(query.first, key) != member) expected.insert({query, {query.first, key}});
        }
      }
      std::size_t most = 0;
      for (const RingWindow& window : ring_windows(task, c.ring_tokens, c.owners)) {
        for (std::size_t other = 0; other < members; ++other) {
          const auto keys = c.tokens_of(window, other);
          REQUIRE(ring_rows(window, other, c.owners) == keys.size());
          CHECK(keys.size() <= c.ring_tokens);
          most = std::max(most, keys.size());
          if (other == member) continue;
          const auto slices = ring_slices(window, task, other, c.owners);
          CHECK_NOTHROW(attention_work(slices, queries.size(), keys.size()));
          for (const AttentionSlice& slice : slices) {
            CHECK(slice.own_keys == 0);
            for (std::int32_t q = 0; q < slice.tokens; ++q) {
              for (std::int32_t k = 0; k < slice.prefix; ++k) {
                const Pair pair{queries.at(static_cast<std::size_t>(slice.query_begin + q)),
                                keys.at(static_cast<std::size_t>(slice.key_begin + k))};
                CHECK(met.insert(pair).second);
              }
            }
          }
        }
      }
      CHECK((met == expected));
      CHECK(most_ring_rows(task, c.ring_tokens, c.owners) == most);
    }
  }
}

TEST_CASE("CUDA: what the host tells of a ring takes what is reckoned with") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    RingCase c(seed);
    const StageTask task = c.task(seed % c.members.size());
    for (const std::int32_t block : {attention_rows, group_attention_rows}) {
      std::size_t bytes = 0;
      for (const RingWindow& window : ring_windows(task, c.ring_tokens, c.owners)) {
        for (std::size_t other = 0; other < c.members.size(); ++other) {
          if (other == task.member) continue;
          const AttentionWork work = attention_work(ring_slices(window, task, other, c.owners),
                                                    static_cast<std::size_t>(task.owned_tokens),
                                                    ring_rows(window, other, c.owners), block);
          bytes += TaskData::bytes_of<AttentionSlice>(work.slices.size()) +
                   TaskData::bytes_of<QueryItem>(work.queries.size()) +
                   TaskData::bytes_of<KeyItem>(work.keys.size());
        }
      }
      const std::size_t reckoned = ring_data_bytes(task, c.ring_tokens, c.owners);
      CHECK(bytes <= reckoned);
      if (block == attention_rows) CHECK(bytes == reckoned);
    }
  }
}

TEST_CASE("CUDA: attention to parts of the keys comes together as attention to all of them") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const HeadShape shape{.heads = pick(random, 1, 3), .kv_heads = 1, .head_dim = seed % 2 == 0 ? 64U : 128U};
    const std::size_t tokens = pick(random, 1, 150), parts = pick(random, 2, 5);
    const std::int32_t rows = seed % 3 == 0 ? group_attention_rows : attention_rows;
    // A slice of some rows; the others keep what they have.
    const std::size_t first = pick(random, 0, tokens - 1), count = pick(random, 1, tokens - first);
    const std::vector<AttentionSlice> slices{{.query_begin = static_cast<std::int32_t>(first),
                                              .tokens = static_cast<std::int32_t>(count),
                                              .key_begin = 0,
                                              .prefix = 1,
                                              .gradient_piece = 0,
                                              .own_keys = 0}};
    const AttentionWork work = attention_work(slices, tokens, 1, rows);
    const AttentionItems items{work.slices, work.queries, work.keys, work.rows};
    const std::size_t width = shape.query_width();
    Matrix<float> sum(tokens, width), lse(shape.heads, tokens), part_lse(shape.heads, tokens),
        added(tokens, width);
    Matrix<double> expected(tokens, width), weights(shape.heads, tokens), plain(tokens, width);
    std::normal_distribution<float> normal;
    for (std::size_t part = 0; part < parts; ++part) {
      const Bf16Rows out = random_bf16(random, tokens, width);
      const auto numbers_of_part = out.in_double();
      for (std::size_t head = 0; head < shape.heads; ++head) {
        for (std::size_t t = 0; t < tokens; ++t) {
          const bool meets = part == 0 || (t >= first && t < first + count);
          const float log = 8.0F * normal(random);
          part_lse.view().row(head)[t] = meets ? log : NAN;
          if (!meets) continue;
          const double weight = std::exp(static_cast<double>(log));
          weights.view().row(head)[t] += weight;
          for (std::size_t i = head * shape.head_dim; i < (head + 1) * shape.head_dim; ++i) {
            const double number = numbers_of_part.view().row(t)[i];
            expected.view().row(t)[i] += weight * number;
            if (part > 0) plain.view().row(t)[i] += number;
            if (part == 0) sum.view().row(t)[i] = static_cast<float>(number);
          }
          if (part == 0) lse.view().row(head)[t] = log;
        }
      }
      if (part == 0) continue;
      merge_parts_by(HostLauncher{}, shape, items, out.view(), std::as_const(part_lse).view(), sum.view(),
                     lse.view());
      add_parts_by(HostLauncher{}, shape, items, out.view(), added.view());
    }
    std::vector<double> expected_lse;
    for (std::size_t head = 0; head < shape.heads; ++head) {
      for (std::size_t t = 0; t < tokens; ++t) {
        const double weight = weights.view().row(head)[t];
        expected_lse.push_back(std::log(weight));
        for (std::size_t i = head * shape.head_dim; i < (head + 1) * shape.head_dim; ++i)
          expected.view().row(t)[i] /= weight;
      }
    }
    CHECK(relative_error(numbers(sum), numbers(expected)) <= 1e-5);
    CHECK(relative_error(numbers(lse), expected_lse) <= 1e-5);
    CHECK(relative_error(numbers(added), numbers(plain)) <= 1e-6);
  }
}

TEST_CASE("CUDA: rows are copied, or rounded, and parts that do not fit are refused") {
  std::mt19937 random(1);
  const Bf16Rows from = random_bf16(random, 37, 24, 40);
  Bf16Rows copy(37, 24), rounded(37, 24);
  set_rows_by(HostLauncher{}, from.view(), copy.view());
  CHECK(relative_error(numbers(copy.in_double()), numbers(from.in_double())) == 0.0);
  Matrix<float> floats(37, 24);
  for (std::size_t r = 0; r < 37; ++r) {
    for (std::size_t c = 0; c < 24; ++c)
      floats.view().row(r)[c] = to_float(from.view().row(r)[c]) * (1 + 1e-4F);
  }
  set_rows_by(HostLauncher{}, std::as_const(floats).view(), rounded.view());
  CHECK(relative_error(numbers(rounded.in_double()), numbers(from.in_double())) == 0.0);
  CHECK_THROWS_AS(set_rows_by(HostLauncher{}, from.view(), copy.view().middle_rows(0, 3)), InvalidInput);
  const HeadShape shape{.heads = 1, .kv_heads = 1, .head_dim = 64};
  CHECK_THROWS_AS(add_parts_by(HostLauncher{}, shape, {}, from.view(), floats.view()), InvalidInput);
}
