#include "kernels/transport/in_process.hpp"

#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "kernels/transport/backoff.hpp"
#include "kernels/transport/board.hpp"
#include "kernels/transport/failures.hpp"
#include "kernels/transport/mailbox_private.hpp"
#include "kernels/transport/slots.hpp"
#include "kernels/transport/watch.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

namespace {

struct Unfinished {
  bool sends = false;
  std::size_t peer = 0;
  Tag tag = 0;
  std::uint64_t number = 0;  ///< of a receive, among those of its peer and tag; of a send, among all
  std::span<std::byte> bytes;

  /// Of a receive.
  [[nodiscard]] MessageKey key() const { return {peer, tag, number}; }
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
    for (Mailbox& mailbox : mailboxes) mailbox.wake();
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
  State(std::shared_ptr<Hub> h, std::size_t r)
      : hub(std::move(h)), board(hub->board), rank(r), mailbox(hub->mailboxes[r]) {}

  [[noreturn]] void fail(const Failure& failure) const {
    hub->fail(failure);
    while (!board.failed()) std::this_thread::yield();
    throw error_of(*board.failure());
  }

  /// Takes the message of a receive out of the mailbox, if it is there.
  bool fetch(const Unfinished& receive) const {
    std::optional<Message> message = mailbox.fetch(receive.key());
    if (!message) return false;
    if (message->size != receive.bytes.size()) {
      fail(wrong_size(board, {rank, receive.peer, false, receive.tag}, std::to_string(message->size),
                      receive.bytes.size()));
    }
    if (message->size > 0) std::memcpy(receive.bytes.data(), message->buffer.bytes.get(), message->size);
    mailbox.give_back(std::move(message->buffer));
    return true;
  }

  /// Whether a transfer can be completed. While the mailbox is looked at.
  [[nodiscard]] bool ready(const Unfinished& transfer) const {
    return transfer.sends ? mailbox.met(transfer.number) : mailbox.holds(transfer.key());
  }

  [[nodiscard]] bool complete(const Unfinished& transfer) const {
    return transfer.sends ? mailbox.take_met(transfer.number) : fetch(transfer);
  }

  void wait_until_ready(const Unfinished& transfer) const {
    QuickLooks looks;
    do {
      if (mailbox.look([&] { return ready(transfer); })) return;
    } while (looks.pause());
    const RankStatus& peer = board[transfer.peer];
    Watch watch(board, {rank, transfer.peer, transfer.sends, transfer.tag}, hub->options);
    std::optional<Failure> failure;
    mailbox.wait(watch.interval(), [&] {
      throw_if_failed(board);
      const bool left = peer.left;
      failure = watch.look();
      if (ready(transfer)) {
        failure.reset();
        return true;
      }
      if (left) failure = watch.peer_has_left();
      return failure.has_value();
    });
    if (failure) fail(*failure);
  }

  std::shared_ptr<Hub> hub;
  const Board& board;
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
  if (std::uncaught_exceptions() > 0 && !hub.board.failed()) fail("an exception");
  hub.board[state_->rank].left = true;
  hub.notify_all();
}

std::size_t InProcessTransport::rank() const { return state_->rank; }

std::size_t InProcessTransport::size() const { return state_->board.size(); }

Request InProcessTransport::isend(std::size_t to, Tag tag, std::span<const std::byte> bytes) {
  State& self = *state_;
  require_rank(to, size());
  throw_if_failed(self.board);
  Mailbox& box = self.hub->mailboxes[to];
  const std::uint64_t send = self.sends++;
  Message message{.buffer = box.take_buffer(bytes.size()), .size = bytes.size(), .send = send};
  if (!bytes.empty()) std::memcpy(message.buffer.bytes.get(), bytes.data(), bytes.size());
  const bool met = box.deliver({self.rank, tag, self.sent[{to, tag}]++}, std::move(message));
  if (met || !self.hub->options.rendezvous) return {};
  return self.slots.add({.sends = true, .peer = to, .tag = tag, .number = send, .bytes = {}});
}

Request InProcessTransport::irecv(std::size_t from, Tag tag, std::span<std::byte> bytes) {
  State& self = *state_;
  require_rank(from, size());
  throw_if_failed(self.board);
  const Unfinished receive{
      .sends = false, .peer = from, .tag = tag, .number = self.posted[{from, tag}]++, .bytes = bytes};
  if (self.hub->options.rendezvous) {
    if (const auto send = self.mailbox.post(receive.key())) self.hub->mailboxes[from].meet(*send);
  }
  return self.slots.add(receive);
}

bool InProcessTransport::test(Request& request) {
  if (request.generation == 0) return true;
  const Unfinished transfer = state_->slots.at(request);
  throw_if_failed(state_->board);
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
  throw_if_failed(state_->board);
  state_->board[state_->rank].task.write(text);
}

void InProcessTransport::check() { throw_if_failed(state_->board); }

void InProcessTransport::abort(std::string_view reason) {
  state_->fail(own_failure(state_->board, rank(), reason));
}

bool InProcessTransport::fail(std::string_view reason) {
  return state_->hub->fail(own_failure(state_->board, rank(), reason));
}

}  // namespace slimpack::kernels
