#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/portable.hpp"
#include "kernels/device_links.hpp"
#include "kernels/transport/collectives.hpp"
#include "kernels/transport/device_wait.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/exec/ranks.hpp"

// Every operation of a group, and of an executor's links, against the same by the host's transport. Machine and group are
// GPUs and NCCL's, or a host's that take their place (host_links.hpp): memory by `numbers`, streams by `stream(i)`.
namespace slimpack::check {

/// What is compared: whole numbers, small enough for their sums over `ranks` to be exact in bf16.
template <class V>
[[nodiscard]] std::vector<V> values_of(std::size_t rank, std::size_t n, std::size_t ranks) {
  const std::size_t below = std::max<std::size_t>(2, 256 / ranks);
  std::vector<V> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto number = static_cast<float>((7 * rank + 3 * i + i / 5 * rank) % below);
    if constexpr (std::is_same_v<V, kernels::cuda::Bf16>) {
      values[i] = kernels::cuda::to_bf16(number);
    } else {
      values[i] = static_cast<V>(number);
    }
  }
  return values;
}

template <class V>
[[nodiscard]] std::vector<double> doubles(std::span<const V> values) {
  std::vector<double> out;
  for (const V value : values) {
    if constexpr (std::is_same_v<V, kernels::cuda::Bf16>) {
      out.push_back(static_cast<double>(kernels::cuda::to_float(value)));
    } else {
      out.push_back(static_cast<double>(value));
    }
  }
  return out;
}
template <class V>
[[nodiscard]] std::vector<double> doubles(const std::vector<V>& values) {
  return doubles(std::span<const V>(values));
}

/// @throws std::runtime_error naming what does not agree, and where.
template <class V>
void expect(std::string_view what, std::span<const V> result, std::span<const double> expected) {
  const std::vector<double> got = doubles(result);
  if (got.size() != expected.size())
    throw std::runtime_error(concat(what, " gives ", got.size(), " numbers; expected ", expected.size()));
  const auto differs = std::mismatch(got.begin(), got.end(), expected.begin());
  if (differs.first == got.end()) return;
  throw std::runtime_error(concat(what, " of ", got.size(), " numbers gives ", *differs.first, " at ",
                                  differs.first - got.begin(), "; expected ", *differs.second,
                                  ", as the host"));
}
template <class V>
void expect(std::string_view what, const std::vector<V>& result, const std::vector<double>& expected) {
  expect(what, std::span<const V>(result), std::span<const double>(expected));
}

/// Numbers of values that ranks share out: none, fewer than ranks, shares that are equal or not, many.
[[nodiscard]] inline std::vector<std::size_t> sizes_for(std::size_t ranks) {
  return {0, 1, ranks - 1, ranks, ranks + 1, 3 * ranks + ranks / 2, 1000 * ranks, 1000 * ranks + 1, 65537};
}

/// all_reduce, reduce_scatter and all_gather among some ranks. @param group their machines'. @param host the same ranks.
template <class V, class Machine, class Collectives, class Stream, class Wait, kernels::Transport T>
void check_collectives(std::string_view type, Machine& machine, Collectives& group, Stream stream,
                       Wait&& wait, kernels::Group<T>& host) {
  for (const std::size_t n : sizes_for(host.size())) {
    const auto own = values_of<V>(host.position(), n, host.size());
    std::vector<double> sum = doubles(own);
    host.all_reduce(std::span<double>(sum));
    auto reduced = machine.numbers(own), scattered = machine.numbers(own);
    group.all_reduce(reduced.span(), stream);
    group.reduce_scatter(scattered.span(), stream);
    wait();
    expect(concat("all_reduce of ", type), reduced.read(), sum);
    const kernels::Part part = host.own_part(n);
    const auto shares = scattered.read();
    expect(concat("reduce_scatter of ", type), std::span<const V>(shares).subspan(part.begin, part.size()),
           std::span<const double>(sum).subspan(part.begin, part.size()));
    group.all_gather(scattered.span(), stream);
    wait();
    expect(concat("all_gather of ", type), scattered.read(), sum);
  }
}

/// Numbers that go from one member to another: other ones for each pair, none for some.
[[nodiscard]] inline std::size_t pair_size(std::size_t from, std::size_t to) {
  return (5 * from + 3 * to + from * to) % 7 * 37;
}

/// all_to_all and ring_shift with blocks of different sizes, and none.
template <class V, class Machine, class Collectives, class Stream, kernels::Transport T>
void check_exchanges(std::string_view type, Machine& machine, Collectives& group, Stream stream,
                     kernels::Group<T>& host) {
  const std::size_t own = host.position(), g = host.size();
  std::vector<std::size_t> begin_out{0}, begin_in{0};
  for (std::size_t i = 0; i < g; ++i) {
    begin_out.push_back(begin_out.back() + pair_size(own, i));
    begin_in.push_back(begin_in.back() + pair_size(i, own));
  }
  const auto values = values_of<V>(own, begin_out.back(), g);
  const std::vector<double> host_out = doubles(values);
  std::vector<double> host_in(begin_in.back());
  auto out = machine.numbers(values), in = machine.numbers(std::vector<V>(begin_in.back()));
  std::vector<std::span<const V>> outs;
  std::vector<std::span<V>> ins;
  std::vector<std::span<const double>> host_outs;
  std::vector<std::span<double>> host_ins;
  for (std::size_t i = 0; i < g; ++i) {
    outs.push_back(out.span().subspan(begin_out[i], pair_size(own, i)));
    ins.push_back(in.span().subspan(begin_in[i], pair_size(i, own)));
    host_outs.push_back(std::span(host_out).subspan(begin_out[i], pair_size(own, i)));
    host_ins.push_back(std::span(host_in).subspan(begin_in[i], pair_size(i, own)));
  }
  group.all_to_all(std::span<const std::span<const V>>(outs), std::span<const std::span<V>>(ins), stream);
  group.wait(stream);
  host.all_to_all(std::span<const std::span<const double>>(host_outs),
                  std::span<const std::span<double>>(host_ins));
  expect(concat("all_to_all of ", type), in.read(), host_in);

  const auto ring_size = [&](std::size_t position) { return position % 3 * 101; };
  const std::size_t before = (own + g - 1) % g;
  const auto shifted = values_of<V>(own, ring_size(own), g);
  const std::vector<double> host_shifted = doubles(shifted);
  std::vector<double> host_ring(ring_size(before));
  auto ring_out = machine.numbers(shifted), ring_in = machine.numbers(std::vector<V>(ring_size(before)));
  group.ring_shift(std::span<const V>(ring_out.span()), ring_in.span(), stream);
  group.wait(stream);
  host.ring_shift(std::span<const double>(host_shifted), std::span<double>(host_ring));
  expect(concat("ring_shift of ", type), ring_in.read(), host_ring);
}

/// All operations of a group of all ranks, and of the two that even and odd ones make.
template <class Machine, class Collectives, kernels::Transport T>
void check_group(Machine& machine, Collectives& all, T& transport) {
  const auto stream = machine.stream(0);
  const auto check = [&](Collectives& group, kernels::Group<T>& host) {
    const auto of_type = [&]<class V>(std::string_view type, V) {
      transport.set_task(concat("operations on ", type));
      check_collectives<V>(
          type, machine, group, stream, [&] { group.wait(stream); }, host);
      check_exchanges<V>(type, machine, group, stream, host);
    };
    of_type("float", float{});
    of_type("double", double{});
    of_type("bf16", kernels::cuda::Bf16{});
  };
  kernels::Group<T> host(transport);
  check(all, host);
  if (transport.size() == 1) return;
  const std::size_t parity = transport.rank() % 2;
  auto half = all.split(static_cast<int>(parity));
  std::vector<std::size_t> ranks;
  for (std::size_t rank = parity; rank < transport.size(); rank += 2) ranks.push_back(rank);
  kernels::Group<T> host_half(transport, ranks);
  if (half->size() != ranks.size() || half->position() != host_half.position())
    throw std::runtime_error("a split gives other positions than expected");
  check(*half, host_half);
  half->close();
}

enum class Numbering : std::uint8_t { by_stage, by_pipeline, backwards };

/// Places in pipelines of so many stages, which ranks number in some way.
inline PlanRanks table_of(std::size_t ranks, std::size_t stages, Numbering numbering) {
  Plan plan;
  for (std::size_t p = 0; p < ranks / stages; ++p) {
    PipelinePlan& pipeline = plan.pipelines.emplace_back();
    pipeline.id = static_cast<PipelineId>(p);
    pipeline.layers.assign(stages, 1);
    if (numbering == Numbering::by_stage) continue;
    for (std::size_t s = 0; s < stages; ++s) {
      const auto device = static_cast<DeviceId>(p * stages + s), last = static_cast<DeviceId>(ranks - 1);
      pipeline.devices.push_back({numbering == Numbering::backwards ? last - device : device});
    }
  }
  return PlanRanks(plan);
}

/// Calls `check(table)` for each way to make so many ranks pipelines of equally many stages.
template <class Check>
void for_each_table(std::size_t ranks, Check&& check) {
  for (std::size_t stages = 1; stages <= ranks; ++stages) {
    if (ranks % stages != 0) continue;
    for (const Numbering numbering : {Numbering::by_stage, Numbering::by_pipeline, Numbering::backwards})
      check(table_of(ranks, stages, numbering));
  }
}

/// An executor's links: rows to and from neighbours, sums and blocks among replicas.
/// @param links of this rank's place among `table`'s.
template <class Machine, class Links, kernels::Transport T>
void check_links(Machine& machine, Links& links, T& transport, const PlanRanks& table,
                 const kernels::TransportOptions& options) {
  using kernels::Way, kernels::cuda::Bf16;
  const std::size_t stages = table.stages(0);
  transport.set_task(concat("links of ", stages, " stages"));
  const std::size_t rank = transport.rank(), ranks = transport.size();
  const auto [pipeline, stage, tensor] = table.place_of(rank);
  const auto wait = [&](std::size_t stream) {
    kernels::wait_for_device(
        kernels::host_side(transport), options, "work of links",
        [&] {
          kernels::AsyncState state = links.state();
          return state.done && state.error.empty() ? machine.state(machine.stream(stream)) : state;
        },
        [&] { links.abort(); });
  };
  const auto stream = [&](Way way) { return machine.stream(static_cast<std::size_t>(way)); };

  // Several rows on a way, in their order; both neighbours send before they receive.
  const std::vector<std::size_t> sizes{257, 1, 40000};
  const bool has_before = stage > 0, has_next = stage + 1 < stages;
  using Rows = decltype(machine.numbers(std::vector<Bf16>()));
  std::vector<Rows> own, received;
  const auto send = [&](Way way) {
    for (const std::size_t n : sizes) {
      own.push_back(machine.numbers(values_of<Bf16>(rank, n, ranks)));
      links.send(way, std::span<const Bf16>(own.back().span()), stream(way));
    }
  };
  const auto receive = [&](Way way) {
    for (const std::size_t n : sizes) {
      received.push_back(machine.numbers(std::vector<Bf16>(n)));
      links.receive(way, received.back().span(), stream(way));
    }
  };
  own.reserve(2 * sizes.size());
  received.reserve(2 * sizes.size());
  if (has_next) send(Way::to_next);
  if (has_before) send(Way::to_before);
  if (has_before) receive(Way::from_before);
  if (has_next) receive(Way::from_next);
  for (std::size_t way = 0; way < kernels::way_count; ++way) wait(way);
  for (std::size_t i = 0; i < received.size(); ++i) {
    const bool forward = has_before && i < sizes.size();
    expect(forward ? "a receive from the stage before" : "a receive from the next stage", received[i].read(),
           doubles(values_of<Bf16>(table.rank_of({pipeline, forward ? stage - 1 : stage + 1}),
                                   sizes[i % sizes.size()], ranks)));
  }

  std::vector<std::size_t> replica_ranks;
  for (std::size_t p = 0; p < table.pipelines(); ++p)
    replica_ranks.push_back(table.rank_of({static_cast<PipelineId>(p), stage}));
  kernels::Group<T> replicas(transport, replica_ranks);
  const std::size_t queue = kernels::way_count;
  check_collectives<float>(
      "replicas' float", machine, links, machine.stream(queue), [&] { wait(queue); }, replicas);
  if (replicas.size() == 1) return;
  // Two blocks for each pair, in their order; all at once.
  std::vector<kernels::DeviceBlock> sends, receives;
  std::vector<Rows> outs, ins;
  outs.reserve(2 * replicas.size());
  ins.reserve(2 * replicas.size());
  const auto block = [](std::size_t position, Rows& rows) {
    const auto bytes = std::as_writable_bytes(rows.span());
    return kernels::DeviceBlock{position, bytes.data(), bytes.size()};
  };
  const auto nth = [&](std::size_t from, std::size_t to, std::size_t n) {
    return values_of<Bf16>(from + n, pair_size(from, to) + 1 + n, ranks);
  };
  for (std::size_t other = 0; other < replicas.size(); ++other) {
    if (other == replicas.position()) continue;
    for (const std::size_t n : {0U, 1U}) {
      const auto& out = outs.emplace_back(machine.numbers(nth(replicas.position(), other, n)));
      static_cast<void>(out);
      sends.push_back(block(other, outs.back()));
      ins.push_back(machine.numbers(std::vector<Bf16>(nth(other, replicas.position(), n).size())));
      receives.push_back(block(other, ins.back()));
    }
  }
  links.exchange(sends, receives, machine.stream(queue));
  wait(queue);
  for (std::size_t i = 0; i < ins.size(); ++i)
    expect("an exchange between replicas", ins[i].read(),
           doubles(nth(receives[i].position, replicas.position(), i % 2)));
}

/// What a rank does to show what the others say.
struct Fault {
  std::size_t rank = 0;
  bool stalls = false;  ///< otherwise it dies
};

/// One rank dies, or stands still, between operations: the others' next wait has to end.
/// @param die ends this rank. @throws TransportError on the others; on the one that stood still as well. InvalidInput for a
/// rank that there is not, or if there is no other.
template <class Machine, class Collectives, kernels::Transport T, class Die>
void check_fault(Machine& machine, Collectives& group, T& transport, const Fault& fault,
                 const kernels::TransportOptions& options, Die&& die) {
  require(transport.size() > 1 && fault.rank < transport.size(), "rank ", fault.rank, " of ",
          transport.size(), " is to fail; expected one of at least two ranks");
  const auto stream = machine.stream(0);
  constexpr int good_rounds = 2;
  for (int round = 0; round <= good_rounds; ++round) {
    transport.set_task(concat("round ", round));
    if (round == good_rounds && transport.rank() == fault.rank) {
      if (!fault.stalls) die();
      const auto end = std::chrono::steady_clock::now() + 4 * (options.timeout + options.grace);
      while (std::chrono::steady_clock::now() < end) {
        transport.check();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      break;
    }
    auto numbers = machine.numbers(values_of<float>(transport.rank(), 1001, transport.size()));
    group.all_reduce(numbers.span(), stream);
    group.wait(stream);
  }
  throw std::runtime_error(concat("rank ", fault.rank, " has failed, and nobody has noticed"));
}

}  // namespace slimpack::check
