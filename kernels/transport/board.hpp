#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace slimpack::kernels {

/// A short text that one writer at a time changes and any thread or process that shares the memory may read.
template <std::size_t Bytes>
class SharedText {
 public:
  /// Keeps the first `Bytes - 1` characters.
  void write(std::string_view text) {
    std::array<std::uint64_t, words> raw{};
    std::memcpy(raw.data(), text.data(), std::min(text.size(), Bytes - 1));
    version_.fetch_add(1, std::memory_order_acq_rel);
    for (std::size_t i = 0; i < words; ++i) words_[i].store(raw[i], std::memory_order_release);
    version_.fetch_add(1, std::memory_order_release);
  }

  /// A text that was written, not parts of two; if the writer was stopped while it wrote, an empty one.
  [[nodiscard]] std::string read() const {
    std::array<std::uint64_t, words> raw{};
    for (int tries = 0; tries < 1000; ++tries) {
      const std::uint32_t before = version_.load(std::memory_order_acquire);
      for (std::size_t i = 0; i < words; ++i) raw[i] = words_[i].load(std::memory_order_acquire);
      if (before % 2 == 0 && version_.load(std::memory_order_acquire) == before) return text_of(raw);
    }
    return {};
  }

 private:
  static_assert(Bytes % sizeof(std::uint64_t) == 0);
  static constexpr std::size_t words = Bytes / sizeof(std::uint64_t);

  static std::string text_of(const std::array<std::uint64_t, words>& raw) {
    std::array<char, Bytes> text;
    std::memcpy(text.data(), raw.data(), Bytes);
    return {text.data(), static_cast<std::size_t>(std::find(text.begin(), text.end(), '\0') - text.begin())};
  }

  std::atomic<std::uint32_t> version_ = 0;
  std::array<std::atomic<std::uint64_t>, words> words_ = {};
};

/// What a rank shows the others.
struct RankStatus {
  static constexpr std::int32_t nobody = -1;

  SharedText<64> task;
  std::atomic<std::int32_t> waits_for = nobody;  ///< rank whose transfer it waits for
  std::atomic<std::uint32_t> looked = 0;         ///< counts up while it waits: it does not stand still
  std::atomic<bool> here = false;                ///< it uses this board
  std::atomic<bool> left = false;                ///< it has ended, and will send nothing more
  std::atomic<bool> told = false;                ///< it knows that the run has failed
  std::atomic<std::int64_t> process = 0;         ///< its process id; 0 where that means nothing
};

/// What ended a run.
struct Failure {
  std::size_t rank = 0;  ///< at fault
  std::string task;      ///< of that rank
  std::string reason;    ///< the whole message

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// Where all ranks that share memory, threads or processes, show what they do, and that the run has failed.
/// Nothing here waits for another rank, so a rank that stands still, anywhere, does not stop the others.
class Board {
 public:
  /// Bytes of memory for a board.
  static constexpr std::size_t bytes(std::size_t ranks) {
    return sizeof(Header) + ranks * sizeof(RankStatus);
  }

  Board() = default;

  /// The board in memory of `bytes(ranks)`, aligned to 8 bytes. @param create a new one: by exactly one rank,
  /// before any other uses it.
  Board(void* memory, std::size_t ranks, bool create)
      : header_(static_cast<Header*>(memory)),
        ranks_(reinterpret_cast<RankStatus*>(static_cast<std::byte*>(memory) + sizeof(Header)), ranks) {
    if (!create) return;
    new (header_) Header;
    for (RankStatus& rank : ranks_) new (&rank) RankStatus;
  }

  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] RankStatus& operator[](std::size_t rank) const { return ranks_[rank]; }

  /// Shows why the run has failed. @returns whether it was the first failure: only that one is shown.
  bool fail(const Failure& failure) const {
    std::int32_t none = no_failure;
    if (!header_->rank.compare_exchange_strong(none, being_written)) return false;
    header_->task.write(failure.task);
    header_->reason.write(failure.reason);
    header_->rank.store(static_cast<std::int32_t>(failure.rank), std::memory_order_release);
    return true;
  }

  /// Whether the run has failed. One load.
  [[nodiscard]] bool failed() const { return header_->rank.load(std::memory_order_acquire) >= 0; }

  /// Why the run has failed, if it has.
  [[nodiscard]] std::optional<Failure> failure() const {
    const std::int32_t rank = header_->rank.load(std::memory_order_acquire);
    if (rank < 0) return std::nullopt;
    return Failure{static_cast<std::size_t>(rank), header_->task.read(), header_->reason.read()};
  }

 private:
  static constexpr std::int32_t no_failure = -1, being_written = -2;

  struct Header {
    std::atomic<std::int32_t> rank = no_failure;
    SharedText<64> task;
    SharedText<1024> reason;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && alignof(RankStatus) <= 8);

  Header* header_ = nullptr;
  std::span<RankStatus> ranks_;
};

}  // namespace slimpack::kernels
