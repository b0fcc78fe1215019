#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/stage_device.hpp"
#include "kernels/cuda/task_io.hpp"
#include "kernels/device_links.hpp"
#include "kernels/model/pack_attention.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels::cuda {

/// Numbers that members exchange: where they begin, and how many go to and come from each.
struct MemberMessage {
  std::size_t sent = 0, received = 0;
  std::vector<std::size_t> send_sizes = {}, receive_sizes = {};
};

/// How members of a merged task reach each other: from device to device, or through the host's memory.
template <StageDevice D>
class MemberExchange {
 public:
  using Stream = typename D::Stream;

  /// @param device has to outlive it.
  explicit MemberExchange(D& device) : device_(device) {}

  void set_through_host(AllToAll<Bf16> exchange) { through_host_ = std::move(exchange); }
  void set_on_device(DeviceExchange<Stream> exchange) { on_device_ = std::move(exchange); }
  [[nodiscard]] bool is_on_device() const { return static_cast<bool>(on_device_); }

  /// Memory of the host for what goes through it. Call while the device has nothing to do.
  /// @param numbers at most, that are sent and that are received
  void begin_step(std::size_t numbers) {
    for (HostNumbers<D>* host : {&sent_, &received_}) {
      if (host->size() >= numbers) continue;
      *host = {};  // or both would be there
      *host = HostNumbers<D>(device_, numbers);
    }
  }

  /// From device to device, in a queue. The host waits for nothing.
  void on_device(const StageTask& task, std::span<const DeviceBlock> sends,
                 std::span<const DeviceBlock> receives, Queue queue) const {
    on_device_(task, sends, receives, device_.stream(queue));
  }

  /// Through the host, which waits once, for what is sent.
  /// @param from the messages' numbers, consecutively. @param to where to put what arrives, likewise
  void through_host(const StageTask& task, std::span<const MemberMessage> messages, const Bf16* from,
                    Bf16* to, Queue queue) {
    require(static_cast<bool>(through_host_), to_string(task),
            " is merged; expected an all-to-all between its ", task.members.size(), " members");
    device_.copy(queue, sent_.data(), from, numbers_sent(messages) * sizeof(Bf16));
    device_.record(gathered_, queue);
    device_.wait(gathered_);  // and so for what the last exchange has brought
    for (const MemberMessage& m : messages) {
      const std::size_t coming = sum(m.receive_sizes);
      Bf16* const received = received_.data() + m.received;
      through_host_(task, {sent_.data() + m.sent, sum(m.send_sizes)}, m.send_sizes, {received, coming},
                    m.receive_sizes);
      device_.copy(queue, to + m.received, received, coming * sizeof(Bf16));
    }
  }

 private:
  static std::size_t sum(const std::vector<std::size_t>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  }
  static std::size_t numbers_sent(std::span<const MemberMessage> messages) {
    return messages.empty() ? 0 : messages.back().sent + sum(messages.back().send_sizes);
  }

  D& device_;
  AllToAll<Bf16> through_host_;
  DeviceExchange<Stream> on_device_;
  HostNumbers<D> sent_, received_;
  typename D::Event gathered_;
};

}  // namespace slimpack::kernels::cuda
