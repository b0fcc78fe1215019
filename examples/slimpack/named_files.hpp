#pragma once

#include <boost/program_options.hpp>

namespace slimpack::command {

/// Checks that no file that a command writes is another one that it reads or writes: not by another spelling, a link, a hard
/// link, or as standard input or output. Only files can be overwritten, so devices, pipes and terminals may be the same.
/// @param values of any command's options; the options that name files are known here.
/// @throws InvalidInput naming both options.
void require_different_files(const boost::program_options::variables_map& values);

}  // namespace slimpack::command
