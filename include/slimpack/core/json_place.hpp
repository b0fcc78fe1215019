#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "slimpack/core/error.hpp"
#include "slimpack/core/json_tree.hpp"
#include "slimpack/core/visible.hpp"

namespace slimpack::detail {

/// A JSON value and where it stands, for messages. Its path is put together only when one is needed: a place
/// points to the place that it was reached from, which has to outlive it, as has the tree.
class JsonPlace {
 public:
  using Kind = JsonTree::Kind;

  /// The whole of a document. @param name of it, with which paths begin.
  JsonPlace(const JsonTree& tree, const char* name) : tree_(&tree), key_(name) {}

  /// Whether the field is there, and not null. O(fields).
  [[nodiscard]] bool has(const char* key) const {
    if (kind() != Kind::object) return false;
    const std::size_t found = find(key);
    return found != none && tree_->kind(found) != Kind::null;
  }

  [[nodiscard]] bool is_array() const { return kind() == Kind::array; }

  /// A field. O(fields).
  [[nodiscard]] JsonPlace operator[](const char* key) const {
    expect(kind() == Kind::object, "an object");
    const std::size_t found = find(key);
    if (found == none) fail(concat("lacks the field '", key, "'"));
    return {*tree_, found, this, key, 0};
  }
  /// Entries of an array. O(entries).
  [[nodiscard]] std::size_t size() const {
    std::size_t entries = 0;
    for_each([&](const JsonPlace&) { ++entries; });
    return entries;
  }
  /// Calls `visit(entry)` for each entry of an array.
  template <class Visit>
  void for_each(Visit&& visit) const {
    expect(is_array(), "an array");
    std::size_t i = 0;
    for (std::size_t node = node_ + 1; node < tree_->next(node_); node = tree_->next(node))
      visit(JsonPlace(*tree_, node, this, nullptr, i++));
  }
  /// The place among the entries of an array that it is reached from.
  [[nodiscard]] std::size_t index() const { return index_; }

  /// An integer of type T, at least `least`.
  template <class T>
  [[nodiscard]] T integer(std::int64_t least) const {
    expect(kind() == Kind::integer || kind() == Kind::natural, "an integer");
    constexpr auto most = std::numeric_limits<T>::max();
    const auto fits = [&](auto value) {
      return std::cmp_less_equal(value, most) && std::cmp_greater_equal(value, least);
    };
    const bool natural = kind() == Kind::natural;
    if (!(natural ? fits(tree_->natural(node_)) : fits(tree_->integer(node_))))
      fail(concat("is ", brief(), "; expected an integer from ", least, " to ", most));
    return natural ? static_cast<T>(tree_->natural(node_)) : static_cast<T>(tree_->integer(node_));
  }
  [[nodiscard]] double number() const {
    if (kind() == Kind::natural) return static_cast<double>(tree_->natural(node_));
    if (kind() == Kind::integer) return static_cast<double>(tree_->integer(node_));
    expect(kind() == Kind::real, "a number");
    return tree_->real(node_);
  }
  [[nodiscard]] std::string_view text() const {
    expect(kind() == Kind::short_text || kind() == Kind::long_text, "a string");
    return tree_->text(node_);
  }
  /// @throws InvalidInput stating the value and what was expected, unless `ok`.
  void expect(bool ok, std::string_view expected) const {
    if (!ok) fail(concat("is ", brief(), "; expected ", expected));
  }
  /// The value in short, for messages.
  [[nodiscard]] std::string brief() const {
    switch (kind()) {
      case Kind::null:
        return "null";
      case Kind::boolean:
        return tree_->boolean(node_) ? "true" : "false";
      case Kind::integer:
        return concat(tree_->integer(node_));
      case Kind::natural:
        return concat(tree_->natural(node_));
      case Kind::real:
        return nlohmann::json(tree_->real(node_)).dump();
      case Kind::array:
        return "an array";
      case Kind::object:
        return "an object";
      default:
        return concat('"', visible(tree_->text(node_), 78), '"');
    }
  }
  [[noreturn]] void fail(std::string_view what) const { throw InvalidInput(concat(path(), " ", what)); }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  JsonPlace(const JsonTree& tree, std::size_t node, const JsonPlace* parent, const char* key,
            std::size_t index)
      : tree_(&tree), node_(node), parent_(parent), key_(key), index_(index) {}

  [[nodiscard]] Kind kind() const { return tree_->kind(node_); }

  /// The value of an object's field. @throws InvalidInput if it is there twice.
  [[nodiscard]] std::size_t find(std::string_view key) const {
    std::size_t found = none;
    for (std::size_t node = node_ + 1; node < tree_->next(node_); node = tree_->next(node + 1)) {
      if (tree_->text(node) != key) continue;
      if (found != none) fail(concat("has the field '", key, "' twice; expected it once"));
      found = node + 1;
    }
    return found;
  }

  [[nodiscard]] std::string path() const {
    if (parent_ == nullptr) return key_;
    return key_ != nullptr ? concat(parent_->path(), ".", key_) : concat(parent_->path(), "[", index_, "]");
  }

  const JsonTree* tree_;
  std::size_t node_ = 0;
  const JsonPlace* parent_ = nullptr;
  const char* key_ = nullptr;
  std::size_t index_ = 0;
};

}  // namespace slimpack::detail
