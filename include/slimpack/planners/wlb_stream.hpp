#pragma once

#include <cstddef>
#include <utility>

#include "slimpack/core/error.hpp"
#include "slimpack/planners/micro_batch_size.hpp"
#include "slimpack/planners/wlb_options.hpp"

namespace slimpack {

/// Options of `wlb`'s stream, with what is left to the planner. @param memory of a pipeline, which limits `max_tokens` where that
/// is 0. @throws InvalidInput naming the first option that makes no sense. Complexity: that of `largest_micro_batch`.
[[nodiscard]] inline OutlierDelayOptions resolved_stream_options(WlbOptions options, const Layout& layout,
                                                                 const Memory& memory) {
  OutlierDelayOptions& stream = options.stream;
  require(options.context >= 0, "context is ", options.context, "; expected zero or a positive number");
  require(options.headroom >= 1.0, "headroom is ", options.headroom, "; expected at least 1 context");
  if (stream.micro_batches == 0)
    stream.micro_batches = static_cast<std::size_t>(layout.pp) * static_cast<std::size_t>(layout.dp);
  if (stream.max_tokens == 0)
    stream.max_tokens = largest_micro_batch(memory, options.context, options.headroom);
  return std::move(stream);
}

}  // namespace slimpack
