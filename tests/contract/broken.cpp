// Models with one thing wrong: each is found, and named.
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "slimpack/cost/conformance.hpp"
#include "slimpack/cost/memory_conformance.hpp"

using namespace slimpack;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// A model that keeps the contract: time is tokens, pairs and keys. Its parts may be replaced.
struct Model {
  std::size_t count = 2;
  std::function<double(std::size_t, Tokens, Tokens, Pass)> slice = [](std::size_t, Tokens b, Tokens e, Pass) {
    return SliceCoefficients{1e-5, 1e-6, 1e-9, 1e-11}.seconds(b, e);
  };
  std::function<double(std::size_t, Pass)> pack = [](std::size_t, Pass) { return 1e-3; };
  std::function<double(std::size_t, Tokens, Pass)> transfer = [](std::size_t, Tokens n, Pass) {
    return 1e-5 + 1e-8 * double(n);
  };
  std::function<double(std::size_t, Tokens, Tokens)> recompute = [](std::size_t, Tokens b, Tokens e) {
    return SliceCoefficients{.per_token = 1e-7, .per_twice_pair = 1e-12}.seconds(b, e);
  };
  std::function<double(Tokens)> offload = [](Tokens n) { return 1e-8 * double(n); };
  double recompute_pack = 0.0, sync = 0.5;
  std::vector<std::int32_t> held{3, 2};
  bool polynomial = true;
  SliceCoefficients rates{1e-5, 1e-6, 1e-9, 1e-11},
      recompute_rates{.per_token = 1e-7, .per_twice_pair = 1e-12};
  std::function<double(double)> attention = [](double layer) { return 3.0 * layer; };
  std::function<double(double)> other = [](double whole) { return 0.5 * whole; };
  double share = 1.0;             // of what a pipeline takes alone
  double recomputed_share = 1.0;  // the same, of recomputed layers
  double merged_recompute = 1.0;  // `recomputed_share` of a group
  std::function<double(int)> member = [](int g) { return 1.0 / g + 0.05; };
  std::size_t merged_stages = 2;
  double all_stages = 1.0, row_before = 1.0, row_after = 1.0;

  std::size_t stages() const { return count; }
  double slice_seconds(std::size_t s, Tokens b, Tokens e, Pass p) const { return share * slice(s, b, e, p); }
  double pipeline_seconds(Tokens b, Tokens e, Pass p) const {
    double sum = 0.0;
    for (std::size_t s = 0; s < count; ++s) sum += slice_seconds(s, b, e, p);
    return sum * all_stages;
  }
  void add_slice_seconds(Tokens b, Tokens e, Pass p, std::span<double> row) const {
    for (std::size_t s = 0; s < row.size(); ++s) row[s] = row_before * row[s] + slice_seconds(s, b, e, p);
  }
  void add_sample_seconds(std::span<const Tokens> lengths, Pass p, std::span<double> row) const {
    for (const Tokens length : lengths) add_slice_seconds(0, length, p, row);
    for (double& seconds : row) seconds *= row_after;
  }
  double pack_seconds(std::size_t s, Pass p) const { return pack(s, p); }
  double transfer_seconds(std::size_t s, Tokens n, Pass p) const { return transfer(s, n, p); }
  double recompute_seconds(std::size_t s, Tokens b, Tokens e) const {
    return share * recomputed_share * recompute(s, b, e);
  }
  double recompute_pack_seconds(std::size_t) const { return recompute_pack; }
  double offload_seconds(std::size_t, Tokens n, Pass) const { return share * offload(n); }
  double sync_seconds() const { return sync; }
  std::span<const std::int32_t> layers() const { return held; }
  bool is_polynomial() const { return polynomial; }
  SliceCoefficients coefficients(std::size_t, Pass) const { return share * rates; }
  SliceCoefficients recompute_coefficients(std::size_t) const {
    return share * recomputed_share * recompute_rates;
  }
  double other_seconds(std::size_t s, Tokens b, Tokens e, Pass p) const {
    return other(slice_seconds(s, b, e, p));
  }
  double recompute_other_seconds(std::size_t s, Tokens b, Tokens e) const {
    return other(recompute_seconds(s, b, e));
  }
  double attention_seconds(std::size_t, Pass, double layer) const { return attention(layer); }
  bool supports_context_parallel(std::int32_t) const { return true; }
  Model with_context_parallel(std::int32_t g) const {
    Model copy = *this;
    if (g > 1) {
      copy.share *= member(g);
      copy.recomputed_share *= merged_recompute;
      copy.count = merged_stages;
    }
    return copy;
  }
};
static_assert(MergeableCostModel<Model> && RecomputingCostModel<Model> && LayeredCostModel<Model>);
static_assert(PolynomialCostModel<Model> && SeparableCostModel<Model>);

/// One violation, of this property, whose text has these words.
template <class Change>
void expect_found(const std::string& property, const std::string& words, const Change& change,
                  ConformanceOptions options = {}) {
  INFO(property << ": " << words);
  Model model;
  change(model);
  const std::vector<std::string> found = check_cost_model(model, options);
  CAPTURE(found);
  bool named = false;
  for (const std::string& f : found)
    named |= f.starts_with(property + ": ") && f.find(words) != std::string::npos;
  CHECK(named);
}

struct Bytes {
  double capacity = 8e10, always = 1e10, gradient = 100.0;
  std::function<double(int)> kept = [](int r) { return 1000.0 - 100.0 * r; };
  std::function<double(int)> there = [](int o) { return 10.0 * o; }, left = there;
  std::function<double(Tokens)> work = [](Tokens n) { return 10.0 * double(n); }, moved = work,
                                transit = work;

  double capacity_bytes() const { return capacity; }
  double static_bytes(std::size_t) const { return always; }
  double activation_bytes(std::size_t, int r) const { return kept(r); }
  double activation_bytes(std::size_t, int r, int o) const { return kept(r) - left(o); }
  double host_bytes(std::size_t, int, int o) const { return there(o); }
  double transit_bytes(std::size_t, Tokens n) const { return transit(n); }
  double kv_gradient_bytes(std::size_t) const { return gradient; }
  double workspace_bytes(std::size_t, Pass, Tokens n, int) const { return work(n); }
  double exchange_bytes(std::size_t, Pass, Tokens n, std::size_t) const { return moved(n); }
};
static_assert(ExchangingMemoryModel<Bytes> && OffloadingMemoryModel<Bytes>);

template <class Change>
void expect_found_in_memory(const std::string& property, const Change& change) {
  INFO(property);
  Bytes memory;
  change(memory);
  const std::vector<std::int32_t> layers{3, 2};
  const std::vector<std::string> found = check_memory_model(memory, layers);
  REQUIRE(found.size() == 1);
  CHECK(found[0].starts_with(property + ": "));
}

}  // namespace

TEST_CASE("a model that keeps the contract has no violations") {
  CHECK(check_cost_model(Model{}).empty());
  const std::vector<std::int32_t> layers{3, 2};
  CHECK(check_memory_model(Bytes{}, layers).empty());
}

TEST_CASE("each broken property of a cost model is found by name") {
  expect_found("stages", "there are none", [](Model& m) { m.count = m.merged_stages = 0; });
  expect_found("stages", "layers() has 1", [](Model& m) { m.held = {5}; });
  expect_found("non-negative", "slice_seconds on stage 1, backward", [](Model& m) {
    m.slice = [](std::size_t s, Tokens b, Tokens e, Pass p) {
      return (s == 1 && p == Pass::backward ? -1e-6 : 1e-6) * double(e - b);
    };
  });
  expect_found("non-negative", "slice_seconds", [](Model& m) {
    m.slice = [](std::size_t, Tokens b, Tokens e, Pass) {
      return e > 50000 ? not_a_number : 1e-6 * double(e - b);
    };
  });
  expect_found("non-negative", "pack_seconds on stage 0, forward",
               [](Model& m) { m.pack = [](std::size_t, Pass) { return -1e-3; }; });
  expect_found("non-negative", "transfer_seconds after stage 0",
               [](Model& m) { m.transfer = [](std::size_t, Tokens, Pass) { return not_a_number; }; });
  expect_found("non-negative", "recompute_seconds", [](Model& m) {
    m.recompute = [](std::size_t, Tokens b, Tokens e) { return -1e-9 * double(e - b); };
  });
  expect_found("non-negative", "offload_seconds on stage 0, forward",
               [](Model& m) { m.offload = [](Tokens n) { return -1e-9 * double(n); }; });
  expect_found("non-negative", "recompute_pack_seconds", [](Model& m) { m.recompute_pack = -1.0; });
  expect_found("non-negative", "sync_seconds", [](Model& m) { m.sync = not_a_number; });
  expect_found("empty", "slice_seconds", [](Model& m) {
    m.slice = [](std::size_t, Tokens b, Tokens e, Pass) { return 1e-5 + 1e-6 * double(e - b); };
  });
  expect_found("pure", "and then", [](Model& m) {
    m.slice = [n = 0](std::size_t, Tokens b, Tokens e, Pass) mutable {
      return 1e-6 * double(e - b) * (1.0 + 1e-3 * ++n);
    };
  });
  expect_found("monotone", "more than the", [](Model& m) {
    m.slice = [](std::size_t, Tokens b, Tokens e, Pass) { return b == e ? 0.0 : 1.0 / double(e - b); };
  });
  // A price for the prefix alone that is above what a token takes: longer slices take less.
  expect_found("monotone", "more than the", [](Model& m) {
    m.slice = [](std::size_t, Tokens b, Tokens e, Pass) {
      return b == e ? 0.0 : 1e-7 * double(e - b) + 1e-6 * double(b);
    };
  });
  expect_found("monotone", "offload_seconds",
               [](Model& m) { m.offload = [](Tokens n) { return n == 0 ? 0.0 : 1.0 / double(n); }; });
  expect_found("monotone", "recompute_seconds", [](Model& m) {
    m.recompute = [](std::size_t, Tokens b, Tokens e) { return b == e ? 0.0 : 1.0 / double(e); };
  });
  expect_found("split", "less than the", [](Model& m) {
    m.slice = [](std::size_t, Tokens b, Tokens e, Pass) { return 1e-9 * double(e - b) * double(e - b); };
  });
  expect_found("split", "recompute_seconds on stage 0", [](Model& m) {
    m.recompute = [](std::size_t, Tokens b, Tokens e) { return 1e-9 * double(e - b) * double(e - b); };
  });
  expect_found("transfers", "less than the", [](Model& m) {
    m.transfer = [](std::size_t, Tokens n, Pass) { return 1.0 / double(n + 1); };
  });
  expect_found("rows", "pipeline_seconds", [](Model& m) { m.all_stages = 1.1; });
  expect_found("rows", "add_slice_seconds", [](Model& m) { m.row_before = 0.0; });
  expect_found("rows", "add_sample_seconds", [](Model& m) { m.row_after = 1.1; });
  expect_found("polynomial", "slice_seconds", [](Model& m) { m.rates.per_key *= 1.01; });
  expect_found("polynomial", "recompute_seconds", [](Model& m) { m.recompute_rates.per_token *= 1.01; });
  expect_found("separable", "other_seconds",
               [](Model& m) { m.other = [](double whole) { return 1.5 * whole; }; });
  expect_found("separable", "attention_seconds",
               [](Model& m) { m.attention = [](double layer) { return 1.0 + layer; }; });
  expect_found("merging", "2 members together", [](Model& m) { m.member = [](int g) { return 0.9 / g; }; });
  expect_found("merging", "recompute_seconds on stage 0", [](Model& m) { m.merged_recompute = 0.0; });
  expect_found("merging", "2 pipelines have 1 stages", [](Model& m) { m.merged_stages = 1; });
}

TEST_CASE("prices that are no polynomial are not compared with one, and savings of merging may be declared") {
  Model model;
  model.polynomial = false;
  model.rates = {};
  model.member = [](int g) { return 0.9 / g; };
  CHECK(check_cost_model(model, {.merging_may_save_work = true}).empty());
  CHECK(check_cost_model(model).size() == 1);
  CHECK(check_cost_model(model, {.groups = {}}).empty());
}

TEST_CASE("findings say the seed and the numbers, and are the same each time") {
  Model model;
  model.member = [](int g) { return 0.5 / g; };
  const auto found = check_cost_model(model, {.seed = 77});
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("(seed 77)") != std::string::npos);
  CHECK(found == check_cost_model(model, {.seed = 77}));
}

TEST_CASE("each broken property of a memory model is found by name") {
  expect_found_in_memory("capacity", [](Bytes& m) { m.capacity = 0.0; });
  expect_found_in_memory("non-negative", [](Bytes& m) { m.always = not_a_number; });
  expect_found_in_memory("non-negative", [](Bytes& m) { m.gradient = -1.0; });
  expect_found_in_memory("non-negative", [](Bytes& m) { m.kept = [](int r) { return 150.0 - 100.0 * r; }; });
  expect_found_in_memory("recompute", [](Bytes& m) { m.kept = [](int r) { return 100.0 + r; }; });
  expect_found_in_memory("offload", [](Bytes& m) { m.left = [](int o) { return -1.0 * o; }; });
  expect_found_in_memory("offload", [](Bytes& m) { m.left = [](int o) { return 1.0 + o; }; });
  expect_found_in_memory("offload", [](Bytes& m) { m.there = [](int o) { return 50.0 / (1.0 + o); }; });
  expect_found_in_memory("monotone", [](Bytes& m) { m.transit = [](Tokens n) { return 1e9 - double(n); }; });
  expect_found_in_memory("monotone", [](Bytes& m) { m.work = [](Tokens n) { return 1e9 - double(n); }; });
  expect_found_in_memory("monotone", [](Bytes& m) { m.moved = [](Tokens n) { return 1e9 - double(n); }; });
}
