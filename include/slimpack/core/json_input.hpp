#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <istream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/visible.hpp"

namespace slimpack::detail {

/// The characters of a JSON text, for a parser that keeps all that it has read of a token and the blanks before it: of a
/// run of blanks between tokens it gets one. What is read is known by its line and column. Memory: O(1) besides the text.
class JsonInput {
 public:
  /// Characters up to the end, which a default one stands for. They are taken when they are asked for, and not before.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = char;

    Iterator() = default;
    explicit Iterator(JsonInput& input) : input_(&input) {}
    char operator*() const { return static_cast<char>(input_->current()); }
    Iterator& operator++() {
      input_->ready_ = false;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    /// @pre one of them is a default one.
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.ended() && b.ended(); }

   private:
    [[nodiscard]] bool ended() const { return input_ == nullptr || input_->current() < 0; }

    JsonInput* input_ = nullptr;
  };

  /// @param name of the document, for messages. @param text outlives this.
  JsonInput(std::string_view name, std::string_view text)
      : name_(name), at_(text.data()), end_(text.data() + text.size()), begin_(at_) {}
  /// @param in outlives this, and is read to its end.
  JsonInput(std::string_view name, std::istream& in) : name_(name), in_(&in), block_(block_size) {}

  [[nodiscard]] Iterator begin() { return Iterator(*this); }
  [[nodiscard]] static Iterator end() { return {}; }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// @throws InvalidInput that the text is no JSON, with the place of the character that was taken last, and what
  /// stands up to there. @param what is wrong, and was expected.
  [[noreturn]] void fail(std::string_view what) const {
    std::string text;
    for (std::size_t i = taken_ - std::min(taken_, recent_.size()); i < taken_; ++i)
      text += recent_[i % recent_.size()];
    throw InvalidInput(concat("the ", name_, " is not JSON: line ", line_, ", column ",
                              offset() - line_begin_, " ('", taken_ > recent_.size() ? "..." : "",
                              visible(text, 77), "'): ", what));
  }

 private:
  static constexpr std::size_t block_size = std::size_t{1} << 16;
  static constexpr int no_more = -1;

  /// The character that is handed out, taken if it wasn't before; negative at the end.
  int current() {
    if (!ready_) current_ = take();
    ready_ = true;
    return current_;
  }

  int take() {
    while (at_ != end_ || refill()) {
      const char c = *at_++;
      if (c == '\n') {
        ++line_;
        line_begin_ = offset();
      }
      const bool blank = !in_string_ && (c == ' ' || c == '\n' || c == '\t' || c == '\r');
      if (blank && after_blank_) continue;
      after_blank_ = blank;
      recent_[taken_++ % recent_.size()] = blank ? ' ' : c;
      if (c == '\0' && !in_string_) fail("unexpected null character; expected a file of text");
      follow_string(c);
      return blank ? ' ' : static_cast<unsigned char>(c);
    }
    return no_more;
  }

  /// Keeps track of whether the next character is one of a string.
  void follow_string(char c) {
    if (!in_string_) {
      in_string_ = c == '"';
    } else if (escaped_) {
      escaped_ = false;
    } else {
      escaped_ = c == '\\';
      in_string_ = c != '"';
    }
  }

  bool refill() {
    if (in_ == nullptr || in_->rdbuf() == nullptr) return false;
    before_ = offset();
    const std::streamsize size = in_->rdbuf()->sgetn(block_.data(), std::ptrdiff_t{block_size});
    at_ = begin_ = block_.data();
    end_ = at_ + std::max(size, std::streamsize{0});
    return at_ != end_;
  }

  /// Of the next character in the text.
  [[nodiscard]] std::size_t offset() const { return before_ + static_cast<std::size_t>(at_ - begin_); }

  std::string_view name_;
  std::istream* in_ = nullptr;
  std::vector<char> block_;
  const char *at_ = nullptr, *end_ = nullptr, *begin_ = nullptr;  ///< in the text or the block
  std::size_t before_ = 0;                                        ///< characters before `begin_`
  std::size_t line_ = 1, line_begin_ = 0;
  bool in_string_ = false, escaped_ = false, after_blank_ = false, ready_ = false;
  int current_ = 0;
  std::array<char, 64> recent_{};  ///< the last ones handed out, in a circle
  std::size_t taken_ = 0;
};

}  // namespace slimpack::detail
