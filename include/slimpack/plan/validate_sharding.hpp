#pragma once

#include <algorithm>
#include <string>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/graph.hpp"
#include "slimpack/plan/plan.hpp"
#include "slimpack/plan/violations.hpp"

namespace slimpack::detail {

/// A sample that several ranks share has its keys and values where all its packs expect them: they exchange them in the same
/// way, and if the passes cut the sample differently, it is dealt to ranks by position, in chunks of the same size.
class ShardingCheck {
 public:
  ShardingCheck(const Plan& plan, const SampleSlices& forward, const SampleSlices& backward,
                Violations& found)
      : plan_(plan), forward_(forward), backward_(backward), found_(found) {}

  void run() {
    const Tokens blocks[] = {plan_.forward.block, plan_.backward.block};
    found_.expect(blocks[0] == 0 || blocks[1] == 0 || blocks[0] == blocks[1], "forward packs have block ",
                  blocks[0], " and backward packs ", blocks[1],
                  "; expected the same, for a token is on one rank in both passes");
    for (SampleId id = 0; id < plan_.tokens.size(); ++id) {
      if (forward_[id].empty() || !shared(forward_[id].front().pack)) continue;
      check_exchange(id);
      if (cut_differently(id)) check(id);
    }
  }

 private:
  [[nodiscard]] bool shared(PackId forward) const {
    const auto members = plan_.forward.pipelines[forward];
    return members.size() > 1 || plan_.pipelines[members.front()].cp > 1;
  }

  [[nodiscard]] bool cut_differently(SampleId id) const {
    const auto same = [](const auto& a, const auto& b) { return a.begin == b.begin && a.end == b.end; };
    const auto f = forward_[id], b = backward_[id];
    return !std::equal(f.begin(), f.end(), b.begin(), b.end(), same);
  }

  void check_exchange(SampleId id) {
    KeyExchange expected = KeyExchange::none;
    std::string first;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const auto& piece : (pass == Pass::forward ? forward_ : backward_)[id]) {
        const KeyExchange exchange = plan_.of(pass).exchange_of(piece.pack);
        if (exchange == expected || exchange == KeyExchange::none) continue;
        if (expected == KeyExchange::none) {
          expected = exchange;
          first = concat(pass_name(pass), "[", piece.pack, "]");
          continue;
        }
        found_.expect(false, pass_name(pass), "[", piece.pack, "].exchange is ", exchange_name(exchange),
                      "; expected ", exchange_name(expected), " as in ", first, ", for the keys of sample ",
                      id, " stay where they are");
        return;
      }
    }
  }

  void check(SampleId id) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const auto& piece : (pass == Pass::forward ? forward_ : backward_)[id]) {
        const Sharding kind = plan_.of(pass).sharding[piece.pack];
        if (kind == Sharding::by_position) continue;
        found_.expect(false, pass_name(pass), "[", piece.pack, "].sharding is ", sharding_name(kind),
                      "; expected by_position, for several ranks share sample ", id,
                      " and the passes cut it differently");
        return;
      }
    }
  }

  const Plan& plan_;
  const SampleSlices& forward_;
  const SampleSlices& backward_;
  Violations& found_;
};

}  // namespace slimpack::detail
