#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "kernels/math/aligned.hpp"
#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

/// Rows on their way to or from another rank. Memory is used again once a transfer is complete.
template <class Real, Transport T>
class Mail {
 public:
  explicit Mail(T& transport) : transport_(transport) {}

  void post(std::size_t from, Tag tag, std::size_t numbers) {
    Letter& letter = expected_.emplace_back(Letter{{}, take(numbers), numbers});
    letter.request = transport_.irecv(from, tag, std::as_writable_bytes(letter.span()));
  }

  /// Numbers of the oldest posted receive, valid until the next call.
  std::span<const Real> receive() {
    give_back(std::move(opened_.numbers));
    opened_ = std::move(expected_.front());
    expected_.pop_front();
    transport_.wait(opened_.request);
    return opened_.span();
  }

  void send(std::size_t to, Tag tag, std::span<const Real> numbers) {
    while (!sent_.empty() && transport_.test(sent_.front().request)) {
      give_back(std::move(sent_.front().numbers));
      sent_.pop_front();
    }
    Letter& letter = sent_.emplace_back(Letter{{}, take(numbers.size()), numbers.size()});
    std::copy(numbers.begin(), numbers.end(), letter.numbers.begin());
    letter.request = transport_.isend(to, tag, std::as_bytes(letter.span()));
  }

  void wait_for_sends() {
    for (Letter& letter : sent_) {
      transport_.wait(letter.request);
      give_back(std::move(letter.numbers));
    }
    sent_.clear();
  }

 private:
  struct Letter {
    Request request;
    AlignedVector<Real> numbers;
    std::size_t size = 0;

    [[nodiscard]] std::span<Real> span() { return {numbers.data(), size}; }
  };

  AlignedVector<Real> take(std::size_t size) {
    AlignedVector<Real> numbers;
    if (!free_.empty()) {
      numbers = std::move(free_.back());
      free_.pop_back();
    }
    if (numbers.size() < size) numbers.resize(size);
    return numbers;
  }
  void give_back(AlignedVector<Real>&& numbers) {
    if (!numbers.empty()) free_.push_back(std::move(numbers));
  }

  T& transport_;
  std::deque<Letter> expected_, sent_;
  Letter opened_;
  std::vector<AlignedVector<Real>> free_;
};

}  // namespace slimpack::kernels
