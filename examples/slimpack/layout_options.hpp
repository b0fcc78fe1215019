#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <optional>

#include "slimpack/model/parallel.hpp"
#include "slimpack/strategy/layouts.hpp"

namespace slimpack::command {

/// Options of commands that choose layouts. `--dp`, `--tp`, `--cp` and `--pp` are the job's.
void add_layout_options(boost::program_options::options_description& options);

/// The sizes of a layout that were given, and `none` for the others.
Layout layout_from(const boost::program_options::variables_map& values, std::int32_t none);

/// The layouts to choose from; none if the layout is given. @param of_profile whether the machine was measured: then its
/// stages are of one rank.
std::optional<LayoutSpace> space_from(const boost::program_options::variables_map& values, bool of_profile);

}  // namespace slimpack::command
