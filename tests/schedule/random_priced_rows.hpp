#pragma once

#include "random_rows.hpp"
#include "slimpack/cost/attention_tables.hpp"
#include "slimpack/cost/calibrated.hpp"
#include "tests/cost/random_jobs.hpp"

namespace oracle {

/// Random rows, a job with their stages, and a kernel that may be faster or slower than the device is said to be.
struct RandomPricedRows {
  RandomRows rows;
  Job job;
  CalibratedOptions options;
  AttentionKernel kernel;

  [[nodiscard]] CalibratedCost cost() const { return CalibratedCost(job, options); }
};

inline RandomPricedRows random_priced_rows(unsigned seed) {
  std::mt19937 generator(seed);
  RandomRows rows(generator);
  for (Tokens& length : rows.lengths) length *= 50;
  for (PackRows* const pass : {&rows.forward, &rows.backward}) {
    Packs longer;
    for (std::size_t k = 0; k < pass->packs.size(); ++k) {
      for (const Slice& slice : pass->packs[k]) longer.add({slice.sample, 50 * slice.begin, 50 * slice.end});
      longer.close();
    }
    pass->packs = std::move(longer);
  }
  testing::Random random(seed);
  Job job{.model = {"tiny", static_cast<std::int32_t>(2 * rows.stages), 64, 24, 24, 16, 160, 500},
          .device = testing::random_device(random),
          .layout = {.dp = static_cast<std::int32_t>(rows.pipelines),
                     .cp = static_cast<std::int32_t>(random.tokens(1, 2)),
                     .pp = static_cast<std::int32_t>(rows.stages)}};
  AttentionTable table = assumed_attention_table(job.device);
  for (AttentionRates* const rates : {&table.forward, &table.backward}) {
    const double factor = random.number(0.5, 3.0);
    for (double& rate : rates->flops_per_second) rate *= factor;
  }
  const auto exchanges = random.one_of<ExchangeSet>({{KeyExchange::ring},
                                                     {KeyExchange::all_gather},
                                                     {KeyExchange::ring, KeyExchange::all_to_all},
                                                     {KeyExchange::all_to_all, KeyExchange::all_gather}});
  return {std::move(rows), job, {.exchanges = exchanges}, AttentionKernel(table, job.model)};
}

}  // namespace oracle
