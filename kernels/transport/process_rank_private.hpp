#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <string>

#include "kernels/transport/collectives.hpp"
#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

/// The last words between ranks whose run went well: until all have said them, none may go.
/// @param unfinished transfers of this rank, which end the run instead.
template <Transport T>
void meet_at_end(T& transport, std::size_t unfinished) {
  transport.check();
  if (unfinished > 0)
    transport.abort(concat("its run ends with ", unfinished, " transfers that were not waited for"));
  transport.set_task("the end of the run");
  Group(transport).barrier();
}

/// Runs a function as the rank that this process is; if it throws, says so on standard error and ends the run of all.
/// @tparam T a transport that can `fail` and `close`. @param finish called once it is closed and gone.
/// @param arguments of its constructor. @returns the exit status: 0, or 2 if the run has failed.
template <Transport T, class Finish, class... Arguments>
int run_process(std::size_t rank, const std::function<void(T&)>& body, Finish&& finish,
                const Arguments&... arguments) {
  std::optional<T> transport;
  const auto failed = [&](const std::string& what) {
    std::cerr << concat("rank ", rank, ": ", what, "\n") << std::flush;
    if (transport) transport->fail(what);
    return 2;
  };
  try {
    transport.emplace(arguments...);
    body(*transport);
    transport->close();
    transport.reset();
    finish();
    return 0;
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("an exception of unknown type");
  }
}

}  // namespace slimpack::kernels
