// Checks NCCL between the GPUs of a run: every operation of the transport, against what it has to give. Started like
// slimpack train, one process per GPU (docs/launch.md):
//   torchrun --no-python --nproc-per-node 8 build/default/bin/nccl_check
//   mpirun -n 8 build/default/bin/nccl_check
// Without a driver or a GPU it says what is missing; every error ends all ranks with exit code 2.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "kernels/transport/nccl.hpp"
#include "kernels/transport/tcp.hpp"
#ifdef SLIMPACK_NCCL_CHECK_MPI
#include "kernels/transport/mpi.hpp"
#endif

namespace {

using namespace slimpack;
using namespace slimpack::kernels;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

class OwnStream {
 public:
  OwnStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { cudaStreamDestroy(stream_); }

  [[nodiscard]] cuda::Stream get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Numbers in the memory of the GPU.
class Numbers {
 public:
  explicit Numbers(std::size_t n) : Numbers(std::vector<double>(n)) {}
  explicit Numbers(const std::vector<double>& values) : size_(values.size()) {
    void* data = nullptr;
    check(cudaMalloc(&data, size_ * sizeof(double)));
    data_.reset(static_cast<double*>(data));
    check(cudaMemcpy(data, values.data(), size_ * sizeof(double), cudaMemcpyHostToDevice));
  }

  [[nodiscard]] std::span<double> span() const { return {data_.get(), size_}; }
  [[nodiscard]] std::vector<double> read() const {
    std::vector<double> values(size_);
    check(cudaMemcpy(values.data(), data_.get(), size_ * sizeof(double), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  struct Freer {
    void operator()(double* data) const { cudaFree(data); }
  };
  std::unique_ptr<double, Freer> data_;
  std::size_t size_;
};

void expect(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what + " gives other numbers than expected");
}

/// What a rank has before an operation: whole numbers, so that sums are exact.
std::vector<double> values_of(std::size_t rank, std::size_t n) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<double>(1000 * rank + i);
  return values;
}

std::vector<double> sum_of(std::size_t ranks, std::size_t n) {
  std::vector<double> sum(n);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto values = values_of(rank, n);
    for (std::size_t i = 0; i < n; ++i) sum[i] += values[i];
  }
  return sum;
}

std::vector<double> slice(const std::vector<double>& values, std::size_t begin, std::size_t size) {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

void check_collectives(NcclGroup& group, cuda::Stream stream) {
  const std::size_t share = 1000, n = share * group.size(), own = share * group.position();
  const auto sum = sum_of(group.size(), n);
  const Numbers reduced(values_of(group.position(), n)), scattered(values_of(group.position(), n));
  group.all_reduce(reduced.span(), stream);
  group.reduce_scatter(scattered.span(), stream);
  group.wait(stream);
  expect(reduced.read() == sum, "all_reduce");
  expect(slice(scattered.read(), own, share) == slice(sum, own, share), "reduce_scatter");
  group.all_gather(scattered.span(), stream);
  group.wait(stream);
  expect(scattered.read() == sum, "all_gather");
}

void check_exchanges(NcclGroup& group, cuda::Stream stream) {
  const std::size_t share = 100, g = group.size(), n = share * g;
  const Numbers out(values_of(group.position(), n)), in(n), ring(n);
  std::vector<std::span<const double>> outs;
  std::vector<std::span<double>> ins;
  for (std::size_t i = 0; i < g; ++i) {
    outs.push_back(out.span().subspan(i * share, share));
    ins.push_back(in.span().subspan(i * share, share));
  }
  group.all_to_all(std::span<const std::span<const double>>(outs), std::span<const std::span<double>>(ins),
                   stream);
  group.ring_shift(std::span<const double>(out.span()), ring.span(), stream);
  group.wait(stream);
  const auto got = in.read();
  for (std::size_t i = 0; i < g; ++i) {
    expect(slice(got, i * share, share) == slice(values_of(i, n), group.position() * share, share),
           "all_to_all");
  }
  expect(ring.read() == values_of((group.position() + g - 1) % g, n), "ring_shift");
}

/// All ranks as the stages of one pipeline: rows go forward, gradients back, each side sending first.
void check_stages(NcclGroup& group, cuda::Stream forward, cuda::Stream backward) {
  StageLinks links = link_stages(group);
  const std::size_t n = 1 << 20, stage = group.position();
  const Numbers own(values_of(stage, n)), from_before(n), from_next(n);
  const std::span<const double> rows = own.span();
  if (links.to_next) links.to_next->send(1, rows, forward);
  if (links.to_before) links.to_before->send(0, rows, backward);
  if (links.from_before) links.from_before->receive(0, from_before.span(), forward);
  if (links.from_next) links.from_next->receive(1, from_next.span(), backward);
  group.wait(forward);
  group.wait(backward);
  if (links.from_before)
    expect(from_before.read() == values_of(stage - 1, n), "a receive from the stage before");
  if (links.from_next) expect(from_next.read() == values_of(stage + 1, n), "a receive from the next stage");
  for (auto* link : {&links.to_next, &links.from_before, &links.to_before, &links.from_next}) {
    if (*link) (*link)->close();
  }
}

/// One rank, whatever the hosts' transport.
template <Transport T>
void check_rank(T& transport) {
  const cuda::Device device = cuda::use_device({.index = static_cast<int>(local_rank_of())});
  const OwnStream forward, backward;
  NcclGroup group(transport);
  check_collectives(group, forward.get());
  check_exchanges(group, forward.get());
  check_stages(group, forward.get(), backward.get());
  group.close();
  std::cout << concat("rank ", transport.rank(), ": all is well on ", device.name, "\n") << std::flush;
}

}  // namespace

int main() {
  try {
    const Launcher launcher = launcher_of();
#ifdef SLIMPACK_NCCL_CHECK_MPI
    if (launcher == Launcher::mpi) return run_mpi([](MpiTransport& transport) { check_rank(transport); });
#endif
    const Launch launch = launcher == Launcher::none ? Launch{} : launch_of(launcher);
    return run_tcp([](TcpTransport& transport) { check_rank(transport); }, launch);
  } catch (const std::exception& error) {
    std::cerr << "nccl_check: " << error.what() << "\n";
    return 2;
  }
}
