#include "kernels/settings.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "tests/kernels/executor_case.hpp"

using namespace slimpack;
using namespace slimpack::kernels;
using slimpack::testing::ExecutorCase, slimpack::testing::PlanKind;

namespace {

/// What each of two ranks says when both make a step; empty if it goes well. @param odd what makes one of them differ.
template <class Other>
std::vector<std::string> said(const ExecutorCase& c, const std::function<void(ExecutorCase&)>& odd) {
  std::vector<std::string> result(2);
  const auto step = [&]<class Real>(Real, InProcessTransport& t, const ExecutorCase& own) {
    RankExecutor<CpuStage<Real>, InProcessTransport>(t, own.model, own.plan, own.options)
        .step(own.plan, own.ids);
  };
  try {
    run_in_process(2, [&](InProcessTransport& t) {
      try {
        ExecutorCase own = c;
        if (t.rank() == 1) odd(own);
        t.rank() == 1 ? step(Other{}, t, own) : step(double{}, t, own);
      } catch (const std::exception& error) {
        result[t.rank()] = error.what();
        throw;
      }
    });
  } catch (const std::exception&) {
    return result;
  }
  return result;
}

/// Both ranks have to name the field, the rank and both values, and nothing else. One of them may hear it from the other.
void expect_refused(const std::vector<std::string>& said, const std::string& name) {
  const std::string begin = "ranks do not agree on the ";
  for (const std::string& rank : said) {
    CHECK_THAT(rank, Catch::Contains(begin + name + ": rank 1 has ") && Catch::Contains("; expected ") &&
                         Catch::EndsWith(" as on the other 1 of 2 ranks"));
    CHECK(rank.find(begin) == rank.rfind(begin));
  }
}

using Change = std::function<void(ExecutorCase&)>;

/// For each setting of the options, what changes it and nothing else.
const std::map<std::string, Change> changes{
    {"model's hidden size", [](ExecutorCase& c) { c.model.hidden *= 2; }},
    {"model's heads", [](ExecutorCase& c) { c.model.heads *= 2; }},
    {"model's key/value heads", [](ExecutorCase& c) { c.model.kv_heads = c.model.heads; }},
    {"model's head dimension", [](ExecutorCase& c) { c.model.head_dim *= 2; }},
    {"model's feed-forward size", [](ExecutorCase& c) { c.model.ffn += 1; }},
    {"model's vocabulary", [](ExecutorCase& c) { c.model.vocab += 1; }},
    {"epsilon of norms", [](ExecutorCase& c) { c.options.stage.norm_epsilon *= 2; }},
    {"rotary embedding's theta", [](ExecutorCase& c) { c.options.stage.rope_theta *= 2; }},
    {"exchange of keys and values", [](ExecutorCase& c) { c.options.stage.merged = MergedAttention::heads; }},
    {"tokens that go round at a time", [](ExecutorCase& c) { ++c.options.stage.ring_tokens; }},
    {"tokens of a page of keys and values", [](ExecutorCase& c) { ++c.options.stage.page_tokens; }},
    {"tokens whose logits exist at a time", [](ExecutorCase& c) { ++c.options.stage.head_chunk_tokens; }},
    {"attention", [](ExecutorCase& c) { c.options.stage.attention = AttentionChoice::cudnn; }},
    {"workspace of attention", [](ExecutorCase& c) { ++c.options.stage.attention_workspace; }},
    {"seed of the weights", [](ExecutorCase& c) { ++c.options.init.seed; }},
    {"deviation of the weights", [](ExecutorCase& c) { c.options.init.deviation *= 2; }},
    {"learning rate", [](ExecutorCase& c) { c.options.adamw.learning_rate *= 2; }},
    {"beta1 of AdamW", [](ExecutorCase& c) { c.options.adamw.beta1 /= 2; }},
    {"beta2 of AdamW", [](ExecutorCase& c) { c.options.adamw.beta2 /= 2; }},
    {"epsilon of AdamW", [](ExecutorCase& c) { c.options.adamw.epsilon *= 2; }},
    {"weight decay", [](ExecutorCase& c) { c.options.adamw.weight_decay *= 2; }},
    {"sharding of the optimiser", [](ExecutorCase& c) { c.options.shard_optimiser ^= true; }},
    {"chunk of a merged sample", [](ExecutorCase& c) { ++c.options.block; }},
};

ExecutorCase two_ranks() {
  ExecutorCase c = slimpack::testing::executor_case(PlanKind::equal_packs, 0, 2);
  c.model.heads = 4;
  c.model.kv_heads = 2;
  return c;
}

}  // namespace

TEST_CASE("two ranks that differ in one setting are refused, and it is named", "[threads]") {
  const ExecutorCase c = two_ranks();
  CHECK(said<double>(c, [](ExecutorCase&) {}) == std::vector<std::string>(2));
  for (const auto& [name, change] : changes) {
    INFO(name << ", plan of seed " << c.seed);
    expect_refused(said<double>(c, change), name);
  }
}

TEST_CASE("every setting is among those that the test before this one changes") {
  for (const Setting& setting : executor_settings<CpuStage<double>>({}, two_ranks().options)) {
    INFO(setting.name);
    const bool of_type = setting.name == "precision" || setting.name == "version";
    const bool of_plan = setting.name == "model's layers";
    CHECK((of_type || of_plan || changes.count(setting.name) == 1));
  }
}

TEST_CASE("two ranks of other numbers are refused by their precision", "[threads]") {
  const auto answers = said<float>(two_ranks(), [](ExecutorCase&) {});
  expect_refused(answers, "precision");
  CHECK_THAT(answers[0], Catch::Contains("rank 1 has weights of 32 bits and numbers of 32") &&
                             Catch::Contains("expected weights of 64 bits and numbers of 64"));
}

TEST_CASE("two ranks with other texts are refused by them", "[threads]") {
  expect_refused(said<double>(two_ranks(), [](ExecutorCase& c) { c.ids[0][0] ^= 1; }), "token ids");
}

TEST_CASE("another number of layers is refused", "[threads]") {
  for (const std::string& rank : said<double>(two_ranks(), [](ExecutorCase& c) { ++c.model.layers; }))
    CHECK_THAT(rank, Catch::Contains("layers"));
}

TEST_CASE("ranks may use different memory, and wait differently", "[threads]") {
  CHECK(said<double>(two_ranks(), [](ExecutorCase& c) {
          c.options.stage.limit_bytes = 1e12;
          c.options.loop.window += 1;
          c.options.stage.name = "mine";
        }) == std::vector<std::string>(2));
}
