#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace slimpack::command {

/// The lines of a stream one after another, of which it holds no more than messages quote.
class LineReader {
 public:
  /// Most characters of a line that have a meaning. More than that can be quoted, but not read.
  static constexpr std::size_t most = 80;

  /// @param in outlives this.
  explicit LineReader(std::istream& in) : in_(in), block_(block_size) {}

  /// Goes to the next line; false: there is none. O(its characters). @throws std::ios_base::failure as the stream.
  bool next() {
    if (at_ == end_ && !refill()) return false;
    ++number_;
    text_.clear();
    std::size_t size = 0;  // up to the last character that is no blank
    do {
      for (; at_ != end_; ++at_) {
        const char c = *at_;
        if (c == '\n') {
          ++at_;
          text_.resize(size);
          return true;
        }
        const bool blank = c == ' ' || c == '\t' || c == '\r';
        if (blank && text_.empty()) continue;
        if (text_.size() <= most) text_ += c;
        if (!blank) size = text_.size();
      }
    } while (refill());
    text_.resize(size);
    return true;
  }

  /// The line without blanks at its ends; of a line of more than `most` characters the first ones, more than `most`.
  [[nodiscard]] std::string_view text() const { return text_; }
  /// Of the line, from 1.
  [[nodiscard]] std::size_t number() const { return number_; }

 private:
  static constexpr std::size_t block_size = std::size_t{1} << 16;

  bool refill() {
    const std::streamsize size = in_.rdbuf()->sgetn(block_.data(), std::ptrdiff_t{block_size});
    at_ = block_.data();
    end_ = at_ + (size > 0 ? size : 0);
    return at_ != end_;
  }

  std::istream& in_;
  std::vector<char> block_;
  const char *at_ = nullptr, *end_ = nullptr;
  std::size_t number_ = 0;
  std::string text_;
};

}  // namespace slimpack::command
