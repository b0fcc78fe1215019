#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory_resource>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "slimpack/core/error.hpp"
#include "slimpack/core/json_input.hpp"
#include "slimpack/core/visible.hpp"

namespace slimpack::detail {

/// The values of a JSON document in the order of its text: 9 bytes each, and what strings of more than 7 bytes take.
/// So a document takes at most 5 times its text without blanks. The keys of an object stand before their values.
class JsonTree {
 public:
  enum class Kind : std::uint8_t {
    null,
    boolean,
    integer,
    natural,
    real,
    short_text,
    long_text,
    array,
    object
  };

  /// Reads a document. Memory: at most 16 times the text without blanks, plus 1 MB.
  /// @throws InvalidInput naming line and column of what is no JSON, or nests deeper than `most_depth`. O(text).
  explicit JsonTree(JsonInput& input);

  static constexpr std::size_t most_depth = 1000;

  [[nodiscard]] Kind kind(std::size_t node) const { return static_cast<Kind>(kinds_[node] & 0xf); }
  /// The node after this one and all that it holds. O(1).
  [[nodiscard]] std::size_t next(std::size_t node) const {
    const bool holds = kind(node) == Kind::array || kind(node) == Kind::object;
    return holds ? static_cast<std::size_t>(words_[node]) : node + 1;
  }
  [[nodiscard]] bool boolean(std::size_t node) const { return words_[node] != 0; }
  [[nodiscard]] std::int64_t integer(std::size_t node) const {
    return static_cast<std::int64_t>(words_[node]);
  }
  [[nodiscard]] std::uint64_t natural(std::size_t node) const { return words_[node]; }
  [[nodiscard]] double real(std::size_t node) const { return std::bit_cast<double>(words_[node]); }
  [[nodiscard]] std::string_view text(std::size_t node) const {
    if (kind(node) == Kind::short_text)
      return {reinterpret_cast<const char*>(&words_[node]), std::size_t{kinds_[node]} >> 4};
    const char* const at = std::bit_cast<const char*>(words_[node]);
    std::uint64_t size = 0;
    std::memcpy(&size, at, sizeof size);
    return {at + sizeof size, static_cast<std::size_t>(size)};
  }

 private:
  friend class JsonTreeBuilder;

  void add(Kind kind, std::uint64_t word, std::uint8_t size = 0) {
    kinds_.push_back(static_cast<std::uint8_t>(static_cast<unsigned>(kind) | unsigned{size} << 4));
    words_.push_back(word);
  }

  // Deques, for a vector that grows holds its numbers three times.
  std::deque<std::uint8_t> kinds_;   ///< and the size of a short text
  std::deque<std::uint64_t> words_;  ///< the value; of what holds others, the node after them
  std::pmr::monotonic_buffer_resource long_texts_;
};

/// Takes what the parser finds.
class JsonTreeBuilder {
 public:
  JsonTreeBuilder(JsonTree& tree, const JsonInput& input) : tree_(tree), input_(input) {}

  using Kind = JsonTree::Kind;
  using Json = nlohmann::json;

  bool null() { return add(Kind::null, 0); }
  bool boolean(bool value) { return add(Kind::boolean, value ? 1 : 0); }
  bool number_integer(Json::number_integer_t value) {
    return add(Kind::integer, static_cast<std::uint64_t>(value));
  }
  bool number_unsigned(Json::number_unsigned_t value) { return add(Kind::natural, value); }
  bool number_float(Json::number_float_t value, const std::string&) {
    return add(Kind::real, std::bit_cast<std::uint64_t>(value));
  }
  bool string(const std::string& text) {
    std::uint64_t word = 0;
    if (text.size() < sizeof word) {
      std::memcpy(&word, text.data(), text.size());
      tree_.add(Kind::short_text, word, static_cast<std::uint8_t>(text.size()));
      return true;
    }
    const std::uint64_t size = text.size();
    auto* const at = static_cast<char*>(tree_.long_texts_.allocate(sizeof size + text.size(), 1));
    std::memcpy(at, &size, sizeof size);
    std::copy(text.begin(), text.end(), at + sizeof size);
    return add(Kind::long_text, std::bit_cast<std::uint64_t>(at));
  }
  bool key(const std::string& text) { return string(text); }
  bool start_object(std::size_t) { return open(Kind::object); }
  bool start_array(std::size_t) { return open(Kind::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool binary(const Json::binary_t&) { return false; }  // text has none
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) {
    input_.fail(reason(error.what()));
  }

 private:
  bool add(Kind kind, std::uint64_t word) {
    tree_.add(kind, word);
    return true;
  }

  /// What is open holds the node in which it stands itself.
  bool open(Kind kind) {
    if (++depth_ > JsonTree::most_depth)
      input_.fail(concat("nested ", depth_, " levels deep; expected at most ", JsonTree::most_depth));
    tree_.add(kind, open_);
    open_ = tree_.words_.size() - 1;
    return true;
  }

  bool close() {
    --depth_;
    std::uint64_t& word = tree_.words_[open_];
    open_ = static_cast<std::size_t>(word);
    word = tree_.words_.size();
    return true;
  }

  /// The parser's message without its own place and without what it quotes, of which there may be much.
  static std::string reason(std::string_view message) {
    const std::size_t column = message.find(", column ");
    const std::size_t place = column == message.npos ? message.find("] ") : message.find(": ", column);
    if (place != message.npos) message.remove_prefix(place + 2);
    std::string_view expected;
    for (const std::string_view quoted : {"; last read: '", " parsing '"}) {
      const std::size_t begin = message.find(quoted);
      if (begin == message.npos) continue;
      const std::size_t end = message.rfind("'; expected ");
      if (end != message.npos && message.size() - end < 60) expected = message.substr(end + 1);
      message = message.substr(0, begin);
    }
    return concat(message, visible(expected));  // a quoted text may have such words itself
  }

  JsonTree& tree_;
  const JsonInput& input_;
  std::size_t open_ = 0, depth_ = 0;
};

inline JsonTree::JsonTree(JsonInput& input) {
  JsonTreeBuilder builder(*this, input);
  nlohmann::json::sax_parse(input.begin(), JsonInput::end(), &builder);
}

}  // namespace slimpack::detail
