#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Rows of a pack that come from a neighbour.
struct Arrival {
  PackId pack = 0;
  Tokens tokens = 0;
  std::size_t place = 0;   ///< where they are put
  std::size_t reader = 0;  ///< place in the stage's order of the task that reads them
  std::size_t after = 0;   ///< tasks of the stage that the device is given before the receive
};

/// What comes to a stage by one way in a step, in the order in which it is sent, and the memory that it
/// takes.
struct Arrivals {
  std::vector<Arrival> all;
  std::vector<Tokens> places;  ///< tokens that each place has room for
};

/// Lays down where rows that come from a neighbour are put, so that no receive waits for anything that the
/// rows' sending does not wait for anyway: a place is used again only for rows whose sender, before it makes
/// them, has had something from this stage that was made behind the place's last reader. So sends are
/// complete once their rows are made and the receiver has come by, as the loop demands (exec/loop.hpp),
/// though a way keeps its order. In 1F1B the places are as many as packs in flight on the sender.
/// @param program of the stage that receives. @param sender tasks of the neighbour, in its order. @param pass
/// of the rows.
/// @throws InvalidInput if the sender has a pack that the stage has not.
/// Complexity: O(tasks log(tasks) + arrivals x places).
[[nodiscard]] inline Arrivals arrivals_of(const StageProgram& program, std::span<const Task> sender,
                                          Pass pass) {
  std::map<std::pair<Pass, PackId>, std::size_t> own;
  for (std::size_t i = 0; i < program.tasks().size(); ++i)
    own[{program.tasks()[i].pass, program.tasks()[i].pack}] = i;
  Arrivals result;
  std::vector<std::size_t> free_behind;  // by place: tasks of this stage that have been done once it is free
  std::size_t done = 0;                  // tasks of this stage that are done before what the sender does now
  for (const Task& task : sender) {
    if (task.pass == Pass::weight) continue;
    const auto found = own.find({task.pass, task.pack});
    require(found != own.end(), "a neighbour of stage ", program.stage(), " has ", to_string(task),
            "; expected tasks of packs that both have");
    const Tokens tokens = program.tasks()[found->second].owned_tokens;
    if (tokens == 0) continue;
    if (task.pass != pass) {
      done = std::max(done, found->second + 1);
      continue;
    }
    // The smallest that is large enough, or else the largest.
    std::size_t best = result.places.size();
    for (std::size_t place = 0; place < result.places.size(); ++place) {
      if (free_behind[place] > done) continue;
      const Tokens room = result.places[place];
      const bool better = best == result.places.size() ||
                          (result.places[best] < tokens ? room > result.places[best]
                                                        : room >= tokens && room < result.places[best]);
      if (better) best = place;
    }
    if (best == result.places.size()) {
      result.places.push_back(0);
      free_behind.push_back(0);
    }
    result.all.push_back({task.pack, tokens, best, found->second, free_behind[best]});
    result.places[best] = std::max(result.places[best], tokens);
    free_behind[best] = found->second + 1;
  }
  return result;
}

}  // namespace slimpack::kernels
