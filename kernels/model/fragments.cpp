#include "kernels/model/fragments.hpp"

#include <algorithm>
#include <tuple>

namespace slimpack::kernels {

namespace {

/// Owned ranges of a pass, by sample and token.
std::vector<FragmentRange> ranges_of(const StageProgram& program, Pass pass) {
  std::vector<FragmentRange> out;
  for (const StageTask& task : program.tasks()) {
    if (task.pass != pass) continue;
    for (const Slice& slice : task.owned) {
      if (slice.size() > 0)
        out.push_back({slice, static_cast<std::size_t>(task.recompute_layers),
                       static_cast<std::size_t>(task.offload_layers)});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const FragmentRange& a, const FragmentRange& b) { return before(a.tokens, b.tokens); });
  return out;
}

}  // namespace

std::vector<FragmentRange> fragments_of(const StageProgram& program) {
  std::vector<FragmentRange> out;
  const auto forward = ranges_of(program, Pass::forward), backward = ranges_of(program, Pass::backward);
  auto b = backward.begin();
  for (const FragmentRange& f : forward) {
    while (b != backward.end() &&
           std::tuple(b->tokens.sample, b->tokens.end) <= std::tuple(f.tokens.sample, f.tokens.begin)) {
      ++b;
    }
    // The last backward range may reach into the next forward range.
    for (auto piece = b; piece != backward.end() && piece->tokens.sample == f.tokens.sample &&
                         piece->tokens.begin < f.tokens.end;
         ++piece) {
      out.push_back({{f.tokens.sample, std::max(f.tokens.begin, piece->tokens.begin),
                      std::min(f.tokens.end, piece->tokens.end)},
                     piece->recompute_layers,
                     piece->offload_layers});
    }
  }
  return out;
}

}  // namespace slimpack::kernels
