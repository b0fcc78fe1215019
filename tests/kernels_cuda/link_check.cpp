#include "examples/nccl_check/link_check.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/nccl_check/host_links.hpp"
#include "kernels/transport/in_process.hpp"

// The program that checks NCCL between GPUs, on a machine that has none: what it does, in hosts' memory; and that it finds
// operations which do something else.
using namespace slimpack;
using namespace slimpack::kernels;
using namespace std::chrono_literals;
using slimpack::check::Fault, slimpack::check::HostGroup, slimpack::check::HostLinks,
    slimpack::check::HostMachine;

namespace {

using Host = InProcessTransport;

/// What a run of ranks ends with.
template <class Body>
std::string error_of(std::size_t ranks, const Body& body, const InProcessOptions& options = {}) {
  try {
    run_in_process(ranks, body, options);
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

/// Uneven shares are reduced as if they were even.
struct EvenSums : HostGroup<Host> {
  using HostGroup<Host>::HostGroup;

  template <class V>
  void reduce_scatter(std::span<V> values, int stream) {
    const std::size_t shares = values.size() / size() * size();
    HostGroup<Host>::reduce_scatter(values.first(shares), stream);
  }
  [[nodiscard]] std::optional<EvenSums> split(std::optional<int>) { return std::nullopt; }
};

/// The first block of an exchange alone is sent, and received.
struct FirstBlocks : HostLinks<Host> {
  using HostLinks<Host>::HostLinks;

  void exchange(std::span<const DeviceBlock> sends, std::span<const DeviceBlock> receives, int stream) {
    HostLinks<Host>::exchange(sends.first(1), receives.first(1), stream);
  }
};

/// Of long rows that come from the stage before, one number is lost.
struct LateRows : HostLinks<Host> {
  using HostLinks<Host>::HostLinks;

  void receive(Way way, std::span<cuda::Bf16> rows, int stream) {
    HostLinks<Host>::receive(way, rows, stream);
    if (way == Way::from_before && rows.size() > 1000) lost = rows;
  }
  [[nodiscard]] AsyncState state() {
    const AsyncState state = HostLinks<Host>::state();
    if (state.done && !lost.empty()) lost[999] = cuda::to_bf16(-1.0F);
    return state;
  }

  std::span<cuda::Bf16> lost;
};

}  // namespace

TEST_CASE("the check of links passes over a host's transport, whatever the number of ranks", "[threads]") {
  for (const std::size_t ranks : {1U, 2U, 3U, 4U}) {
    INFO(ranks << " ranks");
    CHECK(error_of(ranks, [](Host& host) {
            HostMachine machine;
            HostGroup<Host> group(host);
            check::check_group(machine, group, host);
            check::for_each_table(host.size(), [&](const PlanRanks& table) {
              HostLinks<Host> links(host, table.place_of(host.rank()));
              check::check_links(machine, links, host, table, {});
            });
          }).empty());
  }
}

TEST_CASE("the check of links finds what gives other numbers", "[threads]") {
  CHECK_THAT(error_of(2,
                      [](Host& host) {
                        HostMachine machine;
                        EvenSums group(host);
                        check::check_group(machine, group, host);
                      }),
             Catch::StartsWith("reduce_scatter of float of ") && Catch::Contains("expected "));
  const auto by = [](auto links_of) {
    return [links_of](Host& host) {
      HostMachine machine;
      const PlanRanks table = check::table_of(host.size(), 2, check::Numbering::by_stage);
      auto links = links_of(host, table.place_of(host.rank()));
      check::check_links(machine, links, host, table, {});
    };
  };
  CHECK_THAT(error_of(4, by([](Host& host, const RankPlace& place) { return FirstBlocks(host, place); })),
             Catch::StartsWith("an exchange between replicas"));
  CHECK_THAT(
      error_of(2, by([](Host& host, const RankPlace& place) { return LateRows(host, place); })),
      Catch::StartsWith("a receive from the stage before of 40000 numbers gives -1 at 999; expected "));
}

TEST_CASE("the check of links finds ranks that stand elsewhere", "[threads]") {
  const auto error_with = [](std::size_t ranks, auto&& move) {
    InProcessOptions options;
    options.timeout = 2s;
    options.grace = 200ms;
    return error_of(
        ranks,
        [&](Host& host) {
          HostMachine machine;
          const PlanRanks table = check::table_of(host.size(), 2, check::Numbering::by_stage);
          RankPlace place = table.place_of(host.rank());
          move(place);
          HostLinks<Host> links(host, place);
          check::check_links(machine, links, host, table, {});
        },
        options);
  };
  // The stages have changed places: both look for a stage that there is not.
  CHECK_THAT(error_with(2, [](RankPlace& place) { place.stage ^= std::size_t{1}; }),
             Catch::Matches("stage (0 of 2 has no stage before|1 of 2 has no stage after) it"));
  // Last stages have changed pipelines: all ranks have the neighbours they look for, but other ones.
  CHECK_THAT(error_with(4,
                        [](RankPlace& place) {
                          if (place.stage == 1) place.pipeline ^= PipelineId{1};
                        }),
             Catch::StartsWith("a receive from the "));
}

TEST_CASE("when a rank dies or stalls in the check of links, all others end", "[threads]") {
  for (const bool stalls : {false, true}) {
    for (const std::size_t rank : {0U, 2U}) {
      INFO("rank " << rank << (stalls ? " stalls" : " dies"));
      InProcessOptions options;
      options.timeout = 500ms;
      options.grace = 3s;
      std::mutex mutex;
      std::vector<std::string> said(3);
      static_cast<void>(error_of(
          3,
          [&](Host& host) {
            HostMachine machine;
            HostGroup<Host> group(host);
            try {
              check::check_fault(machine, group, host, Fault{.rank = rank, .stalls = stalls}, options,
                                 [] { throw std::runtime_error("killed"); });
            } catch (const std::exception& error) {
              const std::scoped_lock lock(mutex);
              said[host.rank()] = error.what();
              throw;
            }
          },
          options));
      const std::string why =
          concat("rank ", rank, " (round 2) ", stalls ? "does not answer" : "failed: killed");
      for (std::size_t r = 0; r < 3; ++r) {
        INFO("rank " << r);
        if (r == rank && !stalls) continue;
        CHECK_THAT(said[r], Catch::StartsWith(why));
      }
    }
  }
  auto alone = InProcessTransport::create(1);
  HostMachine machine;
  HostGroup<Host> group(alone[0]);
  CHECK_THROWS_AS(check::check_fault(machine, group, alone[0], {}, {}, [] {}), InvalidInput);
}
