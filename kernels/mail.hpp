#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

/// Rows on their way to or from another rank, by a transport of the host. What a back end still computes, or copies to the
/// host, is handed to the transport once it is there; nobody waits for it before there is nothing else to do. Memory is used
/// again once a transfer is complete.
/// @tparam Port a RowPort of numbers of this type
template <class Number, class Port, Transport T>
class Mail {
 public:
  /// Both have to outlive it.
  Mail(T& transport, Port& port) : transport_(transport), port_(port) {}

  void post(std::size_t from, Tag tag, std::size_t numbers) {
    Letter& letter = expected_.emplace_back(Letter{{}, take(numbers), numbers, 0, 0, {}});
    letter.request = transport_.irecv(from, tag, std::as_writable_bytes(letter.span()));
    hand_over();
  }

  /// Numbers of the oldest posted receive, in the host's memory, valid until the next call and what the back end was asked
  /// for until then is done.
  std::span<const Number> receive() {
    if (opened_.numbers.size() > 0) {
      opened_.mark = port_.mark();
      read_.push_back(std::move(opened_));
    }
    opened_ = std::move(expected_.front());
    expected_.pop_front();
    flush();
    transport_.wait(opened_.request);
    return opened_.span();
  }

  /// The back end has been given the next of its tasks.
  void finished() {}

  /// @param rows that a task of the back end has returned.
  void send(std::size_t to, Tag tag, std::span<const Number> rows) {
    while (!sent_.empty() && transport_.test(sent_.front().request)) {
      give_back(std::move(sent_.front().numbers));
      sent_.pop_front();
    }
    Letter& letter = ready_.emplace_back(Letter{{}, take(rows.size()), rows.size(), to, tag, {}});
    port_.fetch(rows, letter.span());
    letter.mark = port_.mark();
    hand_over();
  }

  /// Hands all rows over, waiting for the back end. Call it before this rank waits for another one in any other way: that
  /// one may wait for these rows.
  void flush() {
    while (!ready_.empty()) {
      port_.wait(ready_.front().mark);
      hand_over_first();
    }
  }

  void wait_for_sends() {
    flush();
    for (Letter& letter : sent_) {
      transport_.wait(letter.request);
      give_back(std::move(letter.numbers));
    }
    sent_.clear();
  }

 private:
  using Buffer = typename Port::Buffer;

  struct Letter {
    Request request;
    Buffer numbers;
    std::size_t size = 0;
    std::size_t to = 0;
    Tag tag = 0;
    typename Port::Mark mark;

    [[nodiscard]] std::span<Number> span() { return {numbers.data(), size}; }
  };

  /// Of rows that have reached the host, without waiting.
  void hand_over() {
    while (!ready_.empty() && port_.reached(ready_.front().mark)) hand_over_first();
  }
  void hand_over_first() {
    Letter& letter = sent_.emplace_back(std::move(ready_.front()));
    ready_.pop_front();
    letter.request = transport_.isend(letter.to, letter.tag, std::as_bytes(letter.span()));
  }

  Buffer take(std::size_t size) {
    while (!read_.empty() && port_.reached(read_.front().mark)) {
      give_back(std::move(read_.front().numbers));
      read_.pop_front();
    }
    Buffer numbers{};
    if (!free_.empty()) {
      numbers = std::move(free_.back());
      free_.pop_back();
    }
    if (numbers.size() < size) {
      numbers = Buffer{};  // or both would be there
      numbers = port_.buffer(size);
    }
    return numbers;
  }
  void give_back(Buffer&& numbers) {
    if (numbers.size() > 0) free_.push_back(std::move(numbers));
  }

  T& transport_;
  Port& port_;
  std::deque<Letter> expected_, ready_, sent_, read_;
  Letter opened_{};
  std::vector<Buffer> free_;
};

}  // namespace slimpack::kernels
