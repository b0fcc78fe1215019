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

namespace detail {

/// A pack's task, between neighbouring stages.
struct HandOver {
  std::size_t index = 0;  ///< in the order of the stage that receives the rows in question
  Tokens tokens = 0;
};

/// @param program of one of the stages. @param other tasks of the other one, in its order.
/// @param program_receives or else the other one.
[[nodiscard]] inline std::map<std::pair<Pass, PackId>, HandOver> hand_overs(const StageProgram& program,
                                                                            std::span<const Task> other,
                                                                            bool program_receives) {
  std::map<std::pair<Pass, PackId>, HandOver> result;
  for (std::size_t i = 0; i < program.tasks().size(); ++i) {
    const StageTask& task = program.tasks()[i];
    result[{task.pass, task.pack}] = {i, task.rows};
  }
  for (std::size_t i = 0; i < other.size(); ++i) {
    if (other[i].pass == Pass::weight) continue;
    const auto found = result.find({other[i].pass, other[i].pack});
    require(found != result.end(), "a neighbour of stage ", program.stage(), " has ", to_string(other[i]),
            "; expected tasks of packs that both have");
    if (!program_receives) found->second.index = i;
  }
  return result;
}

/// @param senders tasks of the stage that sends, in its order. @param rows of these tasks.
template <class Tasks>
[[nodiscard]] Arrivals lay_out_places(const Tasks& senders,
                                      const std::map<std::pair<Pass, PackId>, HandOver>& rows, Pass pass) {
  Arrivals result;
  std::vector<std::size_t>
      free_behind;       // by place: tasks of the receiver that have been done once it is free
  std::size_t done = 0;  // tasks of the receiver that are done before what the sender does now
  for (const auto& task : senders) {
    if (task.pass == Pass::weight) continue;
    const auto [index, tokens] = rows.at({task.pass, task.pack});
    if (tokens == 0) continue;
    if (task.pass != pass) {
      done = std::max(done, index + 1);
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
    result.all.push_back({task.pack, tokens, best, index, free_behind[best]});
    result.places[best] = std::max(result.places[best], tokens);
    free_behind[best] = index + 1;
  }
  return result;
}

}  // namespace detail

/// Lays down where rows that come from a neighbour are put, so that no receive waits for anything that the
/// rows' sending does not wait for anyway: a place is used again only for rows whose sender, before it makes
/// them, has had something from this stage that was made after the place's last reader. So sends are
/// complete once their rows are made and the receiver has come by, as the loop demands (exec/loop.hpp),
/// though a way keeps its order. In 1F1B the places are as many as packs in flight on the sender.
/// @param program of the stage that receives. @param sender tasks of the neighbour, in its order. @param pass
/// of the rows.
/// @throws InvalidInput if the sender has a pack that the stage has not.
/// Complexity: O(tasks log(tasks) + arrivals x places).
[[nodiscard]] inline Arrivals arrivals_of(const StageProgram& program, std::span<const Task> sender,
                                          Pass pass) {
  return detail::lay_out_places(sender, detail::hand_overs(program, sender, true), pass);
}

/// The same for the sender: where it keeps rows until they have gone. A place is used again only for rows of
/// tasks that, by the plan, come after something that the receiver has made after the place's last rows: so
/// these have gone, and the sender waits for nothing that it has not waited for already.
/// @param program of the stage that sends. @param receiver tasks of the neighbour, in its order. @param pass of
/// the rows.
/// @throws InvalidInput if the receiver has a pack that the stage has not. Complexity: as `arrivals_of`.
[[nodiscard]] inline Arrivals departures_of(const StageProgram& program, std::span<const Task> receiver,
                                            Pass pass) {
  return detail::lay_out_places(program.tasks(), detail::hand_overs(program, receiver, false), pass);
}

}  // namespace slimpack::kernels
