#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <functional>
#include <istream>
#include <sstream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/plan/json.hpp"
#include "slimpack/plan/validate.hpp"
#include "tests/limited.hpp"
#include "tests/plan/sample_plan.hpp"

using namespace slimpack;
using nlohmann::json;
using testing::said_within;

namespace {

constexpr std::size_t megabyte = 1'000'000;

/// A text that is repeated, between two others; it is nowhere as a whole.
class Repeated : public std::streambuf {
 public:
  static constexpr std::size_t in_block = 1000;

  /// @param times a multiple of `in_block`.
  Repeated(std::string before, const std::string& text, std::size_t times, std::string after)
      : before_(std::move(before)), after_(std::move(after)) {
    for (std::size_t i = 0; i < in_block; ++i) block_ += text;
    blocks_ = times / in_block;
  }
  /// Of those that are no blanks.
  [[nodiscard]] std::size_t characters() const {
    const auto count = [](const std::string& text) {
      return static_cast<std::size_t>(
          std::count_if(text.begin(), text.end(), [](char c) { return c != ' ' && c != '\n'; }));
    };
    return count(before_) + blocks_ * count(block_) + count(after_);
  }

 protected:
  int_type underflow() override {
    std::string& next = part_ == 0 ? before_ : part_ <= blocks_ ? block_ : after_;
    if (part_ > blocks_ + 1) return traits_type::eof();
    ++part_;
    setg(next.data(), next.data(), next.data() + next.size());
    return next.empty() ? underflow() : traits_type::to_int_type(next.front());
  }

 private:
  std::string before_, block_, after_;
  std::size_t blocks_ = 0, part_ = 0;
};

/// What reading a text as a plan, and checking that plan, says, in 16 times the memory of what is no blank, and 4 MB.
std::string read_in_little_memory(Repeated text) {
  return said_within(16 * text.characters() + 4 * megabyte, [&] {
    std::istream in(&text);
    const auto found = violations(read_json(in), 1);
    return found.empty() ? std::string("valid") : "invalid: " + found.front();
  });
}

std::string small_plan_file() {
  return to_json(testing::sample_plan({.seed = 3, .samples = 3, .details = true}));
}

}  // namespace

TEST_CASE("blanks take no memory, wherever they stand", "[json]") {
  const std::string plan = small_plan_file();
  for (const std::string blank : {" ", "\n", "\t\r"}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, plan.find(":1"), plan.size()}) {
      CAPTURE(blank, at);
      CHECK(read_in_little_memory({plan.substr(0, at), blank, 20 * megabyte, plan.substr(at)}) == "valid");
    }
  }
  const std::string said = read_in_little_memory({"", "\n", 20 * megabyte, "x"});
  CHECK(said ==
        "the plan is not JSON: line 20000001, column 1 (' x'): syntax error while parsing value - invalid "
        "literal");
}

TEST_CASE("texts that are no plan are refused in few words and little memory", "[json]") {
  struct Case {
    Repeated text;
    const char* message;
  };
  Case cases[] = {
      {{"", "[", 4 * megabyte, ""}, "column 1001 ('...[[["},
      {{"", "[", 4 * megabyte, ""}, "nested 1001 levels deep; expected at most 1000"},
      {{"", "{\"a\":", megabyte, ""}, "nested 1001 levels deep; expected at most 1000"},
      {{"[", "[],", megabyte, "x"}, "invalid literal"},
      {{"[", "{},", megabyte, ""}, "unexpected end of input"},
      {{"[", "true,", megabyte, "]"}, "unexpected ']'"},
      {{"\"", "a", 4 * megabyte, ""}, "missing closing quote"},
      {{"\"", "a", 4 * megabyte, "\n\""}, "aaaa\\n'): syntax error"},
      {{"\"", "a", 4 * megabyte, "\""}, "aaa...\"; expected an object"},
      {{"", "1", 4 * megabyte, "x"}, "number overflow"},
      {{"", "1", 4 * megabyte, ""}, "number overflow"},
      {{"", "{} ", megabyte, ""},
       "column 4 ('{} {'): syntax error while parsing value - unexpected '{'; expected end of input"},
      {{"{", "\"\":0,", megabyte, "\"format\":0}"}, "plan.format is 0; expected a string"},
      {{"{\"format\":\"", "\\n", megabyte, "\"}"}, "plan.format is \"\\n\\n"},
      {{"{\"format\":\"slimpack-plan\",\"version\":1,\"planner\":\"", "a", 4 * megabyte, "\"}"},
       "plan lacks the field 'model'"},
  };
  for (Case& c : cases) {
    const std::string said = read_in_little_memory(c.text);
    CAPTURE(said);
    CHECK_THAT(said, Catch::Contains(c.message));
    CHECK(said.size() < 250);
    CHECK(std::all_of(said.begin(), said.end(), [](char byte) { return byte >= ' ' && byte <= '~'; }));
  }
}

TEST_CASE("a list of any size takes memory in proportion to its text", "[json]") {
  constexpr std::size_t many = 200'000;
  const json plan = json::parse(small_plan_file());
  const auto at = [&](const char* pointer, const std::string& entry, std::size_t times) {
    json marked = plan;
    marked[json::json_pointer(pointer)] = "HERE";
    const std::string text = marked.dump();
    const std::size_t place = text.find("\"HERE\"");
    return read_in_little_memory(
        {text.substr(0, place) + "[" + entry, "," + entry, times, "]" + text.substr(place + 6)});
  };
  CHECK_THAT(at("/tokens", "90", many), Catch::StartsWith("invalid: rule 1"));
  CHECK_THAT(at("/deferred", "0", many), Catch::StartsWith("invalid: deferred holds sample 0 twice"));
  CHECK_THAT(at("/document_ids", "0", many), Catch::StartsWith("invalid: document_ids has"));
  CHECK(at("/notes", "\"\"", many) == "valid");
  CHECK(at("/unknown", "[]", many) == "valid");
  CHECK(at("/unknown", "\"12345678\"", many) == "valid");
  CHECK(at("/unknown", "{\"\":[0]}", many) == "valid");
  CHECK_THAT(at("/pipelines", "{}", many), Catch::StartsWith("plan.pipelines[0] lacks the field 'id'"));
  CHECK_THAT(at("/pipelines/0/layers", "1", many), Catch::StartsWith("plan.pipelines[0] has pp 3,"));
  CHECK_THAT(at("/pipelines/0/order", "[]", many), Catch::StartsWith("plan.pipelines[0] has pp 3,"));
  CHECK_THAT(at("/pipelines/0/order/0", "\"F0\"", many), Catch::StartsWith("invalid: rule 4"));
  CHECK_THAT(at("/pipelines/0/devices", "[0]", many), Catch::Contains("].devices has 200001 entries"));
  CHECK_THAT(at("/pipelines/0/devices/0", "0", many), Catch::StartsWith("invalid: pipelines[0].devices[0]"));
  CHECK_THAT(at("/step/peak_bytes", "[0]", many), Catch::Contains("has 200001 rows"));
  CHECK_THAT(at("/step/peak_bytes/0", "0", many), Catch::StartsWith("invalid: step.peak_bytes[0] has"));
  for (const char* pass : {"/forward", "/backward"}) {
    CHECK_THAT(at(pass, "0", many), Catch::Contains("ward[0] is 0; expected an object"));
    CHECK_THAT(at(pass, "{\"seconds\":[]}", many), Catch::Contains("ward[0] lacks the field 'id'"));
  }
  for (const std::string pass : {"/forward/0/", "/backward/0/"}) {
    CAPTURE(pass);
    CHECK_THAT(at((pass + "pipelines").c_str(), "0", many), Catch::Contains("lists 0 twice"));
    CHECK_THAT(at((pass + "seconds").c_str(), "1", many), Catch::Contains("seconds has 200001 entries"));
    CHECK_THAT(at((pass + "transfer_seconds").c_str(), "0", many), Catch::Contains("has 200001 entries"));
    CHECK_THAT(at((pass + "slices").c_str(), "[0,0,1]", many), Catch::StartsWith("invalid: "));
    CHECK_THAT(at((pass + "per_document_slices").c_str(), "0", many), Catch::StartsWith("invalid: "));
  }
  CHECK_THAT(at("/backward/0/recompute_layers", "0", many),
             Catch::StartsWith("invalid: backward[0].recompute"));
  CHECK_THAT(at("/backward/0/offload_layers", "0", many), Catch::StartsWith("invalid: backward[0].offload"));
  CHECK_THAT(at("/backward/0/weight_seconds", "0", many), Catch::StartsWith("invalid: backward[0].weight"));
}

TEST_CASE("a name from a file is quoted in few visible characters", "[json]") {
  json plan = json::parse(small_plan_file());
  plan["model"]["name"] = "\x1b[2J" + std::string(1000, 'x');
  plan["model"]["kv_heads"] = 3;
  const auto found = violations(read_json(plan.dump()));
  REQUIRE_FALSE(found.empty());
  CHECK_THAT(found[0], Catch::StartsWith("model '\\x1b[2J" + std::string(70, 'x') + "...': kv_heads is 3"));
}

TEST_CASE("null characters are no end of a plan, and no blanks", "[json]") {
  const std::string plan = small_plan_file(), null(1, '\0');
  for (const std::string& text :
       {plan + null, plan + null + "x", null + plan, "{ " + null + plan.substr(1), null}) {
    std::istringstream in(text);
    const std::string expected = "unexpected null character; expected a file of text";
    CHECK_THROWS_WITH(read_json(text), Catch::Contains(expected) && Catch::Contains("\\x00'): "));
    CHECK_THROWS_WITH(read_json(in), Catch::Contains(expected));
  }
  CHECK_THROWS_WITH(read_json("{\"format\":\"" + null + "\"}"), Catch::StartsWith("the plan is not JSON"));
}

TEST_CASE("a field that is there twice is refused", "[json]") {
  std::string plan = small_plan_file();
  plan.insert(plan.find("\"seconds\""), "\"seconds\":[1],");
  CHECK_THROWS_WITH(read_json(plan), "plan.forward[0] has the field 'seconds' twice; expected it once");
}

TEST_CASE("the message about a syntax error says where it is, and what stands there", "[json]") {
  const auto said = [](std::string_view text) {
    try {
      static_cast<void>(read_json(text));
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(said("{\n \"format\": \"slimpack-plan\",\n }") ==
        "the plan is not JSON: line 3, column 2 ('{ \"format\": \"slimpack-plan\", }'): syntax error while "
        "parsing object key - unexpected '}'; expected string literal");
  CHECK(said("[1, 2,, 3]") ==
        "the plan is not JSON: line 1, column 7 ('[1, 2,,'): syntax error while parsing value - unexpected "
        "','; expected '[', '{', or a literal");
  CHECK(said("{\"a\": tru}") ==
        "the plan is not JSON: line 1, column 10 ('{\"a\": tru}'): syntax error while parsing value - "
        "invalid literal");
  CHECK_THAT(
      said(std::string(1000, ' ') + "{" + std::string(1000, '\n') + "\"\x1b[31m\""),
      Catch::Contains(
          "line 1001, column 2 (' { \"\\x1b'): syntax error while parsing object key - invalid string"));
  CHECK_THAT(said("[1e400]"), Catch::Contains("('[1e400]'): number overflow"));
}
