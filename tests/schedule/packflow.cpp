#include "slimpack/schedule/packflow.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>

using namespace slimpack;

namespace {

std::string text(const LeadTable& leads, std::size_t s) {
  std::string line;
  for_each_task(leads, s, [&](Task task) { line += (line.empty() ? "" : " ") + to_string(task); });
  return line;
}

LeadTable packflow(std::vector<std::uint32_t> required, std::size_t forward_packs, std::size_t stages) {
  LeadTable leads;
  packflow_leads(required, forward_packs, stages, leads);
  return leads;
}

/// A random pipeline: `required` rises to the number of forward packs, flows hold whole tokens.
struct PackFlowPipeline {
  std::vector<std::uint32_t> required;
  TokenFlow flow;
  std::size_t stages = 1;
};

PackFlowPipeline random_pipeline(std::mt19937& random) {
  const auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  PackFlowPipeline p;
  p.stages = static_cast<std::size_t>(pick(1, 5));
  const int forward = pick(1, 9), backward = pick(1, 9);
  for (int k = 0; k < backward; ++k) p.required.push_back(static_cast<std::uint32_t>(pick(1, forward)));
  std::sort(p.required.begin(), p.required.end());
  p.required.back() = static_cast<std::uint32_t>(forward);
  p.flow.clear();
  for (int k = 0; k < forward; ++k) p.flow.forward.push_back(p.flow.forward.back() + pick(0, 50));
  // A backward pack frees at most what has come in before it, and the last one frees everything.
  for (std::size_t k = 0; k < p.required.size(); ++k) {
    const double in = p.flow.forward[p.required[k]], out = p.flow.backward.back();
    const bool last = k + 1 == p.required.size();
    const double freed = last ? in : out + std::floor((in - out) * pick(0, 4) / 4.0);
    p.flow.backward.push_back(freed);
    p.flow.started.push_back(last ? in : std::max(freed, p.flow.started.back()));
  }
  return p;
}

/// A stage's memory: a share between `least` and `most` of bytes for all tokens, which take two each as activations.
StageMemory random_memory(const PackFlowPipeline& p, double least, double most, std::mt19937& random) {
  const double share = std::uniform_real_distribution<double>(least, most)(random);
  return {.available = p.flow.forward.back() * share, .activation = 2.0, .kv_gradient = 0.5};
}

/// Peak of a stage by running its tasks one by one.
double replayed_peak(const PackFlowPipeline& p, const LeadTable& leads, std::size_t s,
                     const StageMemory& memory) {
  double live = 0.0, gradients = 0.0, peak = 0.0;
  for_each_task(leads, s, [&](Task task) {
    const std::size_t k = task.pack;
    if (task.pass == Pass::forward) {
      live += p.flow.forward[k + 1] - p.flow.forward[k];
    } else {
      gradients += p.flow.started[k + 1] - p.flow.started[k];
    }
    peak = std::max(peak, memory.activation * live + memory.kv_gradient * gradients);
    if (task.pass == Pass::backward) {
      live -= p.flow.backward[k + 1] - p.flow.backward[k];
      gradients -= p.flow.backward[k + 1] - p.flow.backward[k];
    }
  });
  return peak;
}

}  // namespace

TEST_CASE("packs of whole samples run in 1F1B order") {
  const LeadTable leads = packflow({1, 2, 3, 4}, 4, 3);
  CHECK(text(leads, 0) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(text(leads, 1) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(text(leads, 2) == "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST_CASE("a sliced sample runs backward as soon as its last slice is done, while the next one comes in") {
  // Two samples of three slices each: samples first in, first out; slices first in, last out.
  const LeadTable leads = packflow({3, 3, 3, 6, 6, 6}, 6, 2);
  CHECK(text(leads, 1) == "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  CHECK(text(leads, 0) == "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
}

TEST_CASE(
    "extra forward packs are injected where the next backward pack is not ready, early enough, and stay "
    "ahead") {
  const LeadTable leads = packflow({1, 4, 4, 5}, 5, 2);
  CHECK(text(leads, 1) == "F0 B0 F1 F2 F3 B1 F4 B2 B3");
  CHECK(text(leads, 0) == "F0 F1 F2 F3 B0 F4 B1 B2 B3");
}

TEST_CASE("a backward pack waits for the forward packs of all its samples and of those before it") {
  Packs backward;
  backward.add({2, 0, 8});
  backward.close();
  backward.add({0, 4, 8});
  backward.add({1, 0, 4});
  backward.close();
  backward.close();  // empty
  backward.add({0, 0, 4});
  backward.close();
  const std::vector<std::uint32_t> ended{2, 1, 0};  // by sample
  std::vector<std::uint32_t> required;
  required_forward(backward, ended, required);
  CHECK(required == std::vector<std::uint32_t>{1, 3, 3, 3});
}

TEST_CASE("every stage of a PackFlow order runs every pack once, and no stage leads a stage before it") {
  std::mt19937 random(11);
  for (int instance = 0; instance < 500; ++instance) {
    INFO("instance " << instance);
    const PackFlowPipeline p = random_pipeline(random);
    const std::size_t forward_packs = p.required.back();
    const LeadTable leads = packflow(p.required, forward_packs, p.stages);
    REQUIRE(leads.backward_packs() == p.required.size());
    for (std::size_t s = 0; s < p.stages; ++s) {
      std::size_t forward = 0, backward = 0;
      for_each_task(leads, s, [&](Task task) {
        CHECK(task.pack == (task.pass == Pass::forward ? forward : backward)++);
      });
      CHECK(forward == forward_packs);
      CHECK(backward == p.required.size());
      for (std::size_t k = 0; k < p.required.size(); ++k) {
        CHECK(leads(k, s) >= p.required[k]);
        CHECK((k == 0 || leads(k, s) >= leads(k - 1, s)));
        CHECK((s == 0 || leads(k, s) <= leads(k, s - 1)));
        CHECK((k == 0 || s == 0 || leads(k, s) == leads(k - 1, s - 1)));
      }
    }
  }
}

TEST_CASE("what fits beside each backward pack is the most that memory holds") {
  std::mt19937 random(13);
  int nothing = 0, all = 0;
  for (int instance = 0; instance < 500; ++instance) {
    INFO("instance " << instance);
    const PackFlowPipeline p = random_pipeline(random);
    const StageMemory memory = random_memory(p, -0.2, 2.2, random);
    std::vector<std::int32_t> fitting;
    fitting_leads(p.flow, memory, fitting);
    REQUIRE(fitting.size() == p.required.size());
    for (std::size_t k = 0; k < fitting.size(); ++k) {
      auto most = static_cast<std::int32_t>(p.required.back());
      const auto bytes = [&] {
        return memory.activation * p.flow.live(static_cast<std::size_t>(most), k) +
               memory.kv_gradient * p.flow.kv_gradients(k);
      };
      while (most >= 0 && bytes() > memory.available) --most;
      CHECK(fitting[k] == most);
      nothing += most < 0 ? 1 : 0;
      all += most == static_cast<std::int32_t>(p.required.back()) ? 1 : 0;
    }
  }
  CHECK(nothing > 50);
  CHECK(all > 50);
}

TEST_CASE("leads under a memory limit are the largest that fit and keep stages ahead of those behind") {
  std::mt19937 random(12);
  int limited = 0, hopeless = 0;
  for (int instance = 0; instance < 2000; ++instance) {
    INFO("instance " << instance);
    const PackFlowPipeline p = random_pipeline(random);
    const LeadTable full = packflow(p.required, p.required.back(), p.stages);
    const StageMemory memory = random_memory(p, 0.3, 2.6, random);
    std::vector<std::int32_t> fitting;
    fitting_leads(p.flow, memory, fitting);
    LeadTable leads = full;
    for (std::size_t s = 0; s < p.stages; ++s) {
      const bool fits = limit_leads(fitting, p.required.back(), p.required, s, leads);
      CHECK(fits == (replayed_peak(p, leads, s, memory) <= memory.available));
      if (!fits) {
        // Then no lead fits: not even the shortest that the backward packs allow.
        LeadTable least = full;
        for (std::size_t k = 0; k < p.required.size(); ++k) least(k, s) = p.required[k];
        CHECK(replayed_peak(p, least, s, memory) > memory.available);
        ++hopeless;
        break;
      }
      std::uint32_t most = p.required.back();
      for (std::size_t k = p.required.size(); k-- > 0;) {
        std::uint32_t n = std::min(most, full(k, s));
        if (s > 0) {
          // The stage before stays ahead, unless it has run all its forward packs, one backward pack ago.
          const std::uint32_t all = p.required.back(), before = leads(k, s - 1);
          const bool done = before == all && (k == 0 || leads(k - 1, s - 1) == all);
          n = std::max(p.required[k], std::min(n, done ? all : before - 1));
        }
        const auto bytes = [&] {
          return memory.activation * p.flow.live(n, k) + memory.kv_gradient * p.flow.kv_gradients(k);
        };
        while (bytes() > memory.available) --n;
        CHECK(leads(k, s) == n);
        most = n;
      }
      CHECK(memory.activation * peak_live(p.flow, leads, s) +
                memory.kv_gradient * peak_kv_gradients(p.flow) >=
            replayed_peak(p, leads, s, memory));
      limited += text(leads, s) != text(full, s) ? 1 : 0;
    }
  }
  CHECK(limited > 300);
  CHECK(hopeless > 300);
}
