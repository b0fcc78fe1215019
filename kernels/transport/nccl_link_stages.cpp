#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/transport/nccl.hpp"

// Groups whose members are connected when they are handed out.
namespace slimpack::kernels {

namespace {

/// Memory and a stream for first bytes. @throws std::runtime_error if the GPU fails.
class FirstBytes {
 public:
  /// @param bytes of memory
  explicit FirstBytes(std::size_t bytes) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    if (const cudaError_t error = cudaMalloc(&data_, bytes); error != cudaSuccess) {
      cudaStreamDestroy(stream_);
      check(error);
    }
  }
  FirstBytes(const FirstBytes&) = delete;
  FirstBytes& operator=(const FirstBytes&) = delete;
  ~FirstBytes() {
    cudaFree(data_);
    cudaStreamDestroy(stream_);
  }

  /// From one of a link's two positions to the other. Both have to call it.
  void pass(NcclGroup& link, std::size_t from) {
    const std::span<std::byte> byte(static_cast<std::byte*>(data_), 1);
    if (link.position() == from) {
      link.send(1 - from, std::span<const std::byte>(byte), stream_);
    } else {
      link.receive(from, byte, stream_);
    }
    link.wait(stream_);
  }

  /// Between any two members. All have to call it. There are two bytes for each.
  void pass_all(NcclGroup& members) {
    std::vector<DeviceBlock> sends, receives;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i == members.position()) continue;
      auto* bytes = static_cast<std::byte*>(data_) + 2 * i;
      sends.push_back({i, bytes, 1});
      receives.push_back({i, bytes + 1, 1});
    }
    members.exchange(sends, receives, stream_);
    members.wait(stream_);
  }

 private:
  static void check(cudaError_t error) {
    if (error != cudaSuccess)
      throw std::runtime_error(concat("linking ranks: CUDA error ", static_cast<int>(error), " (",
                                      cudaGetErrorString(error), ")"));
  }

  cudaStream_t stream_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace

StageLinks link_stages(NcclGroup& pipeline) {
  // Receives may wait for a long time, while tasks need the GPU.
  constexpr int most_blocks = 4;
  StageLinks links;
  FirstBytes byte(1);
  const std::size_t stage = pipeline.position();
  for (const std::size_t round : {0U, 1U}) {
    const auto pair = neighbours_of(stage, pipeline.size(), round);
    auto forward = pipeline.split(pair, {.most_blocks = most_blocks});
    auto backward = pipeline.split(pair, {.most_blocks = most_blocks});
    if (!pair) continue;
    byte.pass(*forward, 0);
    byte.pass(*backward, 1);
    const bool first = forward->position() == 0;
    (first ? links.to_next : links.from_before).emplace(std::move(*forward));
    (first ? links.from_next : links.to_before).emplace(std::move(*backward));
  }
  return links;
}

NcclGroup link_members(NcclGroup& replicas) {
  constexpr int most_blocks = 8;
  NcclGroup members = *replicas.split(0, {.most_blocks = most_blocks});
  FirstBytes(2 * members.size()).pass_all(members);
  return members;
}

}  // namespace slimpack::kernels
