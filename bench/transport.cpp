// How fast bytes move between ranks, by the size of a message: back and forth (ping_pong; time is of both
// ways), eight messages in transit at a time (stream), and summed over all ranks (all_reduce, floats). Bytes
// per second are those of one message in one direction. By itself it measures two threads and, for
// comparison, a plain memcpy; under mpirun, the MPI transport on all its ranks and plain MPI calls; under a
// launcher like torchrun, the TCP transport and a memcpy:
//
//     bench_transport
//     mpirun -n 2 bench_transport
//     torchrun --no-python --nproc-per-node 2 bench_transport
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/transport/collectives.hpp"
#include "kernels/transport/in_process.hpp"
#include "kernels/transport/launch.hpp"
#include "kernels/transport/tcp.hpp"

#ifdef SLIMPACK_BENCH_MPI
#include <mpi.h>

#include "kernels/transport/mpi.hpp"
#endif

namespace {

using namespace slimpack::kernels;

constexpr std::size_t largest = 16U << 20, window = 8;

enum class Kind : std::uint64_t { stop, ping_pong, stream, all_reduce, raw_ping_pong, raw_all_reduce };

/// What all ranks do next, and how often. Sent by rank 0, which measures.
struct Order {
  Kind kind = Kind::stop;
  std::uint64_t bytes = 0, times = 0;
};

/// Repetitions of one order: few enough to be done soon, many enough to hide the cost of the order itself.
std::uint64_t times_of(std::size_t bytes) {
  return std::clamp<std::uint64_t>((4U << 20) / std::max<std::size_t>(bytes, 1), 1, 256);
}

template <Transport T>
class Rank {
 public:
  explicit Rank(T& transport)
      : transport_(transport), group_(transport), out_(largest), in_(window * largest) {}

  /// Rank 0: does it once, and has all others do it.
  void order(const Order& order) {
    for (std::size_t to = 1; to < transport_.size(); ++to) {
      Request request = transport_.isend(to, 1, std::as_bytes(std::span(&order, 1)));
      transport_.wait(request);
    }
    perform(order);
  }

  /// Other ranks: do what is ordered until the end.
  void serve() {
    for (Order order{.kind = Kind::ping_pong}; order.kind != Kind::stop;) {
      Request request = transport_.irecv(0, 1, std::as_writable_bytes(std::span(&order, 1)));
      transport_.wait(request);
      perform(order);
    }
  }

 private:
  void perform(const Order& order) {
    for (std::uint64_t i = 0; i < order.times; ++i) {
      if (order.kind == Kind::all_reduce) {
        group_.all_reduce(std::span(reinterpret_cast<float*>(out_.data()), order.bytes / sizeof(float)));
      } else if (order.kind == Kind::raw_ping_pong || order.kind == Kind::raw_all_reduce) {
        raw(order);
      } else if (transport_.rank() < 2) {
        order.kind == Kind::ping_pong ? ping_pong(order.bytes) : stream(order.bytes);
      }
    }
  }

  void send(std::size_t bytes) {
    Request request = transport_.isend(1 - transport_.rank(), 2, std::span(out_).first(bytes));
    transport_.wait(request);
  }

  void receive(std::size_t bytes) {
    Request request = transport_.irecv(1 - transport_.rank(), 2, std::span(in_).first(bytes));
    transport_.wait(request);
  }

  void ping_pong(std::size_t bytes) {
    if (transport_.rank() == 0) send(bytes);
    receive(bytes);
    if (transport_.rank() == 1) send(bytes);
  }

  void stream(std::size_t bytes) {
    std::array<Request, window> requests;
    for (std::size_t i = 0; i < window; ++i) {
      requests[i] = transport_.rank() == 0 ? transport_.isend(1, 3, std::span(out_).first(bytes))
                                           : transport_.irecv(0, 3, std::span(in_).subspan(i * bytes, bytes));
    }
    wait_all(transport_, std::span<Request>(requests));
    transport_.rank() == 0 ? receive(0) : send(0);
  }

  void raw([[maybe_unused]] const Order& order) {
#ifdef SLIMPACK_BENCH_MPI
    const int bytes = static_cast<int>(order.bytes), rank = static_cast<int>(transport_.rank());
    if (order.kind == Kind::raw_all_reduce) {
      MPI_Allreduce(out_.data(), in_.data(), bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (rank < 2) {
      if (rank == 0) MPI_Send(out_.data(), bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(in_.data(), bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (rank == 1) MPI_Send(out_.data(), bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
#endif
  }

  T& transport_;
  Group<T> group_;
  std::vector<std::byte> out_, in_;
};

void plain_memcpy(benchmark::State& state) {
  std::vector<std::byte> from(largest), to(largest);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void measure(benchmark::State& state, Kind kind, const std::function<void(const Order&)>& order) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const Order next{kind, bytes, times_of(bytes)};
  while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(next.times))) order(next);
  const std::int64_t messages = kind == Kind::stream ? std::int64_t{window}
                                : kind == Kind::ping_pong || kind == Kind::raw_ping_pong ? 2
                                                                                         : 1;
  state.SetBytesProcessed(state.iterations() * state.range(0) * messages);
}

/// Rank 0: measures. All others help.
template <Transport T>
void run(T& transport, bool has_raw) {
  Rank<T> rank(transport);
  if (transport.rank() != 0) return rank.serve();
  const auto add = [&](const char* name, Kind kind, std::int64_t least) {
    benchmark::RegisterBenchmark(name,
                                 [&rank, kind](benchmark::State& state) {
                                   measure(state, kind, [&](const Order& order) { rank.order(order); });
                                 })
        ->RangeMultiplier(8)
        ->Range(least, largest)
        ->UseRealTime();
  };
  if (transport.size() > 1) {
    add("ping_pong", Kind::ping_pong, 8);
    if (has_raw) add("raw_ping_pong", Kind::raw_ping_pong, 8);
    add("stream", Kind::stream, 8);
  }
  add("all_reduce", Kind::all_reduce, 64);
  if (has_raw) add("raw_all_reduce", Kind::raw_all_reduce, 64);
  if (!has_raw) benchmark::RegisterBenchmark("memcpy", plain_memcpy)->RangeMultiplier(8)->Range(64, largest);
  benchmark::RunSpecifiedBenchmarks();
  rank.order({});
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (const Launcher launcher = launcher_of();
      launcher == Launcher::torchrun || launcher == Launcher::slurm) {
    return run_tcp([](TcpTransport& transport) { run(transport, false); }, launch_of(launcher));
  }
#ifdef SLIMPACK_BENCH_MPI
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    return run_mpi([](MpiTransport& transport) { run(transport, true); });
  }
#endif
  run_in_process(2, [](InProcessTransport& transport) { run(transport, false); });
  return 0;
}
