#include "slimpack/plan/json.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/plan/validate.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using nlohmann::json;
using testing::sample_plan;
using testing::SamplePlanOptions;

namespace {

bool same_pass(const PassPlan& a, const PassPlan& b) {
  const auto same_flops = [](const Flops& x, const Flops& y) {
    return x.linear == y.linear && x.attention == y.attention;
  };
  // Without a mixed pack, no rows and empty ones say the same.
  const bool same_marks = a.per_document == b.per_document ||
                          (a.per_document.values().empty() && b.per_document.values().empty());
  return a.packs == b.packs && a.pipelines == b.pipelines && a.seconds == b.seconds &&
         std::equal(a.flops.begin(), a.flops.end(), b.flops.begin(), b.flops.end(), same_flops) &&
         a.transfer_seconds == b.transfer_seconds && a.sharding == b.sharding && same_marks &&
         a.recompute_layers == b.recompute_layers && a.block == b.block && a.exchange == b.exchange &&
         a.offload_layers == b.offload_layers && a.weight_seconds == b.weight_seconds;
}

bool same_device(const Device& a, const Device& b) {
  const auto same_link = [](const Link& x, const Link& y) {
    return x.bandwidth == y.bandwidth && x.latency == y.latency;
  };
  return a.name == b.name && a.peak_flops == b.peak_flops && a.gemm_efficiency == b.gemm_efficiency &&
         a.gemm_backward_efficiency == b.gemm_backward_efficiency &&
         a.attention_forward == b.attention_forward && a.attention_backward == b.attention_backward &&
         a.memory_bytes == b.memory_bytes && a.memory_bandwidth == b.memory_bandwidth &&
         a.pack_overhead == b.pack_overhead && same_link(a.intra_node, b.intra_node) &&
         same_link(a.inter_node, b.inter_node) && same_link(a.host, b.host) &&
         a.devices_per_node == b.devices_per_node;
}

bool same_pipeline(const PipelinePlan& a, const PipelinePlan& b) {
  return a.id == b.id && a.tp == b.tp && a.cp == b.cp && a.layers == b.layers && a.order == b.order &&
         a.devices == b.devices;
}

bool same_step(const StepPlan& a, const StepPlan& b) {
  return a.seconds == b.seconds && a.sync_seconds == b.sync_seconds &&
         a.pipeline_seconds == b.pipeline_seconds && a.bubble_ratio == b.bubble_ratio &&
         a.lower_bound_seconds == b.lower_bound_seconds && a.peak_bytes == b.peak_bytes;
}

/// Every field of two plans.
void check_same(const Plan& a, const Plan& b) {
  CHECK(a.planner == b.planner);
  CHECK(a.model == b.model);
  CHECK(same_device(a.device, b.device));
  CHECK(a.tokens == b.tokens);
  CHECK(a.deferred == b.deferred);
  CHECK(std::equal(a.pipelines.begin(), a.pipelines.end(), b.pipelines.begin(), b.pipelines.end(),
                   same_pipeline));
  CHECK(same_pass(a.forward, b.forward));
  CHECK(same_pass(a.backward, b.backward));
  CHECK(same_step(a.step, b.step));
  CHECK(a.notes == b.notes);
}

Plan rich_plan(std::uint64_t seed = 4) {
  return sample_plan({.seed = seed,
                      .samples = 9,
                      .deferred = 2,
                      .merged = 3,
                      .cp = 2,
                      .split_weights = true,
                      .details = true,
                      .block = 8});
}

/// What `read_json` says about a text; empty if it accepts it.
std::string refusal(std::string_view text) {
  try {
    static_cast<void>(read_json(text));
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a plan survives writing and reading", "[json]") {
  std::size_t mixed = 0;  // slices that are sharded by themselves
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    SamplePlanOptions options{.seed = seed};
    options.merged = seed % 3;
    options.deferred = seed % 2;
    options.cp = 1 + static_cast<std::int32_t>(seed % 2);
    options.mixed = seed % 4 == 1;
    options.split_weights = seed % 4 == 0;
    options.details = seed % 8 < 4;
    options.block = seed % 3 == 0 ? 0 : 8;
    const Plan plan = sample_plan(options);
    const std::string text = to_json(plan);
    const Plan back = read_json(text);
    check_same(plan, back);
    CHECK(to_json(back) == text);
    CHECK(violations(back).empty());
    mixed += back.forward.per_document.values().size() + back.backward.per_document.values().size();
  }
  CHECK(mixed > 0);
}

TEST_CASE("streams hold the same text", "[json]") {
  const Plan plan = rich_plan();
  std::stringstream stream;
  write_json(stream, plan);
  CHECK(stream.str() == to_json(plan));
  check_same(read_json(stream), plan);
  std::istringstream empty;
  CHECK_THROWS_WITH(read_json(empty), Catch::StartsWith("the plan is not JSON"));
}

TEST_CASE("every double reads back exactly", "[json]") {
  std::vector<double> values{0.0,       -0.0,   0.1,
                             1.0 / 3.0, 5e-324, std::numeric_limits<double>::max(),
                             1e22,      1e15,   1e16,
                             1.7e19,    1e20,   9007199254740993.0,
                             -1e300,    3e18,   std::numeric_limits<double>::min()};
  std::mt19937_64 random(7);
  while (values.size() < 4000) {
    const std::uint64_t bits = random();
    double value = 0.0;
    std::copy_n(reinterpret_cast<const unsigned char*>(&bits), sizeof value,
                reinterpret_cast<unsigned char*>(&value));
    if (std::isfinite(value)) values.push_back(value);
  }
  Plan plan = rich_plan();
  plan.step.peak_bytes = {values};
  const auto back = read_json(to_json(plan)).step.peak_bytes;
  REQUIRE(back.size() == 1);
  CHECK(back[0] == values);
  CHECK(std::signbit(back[0][1]));
}

TEST_CASE("numbers that JSON does not have are refused", "[json]") {
  Plan plan = rich_plan();
  plan.step.sync_seconds = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(to_json(plan), Catch::Contains("field 'sync_seconds' holds inf"));
  plan.step.sync_seconds = 0.0;
  plan.forward.seconds[1][0] = std::nan("");
  CHECK_THROWS_WITH(to_json(plan), Catch::Contains("field 'seconds' holds nan"));
}

TEST_CASE("text of any kind is written as JSON", "[json]") {
  Plan plan = rich_plan();
  plan.planner = "quote \" backslash \\ tab \t line \n bell \a délai";
  plan.notes = {"", "</script>", "{\"a\":1}"};
  const Plan back = read_json(to_json(plan));
  CHECK(back.planner == plan.planner);
  CHECK(back.notes == plan.notes);
  plan.model.name = "broken \xff";
  CHECK(read_json(to_json(plan)).model.name == "broken \xef\xbf\xbd");
}

TEST_CASE("ids and lengths at the ends of their ranges", "[json]") {
  Plan plan = rich_plan();
  plan.tokens = {1, Tokens{1} << 40, std::numeric_limits<Tokens>::max()};
  plan.deferred = {0xffffffffu};
  check_same(read_json(to_json(plan)), plan);
}

TEST_CASE("the file has the plan format's fields", "[json]") {
  const json file = json::parse(to_json(rich_plan()));
  CHECK(file["format"] == "slimpack-plan");
  CHECK(file["version"] == 2);
  for (const char* key : {"planner", "model", "device", "tokens", "deferred", "pipelines", "forward",
                          "backward", "step", "notes"}) {
    CHECK(file.contains(key));
  }
  for (const char* key : {"id", "tp", "cp", "pp", "layers", "order"})
    CHECK(file["pipelines"][1].contains(key));
  CHECK(file["pipelines"][1]["pp"] == 3);
  CHECK(file["pipelines"][0]["order"][2][0] == "F0");
  for (const char* pass : {"forward", "backward"}) {
    for (const char* key :
         {"id", "pipelines", "slices", "flops", "seconds", "transfer_seconds", "sharding"}) {
      CHECK(file[pass][2].contains(key));
    }
    CHECK(file[pass][0]["pipelines"] == json{0, 1});
    CHECK(file[pass][0]["slices"][0].size() == 3);
    CHECK(file[pass][0]["flops"].size() == 2);
  }
  CHECK_FALSE(file["forward"][0].contains("recompute_layers"));
  CHECK(file["backward"][0]["recompute_layers"].size() == 3);
  for (const char* key :
       {"seconds", "sync_seconds", "pipeline_seconds", "bubble_ratio", "lower_bound_seconds"}) {
    CHECK(file["step"][key].is_number());
  }
  CHECK(file["step"]["peak_bytes"].size() == 2);
  CHECK_FALSE(json::parse(to_json(sample_plan()))["forward"][0].contains("sharding"));
}

TEST_CASE("the documentation's example is a valid plan", "[json]") {
  std::ifstream file(SLIMPACK_SOURCE_DIR "/docs/plan-format.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::size_t begin = page.find("```json");
  REQUIRE(begin != std::string::npos);
  const std::size_t end = page.find("```", begin + 7);
  REQUIRE(end != std::string::npos);
  const Plan plan = read_json(std::string_view(page).substr(begin + 7, end - begin - 7));
  for (const std::string& text : violations(plan)) UNSCOPED_INFO(text);
  CHECK(violations(plan).empty());
  CHECK(plan.step.bubble_ratio == Approx(1.0 - 16.0 / 28.0));
}

TEST_CASE("the documentation and the schema name every field that is written", "[json]") {
  const auto read = [](const char* name) {
    std::ifstream file(std::string(SLIMPACK_SOURCE_DIR "/docs/") + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string page = read("plan-format.md"), schema = read("plan.schema.json");
  const json file = json::parse(to_json(rich_plan()));
  for (const char* pointer :
       {"", "/model", "/device", "/pipelines/0", "/forward/0", "/forward/0/flops", "/backward/0", "/step"}) {
    for (const auto& [key, value] : file.at(json::json_pointer(pointer)).items()) {
      CAPTURE(pointer, key);
      CHECK(page.find("`" + key + "`") != std::string::npos);
      CHECK(schema.find("\"" + key + "\": {") != std::string::npos);
    }
  }
}

TEST_CASE("files of other planners: unknown fields, null, what may be left out", "[json]") {
  const Plan plan = sample_plan();
  json file = json::parse(to_json(plan));
  file["author"] = {{"name", "someone"}};
  file["forward"][0]["colour"] = "red";
  file["forward"][0]["sharding"] = nullptr;
  file["step"]["energy"] = 1e9;
  check_same(read_json(file.dump(2)), plan);

  file["device"] = {{"name", "unknown"}};
  file.erase("notes");
  for (auto& pack : file["backward"]) pack.erase("recompute_layers");
  const Plan back = read_json(file.dump());
  CHECK(back.notes.empty());
  CHECK(back.device.name == "unknown");
  CHECK(back.device.peak_flops == 0.0);
  CHECK(back.device.gemm_backward_efficiency == 0.0);
  for (const std::int32_t layers : back.backward.recompute_layers.values()) CHECK(layers == 0);
  CHECK(violations(back).empty());
}

TEST_CASE("files that know one fraction of dense products mean it for both passes", "[json]") {
  const Plan plan = sample_plan();
  json file = json::parse(to_json(plan));
  CHECK(file["device"]["gemm_efficiency"] == 0.7);
  CHECK(file["device"]["gemm_backward_efficiency"] == 0.65);
  file["device"].erase("gemm_backward_efficiency");
  Plan expected = plan;
  expected.device.gemm_backward_efficiency = 0.7;
  check_same(read_json(file.dump()), expected);
  file["device"]["gemm_backward_efficiency"] = nullptr;
  check_same(read_json(file.dump()), expected);
}

TEST_CASE("files have version 1 unless a field has a form that version 1 did not have", "[json]") {
  const auto version = [](const Plan& plan) { return json::parse(to_json(plan))["version"].get<int>(); };
  Plan plan = sample_plan();
  for (PassPlan* pass : {&plan.forward, &plan.backward}) {
    for (std::size_t k = 0; k < pass->packs.size(); ++k)
      std::ranges::fill(pass->transfer_seconds[k], 0.25 * static_cast<double>(k));
  }
  CHECK(version(plan) == 1);
  CHECK(json::parse(to_json(plan))["forward"][1]["transfer_seconds"] == 0.25);
  check_same(read_json(to_json(plan)), plan);
  plan.pipelines[0].devices = {{0}, {1}, {2}};
  plan.forward.exchange.assign(plan.forward.packs.size(), KeyExchange::ring);
  plan.backward.offload_layers.repeat_row(plan.backward.packs.size(), std::vector<std::int32_t>{1, 0, 2});
  CHECK(version(plan) == 1);
  check_same(read_json(to_json(plan)), plan);

  Plan listed = plan;
  listed.backward.transfer_seconds[0][1] += 1.0;
  CHECK(version(listed) == 2);
  CHECK(json::parse(to_json(listed))["backward"][0]["transfer_seconds"] == json{0.0, 1.0});
  Plan dealt = plan;
  dealt.forward.sharding[0] = Sharding::by_position;
  CHECK(version(dealt) == 2);
  Plan split = plan;
  split.backward.weight_seconds.repeat_row(plan.backward.packs.size(), std::vector<double>(3, 0.5));
  CHECK(version(split) == 2);
  // In version 1, packs of several pipelines that say `per_document` mean `by_position`.
  Plan merged = plan;
  merged.pipelines.push_back(merged.pipelines[0]);
  merged.pipelines[1].id = 1;
  merged.step.peak_bytes.push_back(merged.step.peak_bytes[0]);
  for (PassPlan* pass : {&merged.forward, &merged.backward}) {
    Ragged<PipelineId> both;
    both.repeat_row(pass->packs.size(), std::vector<PipelineId>{0, 1});
    pass->pipelines = both;
    std::ranges::fill(pass->sharding, Sharding::per_document);
  }
  CHECK(version(merged) == 2);
  for (const Plan& other : {listed, dealt, split, merged}) check_same(read_json(to_json(other)), other);
  json file = json::parse(to_json(listed));
  file["version"] = 1;
  CHECK_THAT(refusal(file.dump()),
             Catch::Contains("plan.backward[0].transfer_seconds is an array; expected a number"));
  file = json::parse(to_json(dealt));
  file["version"] = 1;
  CHECK_THAT(refusal(file.dump()), Catch::Contains("(version 2 also has \"by_position\")"));
}

TEST_CASE("pipelines of one stage have no transfers, whatever their files say", "[json]") {
  const Plan plan = sample_plan({.stages = 1});
  json file = json::parse(to_json(plan));
  CHECK(file["version"] == 1);
  CHECK(file["forward"][0]["transfer_seconds"] == 0.0);
  file["forward"][0]["transfer_seconds"] = 3.5;
  check_same(read_json(file.dump()), plan);
}

TEST_CASE("merged packs of version 1 that say per_document are dealt by position", "[json]") {
  const Plan plan = sample_plan({.seed = 9, .samples = 6, .merged = 2, .block = 8});
  json file = json::parse(to_json(plan));
  file["version"] = 1;
  Plan expected = plan;
  for (const char* name : {"forward", "backward"}) {
    PassPlan& pass = name == std::string("forward") ? expected.forward : expected.backward;
    pass.block = 0;
    for (std::size_t k = 0; k < file[name].size(); ++k) {
      auto& pack = file[name][k];
      std::ranges::fill(pass.transfer_seconds[k], 0.5);
      pack["transfer_seconds"] = 0.5;
      pack.erase("block");
      if (pack.contains("sharding")) pack["sharding"] = "per_document";
    }
  }
  check_same(read_json(file.dump()), expected);
  CHECK(std::ranges::count(expected.forward.sharding, Sharding::by_position) > 0);
  file["version"] = 2;
  CHECK(std::ranges::count(read_json(file.dump()).forward.sharding, Sharding::by_position) == 0);
}

TEST_CASE("all packs that are dealt by position have one block", "[json]") {
  json file = json::parse(to_json(sample_plan({.seed = 9, .samples = 6, .merged = 2, .block = 8})));
  REQUIRE(file["forward"][1]["sharding"] == "by_position");
  file["forward"][1]["block"] = 16;
  CHECK(refusal(file.dump()) == "plan.forward[1].block is 16; expected 8, as in the packs before it");
}

TEST_CASE("phases are written in version 2 and read again; what has no place is refused", "[json]") {
  Plan plan = rich_plan();
  plan.pipelines.back().phase = 1;
  plan.step.switch_seconds = {0.25};
  const Plan again = read_json(to_json(plan));
  CHECK(again.pipelines.back().phase == 1);
  CHECK(again.step.switch_seconds == plan.step.switch_seconds);
  CHECK(to_json(again) == to_json(plan));
  json file = json::parse(to_json(plan));
  CHECK(file["version"] == 2);
  file["pipelines"][1]["phase"] = -1;
  CHECK(refusal(file.dump()).find("plan.pipelines[1].phase is -1") == 0);
  file["pipelines"][1]["phase"] = 1;
  file["version"] = 1;
  CHECK(refusal(file.dump()).find("plan.pipelines[1].phase is 1; expected 0 or nothing in version 1") == 0);
  file["version"] = 2;
  file["step"]["switch_seconds"] = std::vector<double>(plan.pipelines.size(), 0.5);
  CHECK(refusal(file.dump()).find("plan.step.switch_seconds has ") == 0);
  file["step"].erase("switch_seconds");
  file["pipelines"][0]["stage_of"] = {0, 1, 0};
  CHECK(refusal(file.dump()) ==
        "plan.pipelines[0].stage_of is there; expected nothing, for plans with virtual stages can't be read "
        "yet");
}

TEST_CASE("whatever is wrong is named by its path", "[json]") {
  struct Case {
    const char* pointer;  ///< what is replaced
    const char* with;     ///< JSON text
    const char* message;
  };
  const Case cases[] = {
      {"/format", "\"other\"", "plan.format is \"other\"; expected \"slimpack-plan\""},
      {"/format", "7", "plan.format is 7; expected a string"},
      {"/version", "3", "plan.version is 3; expected 1 or 2"},
      {"/version", "1.0", "plan.version is 1.0; expected an integer"},
      {"/planner", "null", "plan.planner is null; expected a string"},
      {"/model", "[]", "plan.model is an array; expected an object"},
      {"/model/layers", "0", "plan.model.layers is 0; expected an integer from 1 to 2147483647"},
      {"/model/hidden", "2147483648",
       "plan.model.hidden is 2147483648; expected an integer from 1 to 2147483647"},
      {"/device/peak_flops", "\"fast\"", "plan.device.peak_flops is \"fast\"; expected a number"},
      {"/device/devices_per_node", "0.5", "plan.device.devices_per_node is 0.5; expected an integer"},
      {"/tokens", "{}", "plan.tokens is an object; expected an array"},
      {"/tokens/2", "0", "plan.tokens[2] is 0; expected an integer from 1 to 9223372036854775807"},
      {"/tokens/2", "-5", "plan.tokens[2] is -5; expected an integer from 1"},
      {"/tokens/2", "9223372036854775808",
       "plan.tokens[2] is 9223372036854775808; expected an integer from 1"},
      {"/tokens/2", "99999999999999999999", "plan.tokens[2] is 1e+20; expected an integer"},
      {"/deferred", "[-1]", "plan.deferred[0] is -1; expected an integer from 0 to 4294967295"},
      {"/deferred", "[4294967296]",
       "plan.deferred[0] is 4294967296; expected an integer from 0 to 4294967295"},
      {"/pipelines/1/id", "-1", "plan.pipelines[1].id is -1; expected"},
      {"/pipelines/1/tp", "true", "plan.pipelines[1].tp is true; expected an integer"},
      {"/pipelines/1/pp", "4", "plan.pipelines[1] has pp 4, 3 layers and 3 orders; expected one of each"},
      {"/pipelines/1/layers/0", "\"2\"", "plan.pipelines[1].layers[0] is \"2\"; expected an integer"},
      {"/pipelines/0/order/1/2", "\"X3\"", "plan.pipelines[0].order[1][2] is \"X3\"; expected F, B or W"},
      {"/pipelines/0/order/1/2", "\"F\"", "plan.pipelines[0].order[1][2] is \"F\"; expected F, B or W"},
      {"/pipelines/0/order/1/2", "\"\"", "plan.pipelines[0].order[1][2] is \"\"; expected F, B or W"},
      {"/pipelines/0/order/1/2", "\"F-1\"", "plan.pipelines[0].order[1][2] is \"F-1\"; expected F, B or W"},
      {"/pipelines/0/order/1/2", "\"B4294967296\"", "order[1][2] is \"B4294967296\"; expected F, B or W"},
      {"/pipelines/0/order/1/2", "12", "plan.pipelines[0].order[1][2] is 12; expected a string"},
      {"/forward/1/id", "4", "plan.forward[1].id is 4; expected 1"},
      {"/forward/1/pipelines", "0", "plan.forward[1].pipelines is 0; expected an array"},
      {"/forward/1/slices/0", "[0,1]",
       "plan.forward[1].slices[0] has 2 entries; expected sample, begin and end"},
      {"/forward/1/slices/0/0", "4294967296",
       "plan.forward[1].slices[0][0] is 4294967296; expected an integer"},
      {"/forward/1/slices/0/1", "-1", "plan.forward[1].slices[0][1] is -1; expected an integer from 0"},
      {"/forward/1/slices/0/2", "1.5", "plan.forward[1].slices[0][2] is 1.5; expected an integer"},
      {"/forward/1/recompute_layers", "[0,0,0]",
       "plan.forward[1].recompute_layers is there; expected it in backward packs only"},
      {"/forward/1/flops", "3", "plan.forward[1].flops is 3; expected an object"},
      {"/backward/1/flops/linear", "[1]", "plan.backward[1].flops.linear is an array; expected a number"},
      {"/backward/1/seconds/0", "null", "plan.backward[1].seconds[0] is null; expected a number"},
      {"/backward/1/sharding", "\"both\"",
       "plan.backward[1].sharding is \"both\"; expected \"per_sequence\""},
      {"/backward/1/recompute_layers/0", "-1", "plan.backward[1].recompute_layers[0] is -1; expected"},
      {"/pipelines/1/devices", "[3]", "plan.pipelines[1].devices[0] is 3; expected an array"},
      {"/pipelines/1/devices", "[[-3]]", "plan.pipelines[1].devices[0][0] is -3; expected an integer"},
      {"/forward/1/block", "0", "plan.forward[1].block is 0; expected an integer from 1"},
      {"/forward/1/exchange", "\"pigeon\"", "plan.forward[1].exchange is \"pigeon\"; expected \"ring\""},
      {"/forward/1/weight_seconds", "[1,1,1]",
       "plan.forward[1].weight_seconds is there; expected it in backward packs only"},
      {"/forward/1/transfer_seconds", "[\"x\"]",
       "plan.forward[1].transfer_seconds[0] is \"x\"; expected a number"},
      {"/backward/1/offload_layers", "[-1]", "plan.backward[1].offload_layers[0] is -1; expected"},
      {"/step/peak_bytes", "[1]", "plan.step.peak_bytes[0] is 1; expected an array"},
      {"/notes", "[1]", "plan.notes[0] is 1; expected a string"},
  };
  const json valid = json::parse(to_json(rich_plan()));
  for (const Case& c : cases) {
    json file = valid;
    file[json::json_pointer(c.pointer)] = json::parse(c.with);
    CAPTURE(c.pointer, c.with);
    CHECK_THAT(refusal(file.dump()), Catch::Contains(c.message));
  }
}

TEST_CASE("a missing field is named", "[json]") {
  const json valid = json::parse(to_json(rich_plan()));
  const auto check_each = [&](const std::string& pointer, const std::string& path,
                              const std::vector<std::string>& optional) {
    const json::json_pointer place(pointer);
    for (const auto& [key, value] : valid.at(place).items()) {
      json file = valid;
      file[place].erase(key);
      CAPTURE(path, key);
      if (std::find(optional.begin(), optional.end(), key) != optional.end()) {
        CHECK(refusal(file.dump()).empty());
      } else {
        CHECK(refusal(file.dump()) == path + " lacks the field '" + key + "'");
      }
    }
  };
  check_each("", "plan", {"notes"});
  check_each("/model", "plan.model", {});
  check_each("/pipelines/1", "plan.pipelines[1]", {"devices"});
  check_each("/forward/2", "plan.forward[2]", {"sharding", "block", "exchange"});
  check_each("/forward/2/flops", "plan.forward[2].flops", {});
  check_each("/backward/2", "plan.backward[2]",
             {"sharding", "block", "exchange", "recompute_layers", "offload_layers", "weight_seconds"});
  check_each("/step", "plan.step", {});
}

TEST_CASE("texts that are no plan", "[json]") {
  for (const char* text :
       {"", " ", "{", "nul", "{\"format\":\"slimpack-plan\",}", "[1,2", "\"\xff\"", "{} {}", "1e400"}) {
    CAPTURE(text);
    CHECK_THAT(refusal(text), Catch::StartsWith("the plan is not JSON"));
  }
  CHECK(refusal("[]") == "plan is an array; expected an object");
  CHECK(refusal("3") == "plan is 3; expected an object");
  CHECK(refusal("{}") == "plan lacks the field 'format'");
  CHECK_THAT(refusal(std::string(100'000, '[')), Catch::StartsWith("the plan is not JSON"));
  std::string huge = to_json(rich_plan());
  huge.replace(huge.find("\"sync_seconds\":0.25"), 19, "\"sync_seconds\":1e400");
  CHECK_THAT(refusal(huge), Catch::StartsWith("the plan is not JSON") && Catch::Contains("1e400"));
}

TEST_CASE("a truncated file is refused wherever it ends", "[json]") {
  const std::string text = to_json(sample_plan({.seed = 2, .samples = 2, .pipelines = 1, .stages = 2}));
  REQUIRE(text.back() == '\n');
  for (std::size_t end = 0; end + 1 < text.size(); ++end) {
    CAPTURE(end);
    REQUIRE_FALSE(refusal(std::string_view(text).substr(0, end)).empty());
  }
  CHECK(refusal(text).empty());
}

TEST_CASE("a changed character gives a plan or a refusal", "[json]") {
  const std::string text = to_json(sample_plan({.seed = 2, .samples = 3, .merged = 1, .stages = 2, .cp = 2}));
  std::mt19937_64 random(11);
  int refused = 0, invalid = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string damaged = text;
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % damaged.size();
      const std::string_view alphabet = "0123456789-.eE,:[]{}\"FBWx \n";
      damaged[at] =
          random() % 4 == 0 ? static_cast<char>(random() % 256) : alphabet[random() % alphabet.size()];
    }
    CAPTURE(round);
    try {
      const Plan plan = read_json(damaged);
      if (!violations(plan).empty()) ++invalid;
    } catch (const InvalidInput&) {
      ++refused;
    }
  }
  // Most changes break the syntax or a name; changed numbers break a rule.
  CHECK(refused > 2000);
  CHECK(invalid > 50);
}
