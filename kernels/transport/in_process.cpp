#include "kernels/transport/in_process.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "kernels/transport/board.hpp"
#include "kernels/transport/slots.hpp"
#include "kernels/transport/watch.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

/// Memory of one message in flight.
struct Buffer {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t capacity = 0;
};

/// Buffers to use again: large ones cost more to allocate than to copy.
class BufferPool {
 public:
  Buffer take(std::size_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->capacity >= bytes && (best == free_.end() || it->capacity < best->capacity)) best = it;
    }
    if (best == free_.end()) return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    Buffer result = std::move(*best);
    *best = std::move(free_.back());
    free_.pop_back();
    return result;
  }

  void give_back(Buffer buffer) {
    constexpr std::size_t most_kept = 8;
    if (free_.size() == most_kept) {
      std::swap(*std::min_element(free_.begin(), free_.end(), by_capacity), buffer);
    } else {
      free_.push_back(std::move(buffer));
    }
  }

 private:
  static bool by_capacity(const Buffer& a, const Buffer& b) { return a.capacity < b.capacity; }

  std::vector<Buffer> free_;
};

struct Message {
  Buffer buffer;
  std::size_t size = 0;
  std::uint64_t send = 0;  ///< the sender's number of it
};

/// Sender, tag, and how many of the same came before.
using Key = std::tuple<std::size_t, Tag, std::uint64_t>;

/// What lies with one rank for it to fetch.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Key, Message> messages;
  std::set<Key> posted;                         ///< receives that no message has met (rendezvous only)
  std::unordered_set<std::uint64_t> met_sends;  ///< own sends whose receive was posted (rendezvous only)
  BufferPool pool;
};

struct Unfinished {
  bool sends = false;
  std::size_t peer = 0;
  Tag tag = 0;
  std::uint64_t number = 0;  ///< of a receive, among those of its peer and tag; of a send, among all
  std::span<std::byte> bytes;
};

/// How many transfers there were with a peer and tag.
using Counts = std::map<std::pair<std::size_t, Tag>, std::uint64_t>;

}  // namespace

/// What the ranks share.
struct InProcessTransport::Hub {
  Hub(std::size_t ranks, const InProcessOptions& chosen)
      : options(chosen),
        memory(std::make_unique<std::uint64_t[]>(Board::bytes(ranks) / sizeof(std::uint64_t) + 1)),
        board(memory.get(), ranks, true),
        mailboxes(ranks) {}

  void notify_all() {
    for (Mailbox& mailbox : mailboxes) {
      { const std::lock_guard lock(mailbox.mutex); }
      mailbox.changed.notify_all();
    }
  }

  /// @returns whether this is what ended the run.
  bool fail(const Failure& failure) {
    const bool first = board.fail(failure);
    notify_all();
    return first;
  }

  InProcessOptions options;
  std::unique_ptr<std::uint64_t[]> memory;
  Board board;
  std::vector<Mailbox> mailboxes;
};

/// What one rank knows.
struct InProcessTransport::State {
  State(std::shared_ptr<Hub> h, std::size_t r) : hub(std::move(h)), rank(r), mailbox(hub->mailboxes[r]) {}

  void throw_if_failed() const {
    if (hub->board.failed()) throw error_of(*hub->board.failure());
  }

  [[noreturn]] void fail(const Failure& failure) const {
    hub->fail(failure);
    while (!hub->board.failed()) std::this_thread::yield();
    throw error_of(*hub->board.failure());
  }

  [[nodiscard]] Failure own_failure(std::string_view reason) const {
    return {rank, hub->board[rank].task.read(), concat(rank_text(hub->board, rank), " failed: ", reason)};
  }

  void require_rank(std::size_t peer) const {
    require(peer < hub->board.size(), "there is no rank ", peer, "; expected one below ", hub->board.size());
  }

  /// Puts a message into a mailbox. @returns whether its receive has been posted.
  bool deliver(std::size_t to, const Key& key, Message message) const {
    Mailbox& box = hub->mailboxes[to];
    bool met = false;
    {
      const std::lock_guard lock(box.mutex);
      met = box.posted.erase(key) > 0;
      box.messages.emplace(key, std::move(message));
    }
    box.changed.notify_one();
    return met;
  }

  /// Takes the message of a receive out of the mailbox, if it is there.
  bool fetch(const Unfinished& receive) {
    std::unique_lock lock(mailbox.mutex);
    auto node = mailbox.messages.extract(Key{receive.peer, receive.tag, receive.number});
    if (node.empty()) return false;
    mailbox.posted.erase(node.key());
    lock.unlock();
    Message& message = node.mapped();
    if (message.size != receive.bytes.size()) {
      fail({receive.peer, hub->board[receive.peer].task.read(),
            concat(rank_text(hub->board, receive.peer), " has sent ", message.size, " bytes as ",
                   tag_text(receive.tag), "; expected ", receive.bytes.size(), " by ",
                   rank_text(hub->board, rank))});
    }
    if (message.size > 0) std::memcpy(receive.bytes.data(), message.buffer.bytes.get(), message.size);
    lock.lock();
    mailbox.pool.give_back(std::move(message.buffer));
    return true;
  }

  /// The receive of a message is posted: its sender may go on.
  void meet(std::size_t sender, std::uint64_t send) const {
    Mailbox& box = hub->mailboxes[sender];
    {
      const std::lock_guard lock(box.mutex);
      box.met_sends.insert(send);
    }
    box.changed.notify_one();
  }

  /// Posts a receive where sends wait for that.
  void post(const Unfinished& receive) {
    const Key key{receive.peer, receive.tag, receive.number};
    std::unique_lock lock(mailbox.mutex);
    const auto message = mailbox.messages.find(key);
    if (message == mailbox.messages.end()) {
      mailbox.posted.insert(key);
      return;
    }
    const std::uint64_t send = message->second.send;
    lock.unlock();
    meet(receive.peer, send);
  }

  /// Whether a transfer can be completed. Under the mailbox's lock.
  [[nodiscard]] bool ready(const Unfinished& transfer) const {
    return transfer.sends ? mailbox.met_sends.contains(transfer.number)
                          : mailbox.messages.contains(Key{transfer.peer, transfer.tag, transfer.number});
  }

  bool complete(const Unfinished& transfer) {
    if (!transfer.sends) return fetch(transfer);
    const std::lock_guard lock(mailbox.mutex);
    return mailbox.met_sends.erase(transfer.number) > 0;
  }

  /// Whether a transfer gets ready soon: going to sleep takes longer than most messages.
  bool soon_ready(const Unfinished& transfer) const {
    constexpr int tries = 100;
    for (int i = 0; i < tries; ++i) {
      {
        const std::lock_guard lock(mailbox.mutex);
        if (ready(transfer)) return true;
      }
      std::this_thread::yield();
    }
    return false;
  }

  void wait_until_ready(const Unfinished& transfer) {
    if (soon_ready(transfer)) return;
    const RankStatus& peer = hub->board[transfer.peer];
    Watch watch(hub->board, {rank, transfer.peer, transfer.sends, transfer.tag}, hub->options);
    std::unique_lock lock(mailbox.mutex);
    while (true) {
      throw_if_failed();
      const bool left = peer.left;
      auto failure = watch.look();
      if (ready(transfer)) return;
      if (left) failure = watch.peer_has_left();
      if (failure) {
        lock.unlock();
        fail(*failure);
      }
      mailbox.changed.wait_for(lock, watch.interval());
    }
  }

  std::shared_ptr<Hub> hub;
  std::size_t rank;
  Mailbox& mailbox;
  Slots<Unfinished> slots;
  Counts sent, posted;
  std::uint64_t sends = 0;
};

std::vector<InProcessTransport> InProcessTransport::create(std::size_t ranks,
                                                           const InProcessOptions& options) {
  require(ranks > 0, "there are 0 ranks; expected at least 1");
  require_valid(options);
  const auto hub = std::make_shared<Hub>(ranks, options);
  std::vector<InProcessTransport> result;
  result.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    result.push_back(InProcessTransport(std::make_unique<State>(hub, rank)));
  }
  return result;
}

InProcessTransport::InProcessTransport(std::unique_ptr<State> state) : state_(std::move(state)) {}

InProcessTransport::InProcessTransport(InProcessTransport&&) noexcept = default;

InProcessTransport::~InProcessTransport() {
  if (!state_) return;
  Hub& hub = *state_->hub;
  if (std::uncaught_exceptions() > 0 && !hub.board.failed()) hub.fail(state_->own_failure("an exception"));
  hub.board[state_->rank].left = true;
  hub.notify_all();
}

std::size_t InProcessTransport::rank() const { return state_->rank; }

std::size_t InProcessTransport::size() const { return state_->hub->board.size(); }

Request InProcessTransport::isend(std::size_t to, Tag tag, std::span<const std::byte> bytes) {
  State& self = *state_;
  self.require_rank(to);
  self.throw_if_failed();
  Message message{.buffer = {}, .size = bytes.size(), .send = self.sends++};
  {
    Mailbox& box = self.hub->mailboxes[to];
    const std::lock_guard lock(box.mutex);
    message.buffer = box.pool.take(bytes.size());
  }
  if (!bytes.empty()) std::memcpy(message.buffer.bytes.get(), bytes.data(), bytes.size());
  const std::uint64_t send = message.send;
  const bool met = self.deliver(to, {self.rank, tag, self.sent[{to, tag}]++}, std::move(message));
  if (met || !self.hub->options.rendezvous) return {};
  return self.slots.add({.sends = true, .peer = to, .tag = tag, .number = send, .bytes = {}});
}

Request InProcessTransport::irecv(std::size_t from, Tag tag, std::span<std::byte> bytes) {
  State& self = *state_;
  self.require_rank(from);
  self.throw_if_failed();
  const Unfinished receive{
      .sends = false, .peer = from, .tag = tag, .number = self.posted[{from, tag}]++, .bytes = bytes};
  if (self.hub->options.rendezvous) self.post(receive);
  return self.slots.add(receive);
}

bool InProcessTransport::test(Request& request) {
  if (request.generation == 0) return true;
  const Unfinished transfer = state_->slots.at(request);
  state_->throw_if_failed();
  if (!state_->complete(transfer)) return false;
  state_->slots.remove(request);
  return true;
}

void InProcessTransport::wait(Request& request) {
  if (test(request)) return;
  state_->wait_until_ready(state_->slots.at(request));
  test(request);
}

void InProcessTransport::set_task(std::string_view text) {
  state_->throw_if_failed();
  state_->hub->board[state_->rank].task.write(text);
}

void InProcessTransport::check() { state_->throw_if_failed(); }

void InProcessTransport::abort(std::string_view reason) { state_->fail(state_->own_failure(reason)); }

bool InProcessTransport::fail(std::string_view reason) {
  return state_->hub->fail(state_->own_failure(reason));
}

namespace {

/// The threads of a run, and how they ended. Shared with them, so that it outlives one that is left behind.
struct Run {
  std::function<void(InProcessTransport&)> body;
  std::vector<std::optional<InProcessTransport>> ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> ended;
  std::size_t running = 0;
  std::exception_ptr cause;        ///< what ended the run, if it was an exception of the body itself
  std::exception_ptr consequence;  ///< the first TransportError
};

void run_rank(Run& run, std::size_t rank) {
  std::exception_ptr cause, consequence;
  const auto failed = [&](const char* what) {
    if (run.ranks[rank]->fail(what)) cause = std::current_exception();
  };
  try {
    run.body(*run.ranks[rank]);
  } catch (const TransportError&) {
    consequence = std::current_exception();
  } catch (const std::exception& error) {
    failed(error.what());
  } catch (...) {
    failed("an exception of unknown type");
  }
  run.ranks[rank].reset();
  const std::lock_guard lock(run.mutex);
  // Moved: who is left behind shares no exception with whom it is thrown at.
  if (cause) run.cause = std::move(cause);
  if (!run.consequence) run.consequence = std::move(consequence);
  run.ended[rank] = true;
  --run.running;
  run.changed.notify_one();
}

}  // namespace

void run_in_process(std::size_t ranks, std::function<void(InProcessTransport&)> body,
                    const InProcessOptions& options) {
  const auto run = std::make_shared<Run>();
  run->body = std::move(body);
  for (InProcessTransport& rank : InProcessTransport::create(ranks, options)) {
    run->ranks.emplace_back(std::move(rank));
  }
  run->ended.resize(ranks);
  run->running = ranks;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([run, rank] { run_rank(*run, rank); });

  std::unique_lock lock(run->mutex);
  const auto failed = [&] { return run->cause || run->consequence; };
  run->changed.wait(lock, [&] { return run->running == 0 || failed(); });
  run->changed.wait_for(lock, options.timeout + options.grace, [&] { return run->running == 0; });
  const std::vector<bool> ended = run->ended;
  const std::exception_ptr error = std::exchange(run->cause ? run->cause : run->consequence, nullptr);
  lock.unlock();
  for (std::size_t rank = 0; rank < ranks; ++rank)
    ended[rank] ? threads[rank].join() : threads[rank].detach();
  if (error) std::rethrow_exception(error);
}

}  // namespace slimpack::kernels
