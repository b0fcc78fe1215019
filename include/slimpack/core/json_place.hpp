#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "slimpack/core/error.hpp"

namespace slimpack::detail {

/// A JSON value and where it stands, for messages. Its path is put together only when one is needed: a place
/// points to the place that it was reached from, which has to outlive it.
class JsonPlace {
 public:
  /// @param name of the whole document, with which paths begin.
  JsonPlace(const nlohmann::json& value, const char* name) : value_(value), key_(name) {}

  /// Whether the field is there, and not null.
  [[nodiscard]] bool has(const char* key) const {
    if (!value_.is_object()) return false;
    const auto found = value_.find(key);
    return found != value_.end() && !found->is_null();
  }

  [[nodiscard]] bool is_array() const { return value_.is_array(); }

  [[nodiscard]] JsonPlace operator[](const char* key) const {
    expect(value_.is_object(), "an object");
    const auto found = value_.find(key);
    if (found == value_.end()) fail(concat("lacks the field '", key, "'"));
    return {*found, this, key, 0};
  }
  [[nodiscard]] std::size_t size() const {
    expect(value_.is_array(), "an array");
    return value_.size();
  }
  /// Entry i < size().
  [[nodiscard]] JsonPlace operator[](std::size_t i) const { return {value_[i], this, nullptr, i}; }

  /// An integer of type T, at least `least`.
  template <class T>
  [[nodiscard]] T integer(std::int64_t least) const {
    expect(value_.is_number_integer(), "an integer");
    constexpr auto most = std::numeric_limits<T>::max();
    const bool ok = value_.is_number_unsigned()
                        ? std::cmp_less_equal(value_.get<std::uint64_t>(), most) &&
                              std::cmp_greater_equal(value_.get<std::uint64_t>(), least)
                        : value_.get<std::int64_t>() >= least;
    if (!ok) fail(concat("is ", brief(), "; expected an integer from ", least, " to ", most));
    return value_.get<T>();
  }
  [[nodiscard]] double number() const {
    expect(value_.is_number(), "a number");
    return value_.get<double>();
  }
  [[nodiscard]] const std::string& text() const {
    expect(value_.is_string(), "a string");
    return value_.get_ref<const std::string&>();
  }
  /// @throws InvalidInput stating the value and what was expected, unless `ok`.
  void expect(bool ok, std::string_view expected) const {
    if (!ok) fail(concat("is ", brief(), "; expected ", expected));
  }
  /// The value in short, for messages.
  [[nodiscard]] std::string brief() const {
    if (value_.is_structured()) return value_.is_array() ? "an array" : "an object";
    const std::string all = value_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return all.size() <= 40 ? all : all.substr(0, 37) + "...";
  }
  [[noreturn]] void fail(std::string_view what) const { throw InvalidInput(concat(path(), " ", what)); }

 private:
  JsonPlace(const nlohmann::json& value, const JsonPlace* parent, const char* key, std::size_t index)
      : value_(value), parent_(parent), key_(key), index_(index) {}

  [[nodiscard]] std::string path() const {
    if (parent_ == nullptr) return key_;
    return key_ != nullptr ? concat(parent_->path(), ".", key_) : concat(parent_->path(), "[", index_, "]");
  }

  const nlohmann::json& value_;
  const JsonPlace* parent_ = nullptr;
  const char* key_ = nullptr;
  std::size_t index_ = 0;
};

}  // namespace slimpack::detail
