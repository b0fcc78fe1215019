#include "kernels/transport/nccl_links.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace slimpack::kernels {

namespace {

constexpr const char* loading = "CUDA_MODULE_LOADING";
constexpr const char* connections = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr int least_connections = 16;  // queues of a stage, and NCCL's own

std::string_view value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string_view() : value;
}

}  // namespace

void prepare_for_links() {
  setenv(loading, "EAGER", 0);
  setenv(connections, "32", 0);
}

void require_prepared_for_links() {
  require(value_of(loading) == "EAGER", loading, " is '", value_of(loading),
          "'; expected EAGER with links between GPUs: kernels that are loaded when they are first used may "
          "wait for "
          "receives");
  int number = 0;
  const std::string_view text = value_of(connections);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc{} && end == text.data() + text.size() && number >= least_connections,
          connections, " is '", text, "'; expected at least ", least_connections,
          " with links between GPUs: tasks may be queued after receives");
}

NcclLinks::NcclLinks(NcclGroup all, const RankPlace& place, bool merged)
    : all_(std::move(all)),
      pipeline_(*all_.split(static_cast<int>(place.pipeline), {.order = static_cast<int>(place.stage)})),
      replicas_(*all_.split(static_cast<int>(place.stage), {.order = static_cast<int>(place.pipeline)})),
      stages_(link_stages(pipeline_)) {
  if (merged && replicas_.size() > 1) members_.emplace(link_members(replicas_));
}

void NcclLinks::exchange(std::span<const DeviceBlock> sends, std::span<const DeviceBlock> receives,
                         cuda::Stream stream) {
  require(members_.has_value(), "members of a merged pack exchange ", sends.size(),
          " blocks; expected links that were made with `merged`, of more than one replica");
  members_->exchange(sends, receives, stream);
}

}  // namespace slimpack::kernels
