#pragma once

#include <cassert>
#include <cstddef>
#include <span>
#include <vector>

namespace slimpack {

/// Rows of varying width, stored flat: the values of all rows one after another, and the offset at which each row
/// begins. Appending a row means adding its values and then calling `close`.
template <class T>
class Ragged {
 public:
  [[nodiscard]] std::size_t size() const { return offsets_.size() - 1; }
  [[nodiscard]] bool empty() const { return size() == 0; }
  /// Row < size().
  [[nodiscard]] std::span<const T> operator[](std::size_t row) const {
    assert(row < size());
    return {values_.data() + offsets_[row], values_.data() + offsets_[row + 1]};
  }
  [[nodiscard]] std::span<T> operator[](std::size_t row) {
    assert(row < size());
    return {values_.data() + offsets_[row], values_.data() + offsets_[row + 1]};
  }
  /// Values of all rows, in the order of the rows.
  [[nodiscard]] std::span<const T> values() const { return values_; }
  void reserve(std::size_t rows, std::size_t values) {
    offsets_.reserve(rows + 1);
    values_.reserve(values);
  }
  /// Adds a value to the row that is open.
  void add(const T& value) { values_.push_back(value); }
  /// Ends the open row (possibly empty) and opens the next one.
  void close() { offsets_.push_back(values_.size()); }
  /// Appends a row and hands it out for writing. No row is open.
  std::span<T> add_row(std::size_t width, const T& value = T{}) {
    values_.resize(values_.size() + width, value);
    close();
    return (*this)[size() - 1];
  }
  /// Appends `rows` rows of the same width, whose values stand one after another. No row is open.
  void add_rows(std::size_t rows, std::span<const T> values) {
    values_.insert(values_.end(), values.begin(), values.end());
    close_equal(rows);
  }
  /// Appends the same row several times. No row is open.
  void repeat_row(std::size_t times, std::span<const T> row) {
    for (std::size_t i = 0; i < times; ++i) values_.insert(values_.end(), row.begin(), row.end());
    close_equal(times);
  }
  /// Appends all rows of `other`. No row is open.
  void append(const Ragged& other) {
    assert(offsets_.back() == values_.size());
    const std::size_t before = values_.size();
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
    for (std::size_t k = 1; k < other.offsets_.size(); ++k) offsets_.push_back(before + other.offsets_[k]);
  }
  /// Forgets the rows from number `size` on, and whatever is open.
  void truncate(std::size_t size) {
    assert(size < offsets_.size());
    values_.resize(offsets_[size]);
    offsets_.resize(size + 1);
  }
  /// Forgets all rows but keeps the memory.
  void clear() {
    values_.clear();
    offsets_.assign(1, 0);
  }
  friend bool operator==(const Ragged&, const Ragged&) = default;

 private:
  /// Ends `rows` rows of equal width after the last one.
  void close_equal(std::size_t rows) {
    const std::size_t begin = offsets_.back();
    for (std::size_t i = 1; i <= rows; ++i) offsets_.push_back(begin + (values_.size() - begin) / rows * i);
  }

  std::vector<T> values_;
  std::vector<std::size_t> offsets_{0};
};

}  // namespace slimpack
