#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "kernels/transport/board.hpp"
#include "kernels/transport/wire_private.hpp"

// What ranks tell each other on the star, as bytes.
namespace slimpack::kernels {

/// A rank's status; or, followed by a `Reason`, the failure that it is at fault for.
struct Frame {
  static constexpr std::uint32_t status = 1, failure = 2;

  std::uint32_t kind = status;
  std::uint32_t rank = 0;
  std::int32_t waits_for = RankStatus::nobody;
  std::uint32_t looked = 0;
  std::uint32_t left = 0;
  std::uint32_t reserved = 0;
  std::array<char, 64> task{};
};
using Reason = std::array<char, 1024>;

/// What has arrived: a frame, with the reason if it is of a failure.
struct News {
  Frame frame;
  Reason reason{};
  std::size_t bytes = 0;
};

[[nodiscard]] inline Frame status_frame(std::size_t rank, const RankStatus& shown) {
  Frame frame;
  frame.rank = static_cast<std::uint32_t>(rank);
  frame.waits_for = shown.waits_for;
  frame.looked = shown.looked;
  frame.left = shown.left ? 1 : 0;
  put_text(frame.task, shown.task.read());
  return frame;
}

/// Shows on a board what a frame says.
inline void show(const Frame& frame, RankStatus& shown) {
  shown.task.write(text_of(frame.task));
  shown.waits_for = frame.waits_for;
  shown.looked = frame.looked;
  shown.left = frame.left != 0;
  shown.here = true;
}

[[nodiscard]] inline Frame failure_frame(const Failure& failure) {
  Frame frame;
  frame.kind = Frame::failure;
  frame.rank = static_cast<std::uint32_t>(failure.rank);
  put_text(frame.task, failure.task);
  return frame;
}

[[nodiscard]] inline Reason reason_of(const Failure& failure) {
  Reason reason{};
  put_text(reason, failure.reason);
  return reason;
}

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto bytes = bytes_of(value);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// The first news of what has arrived, once it is all there.
[[nodiscard]] inline std::optional<News> next_news(std::span<const std::byte> arrived) {
  News news;
  if (arrived.size() < sizeof news.frame) return std::nullopt;
  std::memcpy(&news.frame, arrived.data(), sizeof news.frame);
  const bool failure = news.frame.kind == Frame::failure;
  news.bytes = sizeof news.frame + (failure ? sizeof news.reason : 0);
  if (arrived.size() < news.bytes) return std::nullopt;
  if (failure) std::memcpy(news.reason.data(), arrived.data() + sizeof news.frame, sizeof news.reason);
  return news;
}

}  // namespace slimpack::kernels
