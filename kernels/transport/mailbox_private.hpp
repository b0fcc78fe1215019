#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kernels/transport/transport.hpp"

// Messages between threads.
namespace slimpack::kernels {

/// Memory of one message in flight.
struct MessageBuffer {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t capacity = 0;
};

/// Buffers to use again: large ones cost more to allocate than to copy.
class MessageBuffers {
 public:
  MessageBuffer take(std::size_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->capacity >= bytes && (best == free_.end() || it->capacity < best->capacity)) best = it;
    }
    if (best == free_.end()) return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    MessageBuffer result = std::move(*best);
    *best = std::move(free_.back());
    free_.pop_back();
    return result;
  }

  void give_back(MessageBuffer buffer) {
    constexpr std::size_t most_kept = 8;
    if (free_.size() == most_kept) {
      std::swap(*std::min_element(free_.begin(), free_.end(), by_capacity), buffer);
    } else {
      free_.push_back(std::move(buffer));
    }
  }

 private:
  static bool by_capacity(const MessageBuffer& a, const MessageBuffer& b) { return a.capacity < b.capacity; }

  std::vector<MessageBuffer> free_;
};

struct Message {
  MessageBuffer buffer;
  std::size_t size = 0;
  std::uint64_t send = 0;  ///< the sender's number of it
};

/// Sender, tag, and how many of the same came before.
using MessageKey = std::tuple<std::size_t, Tag, std::uint64_t>;

/// What lies with one rank for it to fetch. Where sends wait for their receives (rendezvous), receives are posted
/// here, and the sender's own mailbox is told that they have met. Calls of any thread.
class Mailbox {
 public:
  /// Memory for a message to this rank, and back.
  [[nodiscard]] MessageBuffer take_buffer(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return pool_.take(bytes);
  }
  void give_back(MessageBuffer buffer) {
    const std::lock_guard lock(mutex_);
    pool_.give_back(std::move(buffer));
  }

  /// Puts a message in. @returns whether its receive has been posted.
  bool deliver(const MessageKey& key, Message message) {
    bool met = false;
    {
      const std::lock_guard lock(mutex_);
      met = posted_.erase(key) > 0;
      messages_.emplace(key, std::move(message));
    }
    changed_.notify_one();
    return met;
  }

  /// Takes a message out, if it is there.
  [[nodiscard]] std::optional<Message> fetch(const MessageKey& key) {
    const std::lock_guard lock(mutex_);
    auto node = messages_.extract(key);
    if (node.empty()) return std::nullopt;
    posted_.erase(key);
    return std::move(node.mapped());
  }

  /// Posts a receive. @returns the sender's number of its message, if that is there already.
  [[nodiscard]] std::optional<std::uint64_t> post(const MessageKey& key) {
    const std::lock_guard lock(mutex_);
    const auto message = messages_.find(key);
    if (message != messages_.end()) return message->second.send;
    posted_.insert(key);
    return std::nullopt;
  }

  /// A send of this rank has met its receive.
  void meet(std::uint64_t send) {
    {
      const std::lock_guard lock(mutex_);
      met_sends_.insert(send);
    }
    changed_.notify_one();
  }

  /// Whether a send has met its receive. Once told, it is forgotten.
  [[nodiscard]] bool take_met(std::uint64_t send) {
    const std::lock_guard lock(mutex_);
    return met_sends_.erase(send) > 0;
  }

  /// What one may look at within `look` and `wait`: a message, or a send that has met its receive.
  [[nodiscard]] bool holds(const MessageKey& key) const { return messages_.contains(key); }
  [[nodiscard]] bool met(std::uint64_t send) const { return met_sends_.contains(send); }

  /// Looks while nothing changes. @returns what `ready` does.
  template <class Ready>
  bool look(Ready&& ready) {
    const std::lock_guard lock(mutex_);
    return ready();
  }

  /// Looks when something has changed, and at least every `interval`, until `done` is true.
  template <class Done>
  void wait(std::chrono::nanoseconds interval, Done&& done) {
    std::unique_lock lock(mutex_);
    while (!done()) changed_.wait_for(lock, interval);
  }

  /// Who waits looks again: for what is not in the mailbox.
  void wake() {
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<MessageKey, Message> messages_;
  std::set<MessageKey> posted_;                  ///< receives that no message has met
  std::unordered_set<std::uint64_t> met_sends_;  ///< own sends whose receive was posted
  MessageBuffers pool_;
};

}  // namespace slimpack::kernels
