// Checks NCCL between the GPUs of a run: every operation of the transport, and the links of an executor, against what the
// hosts' transport gives. Started like slimpack train, one process per GPU (docs/launch.md); one process alone also works:
//   torchrun --no-python --nproc-per-node 8 build/default/bin/nccl_check
//   mpirun -n 8 build/default/bin/nccl_check
//   ... --fail 1 kill     rank 1 dies, or with `stall` stands still, half-way: all others have to end with exit code 2
//   ... --timeout 5       seconds until a rank that does not answer ends the run
//   ... --host            the same operations by the hosts' memory: needs no GPU
// Without a driver or a GPU it says what is missing; every error ends all ranks with exit code 2.
#include <cuda_runtime_api.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "kernels/transport/nccl.hpp"
#include "kernels/transport/nccl_links.hpp"
#include "kernels/transport/tcp.hpp"
#include "nccl_check/host_links.hpp"
#include "nccl_check/link_check.hpp"
#ifdef SLIMPACK_NCCL_CHECK_MPI
#include "kernels/transport/mpi.hpp"
#endif

namespace {

using namespace slimpack;
using namespace slimpack::kernels;

std::string text(cudaError_t error) {
  return concat("CUDA error ", static_cast<int>(error), " (", cudaGetErrorString(error), ")");
}

void require_done(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(text(error));
}

/// Memory and streams of this process's GPU.
class GpuMachine {
 public:
  using Stream = cuda::Stream;

  template <class V>
  class Numbers {
   public:
    explicit Numbers(const std::vector<V>& values) : size_(values.size()) {
      void* data = nullptr;
      if (size_ > 0) require_done(cudaMalloc(&data, size_ * sizeof(V)));
      data_.reset(static_cast<V*>(data));
      if (size_ > 0) require_done(cudaMemcpy(data, values.data(), size_ * sizeof(V), cudaMemcpyHostToDevice));
    }
    [[nodiscard]] std::span<V> span() const { return {data_.get(), size_}; }
    [[nodiscard]] std::vector<V> read() const {
      std::vector<V> values(size_);
      if (size_ > 0)
        require_done(cudaMemcpy(values.data(), data_.get(), size_ * sizeof(V), cudaMemcpyDeviceToHost));
      return values;
    }

   private:
    struct Freer {
      void operator()(V* data) const { cudaFree(data); }
    };
    std::unique_ptr<V, Freer> data_;
    std::size_t size_;
  };

  GpuMachine() = default;
  GpuMachine(const GpuMachine&) = delete;
  GpuMachine& operator=(const GpuMachine&) = delete;
  ~GpuMachine() {
    for (const auto& [number, stream] : streams_) cudaStreamDestroy(stream);
  }

  template <class V>
  [[nodiscard]] Numbers<V> numbers(const std::vector<V>& values) const {
    return Numbers<V>(values);
  }
  [[nodiscard]] Stream stream(std::size_t number) {
    cudaStream_t& stream = streams_[number];
    if (stream == nullptr) require_done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
  [[nodiscard]] static AsyncState state(Stream stream) {
    const cudaError_t error = cudaStreamQuery(stream);
    if (error == cudaErrorNotReady) return {};
    return {.done = true, .error = error == cudaSuccess ? "" : text(error)};
  }

 private:
  std::map<std::size_t, cudaStream_t> streams_;
};

struct Options {
  TransportOptions waits{.timeout = std::chrono::seconds(60)};
  std::optional<check::Fault> fault;
  bool host = false;
};

[[noreturn]] void die() {
  std::raise(SIGKILL);
  std::terminate();
}

/// @param make_links gives links of a rank among those of a table
template <Transport T, class Machine, class Group, class MakeLinks>
void check_all(T& transport, Machine& machine, Group& group, MakeLinks&& make_links, const Options& options) {
  if (options.fault) return check::check_fault(machine, group, transport, *options.fault, options.waits, die);
  check::check_group(machine, group, transport);
  check::for_each_table(transport.size(), [&](const PlanRanks& table) {
    auto links = make_links(table);
    check::check_links(machine, links, transport, table, options.waits);
  });
  group.close();
}

/// One rank, whatever the hosts' transport.
template <Transport T>
void check_rank(T& transport, const Options& options) {
  std::string where = "the host";
  if (options.host) {
    check::HostMachine machine;
    check::HostGroup<T> group(transport);
    const auto links = [&](const PlanRanks& table) {
      return check::HostLinks<T>(transport, table.place_of(transport.rank()));
    };
    check_all(transport, machine, group, links, options);
  } else {
    where = cuda::use_device({.index = static_cast<int>(local_rank_of())}).name;
    GpuMachine machine;
    NcclGroup group(transport, options.waits);
    const auto links = [&](const PlanRanks& table) { return NcclLinks(transport, table, options.waits); };
    check_all(transport, machine, group, links, options);
  }
  std::cout << concat("rank ", transport.rank(), ": all is well on ", where, "\n") << std::flush;
}

template <class Number>
Number number_of(std::string_view option, std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc{} && end == text.data() + text.size(), option, " is '", text,
          "'; expected a whole number");
  return number;
}

Options options_of(std::span<char*> arguments) {
  Options options;
  std::size_t at = 1;
  const auto next = [&](std::string_view option) -> std::string_view {
    require(at < arguments.size(), option, " ends the line; expected a value after it");
    return arguments[at++];
  };
  while (at < arguments.size()) {
    const std::string_view option = arguments[at++];
    if (option == "--host") {
      options.host = true;
    } else if (option == "--timeout") {
      const auto seconds = number_of<int>(option, next(option));
      require(seconds > 0 && seconds < 1'000'000, option, " is ", seconds, "; expected at least 1");
      options.waits.timeout = std::chrono::seconds(seconds);
    } else if (option == "--fail") {
      const auto rank = number_of<std::size_t>(option, next(option));
      const std::string_view how = next(option);
      require(how == "kill" || how == "stall", option, " is '", how, "'; expected kill or stall");
      options.fault = {.rank = rank, .stalls = how == "stall"};
    } else {
      throw InvalidInput(concat(
          "'", option, "' is no option; expected --fail RANK kill|stall, --timeout SECONDS or --host"));
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = options_of({argv, static_cast<std::size_t>(argc)});
    prepare_for_links();
    const Launcher launcher = launcher_of();
#ifdef SLIMPACK_NCCL_CHECK_MPI
    if (launcher == Launcher::mpi)
      return run_mpi([&](MpiTransport& transport) { check_rank(transport, options); }, {options.waits});
#endif
    const Launch launch = launcher == Launcher::none ? Launch{} : launch_of(launcher);
    return run_tcp([&](TcpTransport& transport) { check_rank(transport, options); }, launch, {options.waits});
  } catch (const std::exception& error) {
    std::cerr << "nccl_check: " << error.what() << "\n";
    return 2;
  }
}
