#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bench/gpu/stage_run.hpp"
#include "kernels/device_links.hpp"
#include "kernels/executor.hpp"
#include "kernels/transport/backoff.hpp"
#include "kernels/transport/in_process.hpp"
#include "kernels/transport/part.hpp"
#include "slimpack/exec/ranks.hpp"
#include "tests/kernels_cuda/host_device.hpp"

// Links between the devices of ranks in threads, as NCCL's are between GPUs.
namespace slimpack::testing {

/// Where the devices of all ranks meet.
class LinkHub {
 public:
  /// Rows from a rank to its neighbour: no tags, one after another. A send is over once its receive has come
  /// to its turn; or, as small ones may be, at once.
  struct Channel {
    std::deque<std::vector<std::byte>> early;
    std::optional<std::span<std::byte>> awaited;  ///< where the receive whose turn it is wants its bytes
    bool filled = false;
  };
  /// Numbers of all replicas of a stage for one collective.
  struct Board {
    std::vector<std::optional<std::vector<float>>> given;
    std::size_t taken = 0;
  };

  std::mutex mutex;
  std::map<std::pair<std::size_t, std::size_t>, Channel> channels;  ///< by sender and receiver
  std::map<std::size_t, Board> boards;                              ///< by stage
};

/// One rank's links (`DeviceLinks`). Work that a rank's end leaves behind on the others waits for ever, as on
/// GPUs.
class ThreadLinks {
 public:
  using Stream = HostDevice::Stream;

  /// @param hub for all ranks. @param table of their places. @param early sends may be over before their receives.
  ThreadLinks(std::shared_ptr<LinkHub> hub, std::size_t rank, const PlanRanks& table, bool early)
      : own_(std::make_shared<Own>()) {
    own_->hub = std::move(hub);
    own_->rank = rank;
    own_->place = table.place_of(rank);
    own_->table = table;
    own_->replicas = table.pipelines();
    own_->position = own_->place.pipeline;
    own_->early = early;
    own_->random.seed(static_cast<unsigned>(rank));
  }
  ThreadLinks(ThreadLinks&&) = default;
  ThreadLinks& operator=(ThreadLinks&&) = delete;
  ~ThreadLinks() { abort(); }

  template <class T>
  void send(kernels::Way way, std::span<const T> rows, Stream stream) {
    const auto bytes = std::as_bytes(rows);
    const bool early = own_->early && own_->random() % 2 == 0;
    stream.add([own = own_, to = neighbour(way), bytes, early] { return own->try_send(to, bytes, early); });
  }

  template <class T>
  void receive(kernels::Way way, std::span<T> rows, Stream stream) {
    const auto bytes = std::as_writable_bytes(rows);
    stream.add([own = own_, from = neighbour(way), bytes] { return own->try_receive(from, bytes); });
  }

  void reduce_scatter(std::span<float> numbers, Stream stream) {
    add_collective(stream, numbers, [numbers](const Own& own, const LinkHub::Board& board) {
      std::fill(numbers.begin(), numbers.end(), std::numeric_limits<float>::quiet_NaN());
      own.sum(board, numbers, own.position);
    });
  }
  void all_reduce(std::span<float> numbers, Stream stream) {
    add_collective(stream, numbers, [numbers](const Own& own, const LinkHub::Board& board) {
      for (std::size_t i = 0; i < own.replicas; ++i) own.sum(board, numbers, i);
    });
  }
  void all_gather(std::span<float> numbers, Stream stream) {
    add_collective(stream, numbers, [numbers](const Own& own, const LinkHub::Board& board) {
      for (std::size_t i = 0; i < own.replicas; ++i) {
        const kernels::Part part = kernels::part_of(numbers.size(), own.replicas, i);
        for (std::size_t k = part.begin; k < part.end; ++k) numbers[k] = (*board.given[i])[k];
      }
    });
  }

  void exchange(std::span<const kernels::DeviceBlock> sends, std::span<const kernels::DeviceBlock> receives,
                Stream stream) {
    std::vector<Move> moves;
    for (const kernels::DeviceBlock& block : sends)
      moves.push_back({true, block, own_->early && own_->random() % 2 == 0});
    for (const kernels::DeviceBlock& block : receives) moves.push_back({false, block, false});
    stream.add([own = own_, left = std::make_shared<std::vector<Move>>(std::move(moves))] {
      // Of those to, or from, a rank, the first that is left.
      std::set<std::pair<bool, std::size_t>> held_up;
      std::erase_if(*left, [&](const Move& move) {
        if (held_up.contains({move.sends, move.block.position})) return false;
        const std::size_t other = own->rank_of(move.block.position);
        const std::span<std::byte> bytes(move.block.data, move.block.bytes);
        const bool done =
            move.sends ? own->try_send(other, bytes, move.early) : own->try_receive(other, bytes);
        if (!done) held_up.insert({move.sends, move.block.position});
        return done;
      });
      return left->empty();
    });
  }

  [[nodiscard]] kernels::AsyncState state() const { return {.done = true, .error = {}}; }

  void abort() {
    if (!own_) return;
    const std::scoped_lock lock(own_->hub->mutex);
    own_->aborted = true;
    for (auto& [ranks, channel] : own_->hub->channels) {
      if (ranks.second == own_->rank) channel.awaited.reset();
    }
  }

 private:
  /// Of an exchange.
  struct Move {
    bool sends = false;
    kernels::DeviceBlock block;
    bool early = false;
  };
  struct Own {
    std::shared_ptr<LinkHub> hub;
    std::size_t rank = 0, replicas = 0, position = 0;
    RankPlace place;
    std::optional<PlanRanks> table;
    bool early = false, aborted = false;
    std::mt19937 random;

    [[nodiscard]] std::size_t rank_of(std::size_t replica) const {
      return table->rank_of({static_cast<PipelineId>(replica), place.stage});
    }

    bool try_send(std::size_t to, std::span<const std::byte> bytes, bool at_once) {
      const std::scoped_lock lock(hub->mutex);
      if (aborted) return true;
      LinkHub::Channel& channel = hub->channels[{rank, to}];
      if (at_once) {
        channel.early.emplace_back(bytes.begin(), bytes.end());
        return true;
      }
      if (!channel.early.empty() || !channel.awaited || channel.filled) return false;
      fill(*channel.awaited, bytes);
      channel.filled = true;
      return true;
    }

    bool try_receive(std::size_t from, std::span<std::byte> bytes) {
      const std::scoped_lock lock(hub->mutex);
      if (aborted) return true;
      LinkHub::Channel& channel = hub->channels[{from, rank}];
      if (!channel.filled && !channel.early.empty()) {
        fill(bytes, channel.early.front());
        channel.early.pop_front();
        channel.awaited.reset();
        return true;
      }
      if (!channel.filled) {
        channel.awaited = bytes;
        return false;
      }
      channel.awaited.reset();
      channel.filled = false;
      return true;
    }

    static void fill(std::span<std::byte> to, std::span<const std::byte> from) {
      if (to.size() != from.size()) throw std::runtime_error("a receive has another size than its send");
      std::memcpy(to.data(), from.data(), from.size());
    }

    /// As `Group::reduce_scatter` orders the sum of a part.
    void sum(const LinkHub::Board& board, std::span<float> numbers, std::size_t i) const {
      const kernels::Part part = kernels::part_of(numbers.size(), replicas, i);
      for (std::size_t k = part.begin; k < part.end; ++k) {
        float total = (*board.given[(i + 1) % replicas])[k];
        for (std::size_t r = 2; r <= replicas; ++r) total += (*board.given[(i + r) % replicas])[k];
        numbers[k] = total;
      }
    }
  };

  [[nodiscard]] std::size_t neighbour(kernels::Way way) const {
    const bool before = way == kernels::Way::from_before || way == kernels::Way::to_before;
    const RankPlace& own = own_->place;
    return own_->table->rank_of({own.pipeline, before ? own.stage - 1 : own.stage + 1});
  }

  template <class Take>
  void add_collective(Stream stream, std::span<float> numbers, Take take) {
    stream.add([own = own_, numbers, take, gave = std::make_shared<bool>(false)] {
      const std::scoped_lock lock(own->hub->mutex);
      if (own->aborted) return true;
      LinkHub::Board& board = own->hub->boards[own->place.stage];
      board.given.resize(own->replicas);
      if (!*gave) {
        if (board.given[own->position]) return false;  // others still take the last one's
        board.given[own->position].emplace(numbers.begin(), numbers.end());
        *gave = true;
      }
      for (const auto& given : board.given) {
        if (!given) return false;
        if (given->size() != numbers.size()) throw std::runtime_error("replicas give different sizes");
      }
      take(*own, board);
      if (++board.taken == own->replicas) board = {};
      return true;
    });
  }

  std::shared_ptr<Own> own_;
};

/// A host's transport for devices that work while their thread does: lets them go on while it waits. And watches that they
/// are asked for no memory within an executor's step, from its first task to the next step's begin; and, with links between
/// devices, that the host waits for none of them while a step's tasks are given out.
class BusyTransport {
 public:
  explicit BusyTransport(kernels::InProcessTransport& transport, bool linked = false)
      : transport_(transport), linked_(linked) {
    HostDevice::memory_is_fixed() = HostDevice::host_may_not_wait() = false;
  }

  [[nodiscard]] std::size_t rank() const { return transport_.rank(); }
  [[nodiscard]] std::size_t size() const { return transport_.size(); }
  kernels::Request isend(std::size_t to, kernels::Tag tag, std::span<const std::byte> bytes) {
    return transport_.isend(to, tag, bytes);
  }
  kernels::Request irecv(std::size_t from, kernels::Tag tag, std::span<std::byte> bytes) {
    return transport_.irecv(from, tag, bytes);
  }
  bool test(kernels::Request& request) { return transport_.test(request); }
  void wait(kernels::Request& request) {
    kernels::Backoff idle;
    while (!transport_.test(request)) {
      transport_.check();
      if (HostDevice::go_on()) {
        idle = {};
      } else {
        idle.pause();
      }
    }
  }
  /// @param hook called before a task is shown: for ranks that fail in one.
  void set_hook(std::function<void(std::string_view)> hook) { hook_ = std::move(hook); }
  void set_task(std::string_view text) {
    transport_.set_task(text);
    HostDevice::memory_is_fixed() = text != "agreement on the plan";
    if (text == "begin of the step's tasks") HostDevice::host_may_not_wait() = linked_;
    if (text == "end of the step's tasks") HostDevice::host_may_not_wait() = false;
    if (hook_) hook_(text);
  }
  void check() { transport_.check(); }
  [[noreturn]] void abort(std::string_view reason) { transport_.abort(reason); }

 private:
  kernels::InProcessTransport& transport_;
  bool linked_;
  std::function<void(std::string_view)> hook_;
};

/// Trains on stages of `HostDevice`s, rows going through the host's memory.
/// @param begin called by each rank's thread with its number, before it makes its stage.
template <class Stage, class Begin>
[[nodiscard]] bench::Outcome run_through_host(const bench::StageCase& c, Begin&& begin) {
  std::vector<std::unique_ptr<BusyTransport>> transports(rank_count(c.plan));
  return bench::run_executors(c, [&](kernels::InProcessTransport& t) {
    begin(t.rank());
    transports[t.rank()] = std::make_unique<BusyTransport>(t);
    return kernels::RankExecutor<Stage, BusyTransport>(*transports[t.rank()], c.model, c.plan, c.options);
  });
}

}  // namespace slimpack::testing
