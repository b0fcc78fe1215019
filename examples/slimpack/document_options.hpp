#pragma once

#include <boost/program_options.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slimpack/core/ids.hpp"
#include "slimpack/cost/pack_attention.hpp"
#include "slimpack/stream/outlier_queues.hpp"

namespace slimpack::command {

/// Options of the planners of documents on 4D layouts: wlb, fixed-4d and plain-4d.
struct DocumentOptions {
  std::size_t micro_batches = 0;              ///< of an iteration; 0: from the batches
  Tokens max_tokens = 0;                      ///< of wlb's micro-batches; 0: from memory
  std::optional<std::vector<Tokens>> queues;  ///< thresholds; else tuned from the lengths
  std::int64_t max_delay = 32;
  OutlierRelease release = OutlierRelease::full_queue;
  std::size_t window = 1;                  ///< of fixed-4d
  std::optional<ShardingPolicy> sharding;  ///< of all three; else each planner's own
  bool given_order = false;                ///< wlb's micro-batches run as they are packed
  bool drain = false;                      ///< iterations of what waits at the end
};

/// Reads them. @throws InvalidInput if one of them makes no sense.
DocumentOptions document_options(const boost::program_options::variables_map& values);

}  // namespace slimpack::command
