#include "slimpack/core/json_tree.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "slimpack/core/error.hpp"

using nlohmann::json;
using slimpack::detail::JsonInput;
using slimpack::detail::JsonTree;

namespace {

/// A document of few levels, with strings of lengths around the one that decides where they are kept.
json random_value(std::mt19937& random, int depth) {
  const auto kind = random() % (depth > 0 ? 8U : 6U);
  if (kind == 0) return nullptr;
  if (kind == 1) return random() % 2 == 0;
  if (kind == 2) return -static_cast<std::int64_t>(random());
  if (kind == 3) return std::uint64_t{random()} << 32U;
  if (kind == 4) return 0.1 + static_cast<double>(random());
  if (kind == 5) return std::string(random() % 12, static_cast<char>('a' + random() % 26));
  json out = kind == 6 ? json::array() : json::object();
  for (std::size_t i = random() % 5; i > 0; --i) {
    if (kind == 6) out.push_back(random_value(random, depth - 1));
    if (kind == 7) out["key" + std::to_string(random() % 1000)] = random_value(random, depth - 1);
  }
  return out;
}

/// The value at a node.
json value_of(const JsonTree& tree, std::size_t node) {
  using Kind = JsonTree::Kind;
  switch (tree.kind(node)) {
    case Kind::null:
      return nullptr;
    case Kind::boolean:
      return tree.boolean(node);
    case Kind::integer:
      return tree.integer(node);
    case Kind::natural:
      return tree.natural(node);
    case Kind::real:
      return tree.real(node);
    case Kind::short_text:
    case Kind::long_text:
      return std::string(tree.text(node));
    case Kind::array:
    case Kind::object:
      break;
  }
  const bool array = tree.kind(node) == Kind::array;
  json out = array ? json::array() : json::object();
  for (std::size_t at = node + 1; at < tree.next(node);) {
    const std::size_t value = array ? at : at + 1;
    if (array) {
      out.push_back(value_of(tree, value));
    } else {
      out[std::string(tree.text(at))] = value_of(tree, value);
    }
    at = tree.next(value);
  }
  return out;
}

std::string refusal(const std::string& text) {
  JsonInput input("text", text);
  try {
    const JsonTree tree(input);
  } catch (const slimpack::InvalidInput& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a tree holds the values of its document, in whatever blanks it is written") {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const json value = random_value(random, 5);
    for (const int indent : {-1, 3}) {
      const std::string text = value.dump(indent);
      JsonInput input("text", text);
      const JsonTree tree(input);
      CHECK(value_of(tree, 0) == value);
    }
  }
}

TEST_CASE("what is no JSON is refused with its place and without control characters") {
  CHECK(refusal("[1,\n 2").find("line 2, column 2") != std::string::npos);
  CHECK(refusal("[1 2]").find("expected ']'") != std::string::npos);
  CHECK(refusal(std::string(1001, '[')).find("nested 1001 levels deep; expected at most 1000") !=
        std::string::npos);
  for (const std::string text : {"\"k'; expected \x7f\x7f", "\"; last read: '\x7f'; expected \x7f", "\x7f"}) {
    const std::string message = refusal(text);
    INFO(message);
    CHECK(message.find("is not JSON") != std::string::npos);
    CHECK(std::none_of(message.begin(), message.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
  }
}
