#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "slimpack/schedule/leads.hpp"
#include "slimpack/schedule/schedule_options.hpp"

namespace slimpack {

/// The leads of an order, whatever memory holds.
/// @param unit_ends of units that run one after another (`unit_leads`); empty: all rows are one unit.
/// @param required from `required_rows`. O(backward rows * stages).
inline void order_leads(PassOrder order, std::span<const std::uint32_t> unit_ends,
                        std::span<const std::uint32_t> required, std::size_t forward_rows, std::size_t stages,
                        LeadTable& leads) {
  const auto make = [&](std::span<const std::uint32_t> own, std::size_t rows, std::size_t own_stages,
                        LeadTable& out) {
    if (order == PassOrder::gpipe) {
      gpipe_leads(rows, own.size(), own_stages, out);
    } else if (order == PassOrder::steady) {
      steady_leads(own, rows, own_stages, out);
    } else {
      packflow_leads(own, rows, own_stages, out, 0, order == PassOrder::eager ? 2 : 1);
    }
  };
  if (unit_ends.empty()) {
    make(required, forward_rows, stages, leads);
  } else {
    unit_leads(required, unit_ends, stages, make, leads);
  }
}

}  // namespace slimpack
