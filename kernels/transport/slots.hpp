#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

/// Unfinished transfers by `Request`. A transfer's place is used again, with another generation.
template <class T>
class Slots {
 public:
  Request add(T value) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    slots_[slot].value = std::move(value);
    slots_[slot].used = true;
    ++used_;
    return {slot, slots_[slot].generation};
  }

  /// How many are unfinished.
  [[nodiscard]] std::size_t used() const { return used_; }

  /// @throws InvalidInput for a request that is used up or of another transport.
  T& at(const Request& request) {
    const bool known = request.slot < slots_.size() && slots_[request.slot].used &&
                       slots_[request.slot].generation == request.generation;
    require(known, "request ", request.slot, ".", request.generation,
            " is not of an unfinished transfer; expected one that was not waited for before");
    return slots_[request.slot].value;
  }

  /// Ends a transfer, and makes the request one that is complete.
  void remove(Request& request) {
    Slot& slot = slots_[request.slot];
    slot.value = T{};
    slot.used = false;
    --used_;
    if (++slot.generation == 0) slot.generation = 1;
    free_.push_back(request.slot);
    request = {};
  }

 private:
  struct Slot {
    T value{};
    std::uint32_t generation = 1;
    bool used = false;
  };

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t used_ = 0;
};

}  // namespace slimpack::kernels
