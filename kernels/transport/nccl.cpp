#include "kernels/transport/nccl.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/transport/part.hpp"
#include "kernels/transport/watch.hpp"

namespace slimpack::kernels {

namespace {

ncclDataType_t type_of(DeviceNumber number) {
  switch (number) {
    case DeviceNumber::byte:
      return ncclUint8;
    case DeviceNumber::bf16:
      return ncclBfloat16;
    case DeviceNumber::fp32:
      return ncclFloat32;
    case DeviceNumber::fp64:
      return ncclFloat64;
    case DeviceNumber::int64:
      return ncclInt64;
  }
  throw InvalidInput(concat("there is no number ", static_cast<int>(number)));
}

/// @param most_blocks 0: NCCL's own choice.
ncclConfig_t non_blocking(int most_blocks = 0) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (most_blocks > 0) config.maxCTAs = most_blocks;
  return config;
}

std::string error_text(ncclResult_t result, ncclComm_t comm) {
  const char* detail = ncclGetLastError(comm);
  const bool known = detail != nullptr && *detail != '\0';
  return concat("NCCL error ", static_cast<int>(result), " (", ncclGetErrorString(result), ")",
                known ? concat(": ", detail) : "");
}

}  // namespace

struct NcclGroup::State {
  using Family = std::set<State*>;

  State(HostSide side, const TransportOptions& chosen, std::shared_ptr<Family> relatives, std::size_t own,
        std::size_t members)
      : host(std::move(side)), options(chosen), family(std::move(relatives)), position(own), size(members) {
    family->insert(this);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    family->erase(this);
    abort();
  }

  /// Stops what is in progress, without waiting.
  void abort() {
    if (comm != nullptr) ncclCommAbort(std::exchange(comm, nullptr));
  }
  void abort_family() {
    for (State* member : *family) member->abort();
  }

  [[nodiscard]] static AsyncState state_of(ncclComm_t asked) {
    ncclResult_t result = ncclSuccess;
    if (const ncclResult_t answer = ncclCommGetAsyncError(asked, &result); answer != ncclSuccess)
      result = answer;
    if (result == ncclInProgress) return {};
    return {.done = true, .error = result == ncclSuccess ? "" : error_text(result, asked)};
  }

  template <class Ask>
  void wait(std::string_view what, Ask&& ask) {
    wait_for_device(host, options, what, ask, [this] { abort_family(); });
  }

  /// The first error of this group and its relatives; done if none has host work left.
  [[nodiscard]] AsyncState family_state() const {
    AsyncState all{.done = true, .error = {}};
    for (const State* member : *family) {
      if (member->comm == nullptr) continue;
      AsyncState one = state_of(member->comm);
      if (!one.error.empty()) return one;
      all.done = all.done && one.done;
    }
    return all;
  }

  /// Waits until a call that does not block has done its part on the host.
  void settle(ncclResult_t result, std::string_view what) { settle(result, what, comm); }
  void settle(ncclResult_t result, std::string_view what, ncclComm_t asked) {
    if (result == ncclSuccess) return;
    wait(what, [&]() -> AsyncState {
      if (result != ncclInProgress) return {.done = true, .error = error_text(result, asked)};
      return state_of(asked);
    });
  }

  /// Makes one operation of several, the results of which `queue` hands to its argument.
  template <class Queue>
  void settle_together(std::string_view what, Queue&& queue) {
    ncclResult_t first = ncclGroupStart();
    queue([&](ncclResult_t result) {
      if (first == ncclSuccess && result != ncclInProgress) first = result;
    });
    const ncclResult_t end = ncclGroupEnd();
    settle(first == ncclSuccess ? end : first, what);
  }

  /// @throws TransportError if the group was aborted, or the run has failed.
  void require_usable(std::string_view what) const {
    host.check();
    if (comm == nullptr) host.abort(concat(what, " of a group that is closed"));
  }

  HostSide host;
  TransportOptions options;
  std::shared_ptr<Family> family;  ///< groups made of one by splits, and this one
  std::size_t position, size;
  ncclComm_t comm = nullptr;
};

NcclGroup::Id NcclGroup::new_id(const HostSide& host) {
  static_assert(sizeof(Id) == sizeof(ncclUniqueId));
  ncclUniqueId unique{};
  const ncclResult_t result = ncclGetUniqueId(&unique);
  if (result != ncclSuccess) host.abort(concat("ncclGetUniqueId: ", error_text(result, nullptr)));
  Id id;
  std::memcpy(id.data(), &unique, sizeof unique);
  return id;
}

NcclGroup::NcclGroup(HostSide host, const TransportOptions& options, std::size_t rank, std::size_t size,
                     const Id& id) {
  require_valid(options);
  state_ = std::make_unique<State>(std::move(host), options, std::make_shared<State::Family>(), rank, size);
  ncclUniqueId unique{};
  std::memcpy(&unique, id.data(), sizeof unique);
  ncclConfig_t config = non_blocking();
  const ncclResult_t result =
      ncclCommInitRankConfig(&state_->comm, static_cast<int>(size), unique, static_cast<int>(rank), &config);
  state_->settle(result, concat("joining NCCL's ", size, " ranks"));
}

NcclGroup::NcclGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}

NcclGroup::NcclGroup(NcclGroup&&) noexcept = default;

NcclGroup::~NcclGroup() = default;

std::optional<NcclGroup> NcclGroup::split(std::optional<int> color, const SplitOptions& options) {
  constexpr std::string_view what = "splitting a group";
  State& self = *state_;
  require(!color || *color >= 0, "the colour is ", color.value_or(0), "; expected at least 0, or none");
  self.require_usable(what);
  auto part = std::make_unique<State>(self.host, self.options, self.family, 0, 0);
  ncclConfig_t config = non_blocking(options.most_blocks);
  const int order = options.order.value_or(static_cast<int>(self.position));
  const ncclResult_t result =
      ncclCommSplit(self.comm, color.value_or(NCCL_SPLIT_NOCOLOR), order, &part->comm, &config);
  self.settle(result, what);
  if (!color) return std::nullopt;
  part->settle(ncclInProgress, what);
  int position = 0, size = 0;
  part->settle(ncclCommUserRank(part->comm, &position), what);
  part->settle(ncclCommCount(part->comm, &size), what);
  part->position = static_cast<std::size_t>(position);
  part->size = static_cast<std::size_t>(size);
  return NcclGroup(std::move(part));
}

std::size_t NcclGroup::size() const { return state_->size; }

std::size_t NcclGroup::position() const { return state_->position; }

void NcclGroup::all_reduce(void* values, std::size_t n, DeviceNumber number, cuda::Stream stream) {
  constexpr std::string_view what = "all_reduce";
  state_->require_usable(what);
  state_->settle(ncclAllReduce(values, values, n, type_of(number), ncclSum, state_->comm, stream), what);
}

template <class Call>
void NcclGroup::for_each_part(std::string_view what, std::size_t n, std::size_t bytes, void* values,
                              Call&& call) {
  state_->settle_together(what, [&](const auto& note) {
    for (std::size_t i = 0; i < size(); ++i) {
      const Part part = part_of(n, size(), i);
      if (part.size() == 0) continue;
      note(call(static_cast<std::byte*>(values) + part.begin * bytes, part.size(), static_cast<int>(i)));
    }
  });
}

void NcclGroup::reduce_scatter(void* values, std::size_t n, DeviceNumber number, std::size_t bytes,
                               cuda::Stream stream) {
  constexpr std::string_view what = "reduce_scatter";
  State& self = *state_;
  self.require_usable(what);
  if (n % size() != 0) {
    return for_each_part(what, n, bytes, values, [&](void* part, std::size_t count, int root) {
      return ncclReduce(part, part, count, type_of(number), ncclSum, root, self.comm, stream);
    });
  }
  std::byte* own = static_cast<std::byte*>(values) + position() * (n / size()) * bytes;
  self.settle(ncclReduceScatter(values, own, n / size(), type_of(number), ncclSum, self.comm, stream), what);
}

void NcclGroup::all_gather(void* values, std::size_t n, DeviceNumber number, std::size_t bytes,
                           cuda::Stream stream) {
  constexpr std::string_view what = "all_gather";
  State& self = *state_;
  self.require_usable(what);
  if (n % size() != 0) {
    return for_each_part(what, n, bytes, values, [&](void* part, std::size_t count, int root) {
      return ncclBroadcast(part, part, count, type_of(number), root, self.comm, stream);
    });
  }
  const std::byte* own = static_cast<std::byte*>(values) + position() * (n / size()) * bytes;
  self.settle(ncclAllGather(own, values, n / size(), type_of(number), self.comm, stream), what);
}

void NcclGroup::exchange(std::span<const DeviceBlock> sends, std::span<const DeviceBlock> receives,
                         cuda::Stream stream) {
  constexpr std::string_view what = "exchange";
  State& self = *state_;
  for (const auto& blocks : {sends, receives}) {
    for (const DeviceBlock& block : blocks) {
      require(block.position < size(), "there is no position ", block.position, "; expected one below ",
              size());
    }
  }
  self.require_usable(what);
  self.settle_together(what, [&](const auto& note) {
    for (const DeviceBlock& block : sends) {
      note(ncclSend(block.data, block.bytes, ncclUint8, static_cast<int>(block.position), self.comm, stream));
    }
    for (const DeviceBlock& block : receives) {
      note(ncclRecv(block.data, block.bytes, ncclUint8, static_cast<int>(block.position), self.comm, stream));
    }
  });
}

void NcclGroup::wait(cuda::Stream stream) {
  State& self = *state_;
  self.require_usable("wait");
  self.wait("work on the GPU", [&]() -> AsyncState {
    AsyncState state = self.family_state();
    if (!state.error.empty() || !state.done) return state;
    const cudaError_t error = cudaStreamQuery(stream);
    if (error == cudaErrorNotReady) return {};
    if (error == cudaSuccess) return {.done = true, .error = {}};
    return {.done = true,
            .error = concat("CUDA error ", static_cast<int>(error), " (", cudaGetErrorString(error), ")")};
  });
}

AsyncState NcclGroup::state() const { return state_->family_state(); }

void NcclGroup::abort() { state_->abort_family(); }

void NcclGroup::close() {
  State& self = *state_;
  self.require_usable("close");
  self.settle(ncclCommFinalize(self.comm), "the end of NCCL's work");
  ncclCommDestroy(std::exchange(self.comm, nullptr));
}

}  // namespace slimpack::kernels
