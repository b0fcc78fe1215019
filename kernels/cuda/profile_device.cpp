#include "kernels/cuda/profile_device.hpp"

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/gemm.hpp"

namespace slimpack::kernels::cuda {

namespace {

/// Fills memory with the same random bf16 numbers over and over.
void randomise(std::span<std::byte> memory, std::mt19937& random) {
  constexpr std::size_t some = std::size_t{1} << 20U;
  std::normal_distribution<float> normal;
  std::vector<Bf16> numbers(some);
  for (Bf16& x : numbers) x = to_bf16(normal(random));
  const auto bytes = std::as_bytes(std::span(numbers));
  for (std::size_t at = 0; at < memory.size(); at += bytes.size())
    copy_bytes(memory.data() + at, bytes.data(), std::min(bytes.size(), memory.size() - at), nullptr);
  wait_for_device();
}

template <class T>
MatrixView<T> square(const DeviceMemory& memory, std::size_t n) {
  return {reinterpret_cast<T*>(memory.bytes().data()), n, n};
}

double product_flops(const OwnedStream& stream) {
  constexpr std::size_t n = 8192;
  const DeviceMemory a(n * n * sizeof(Bf16)), b(n * n * sizeof(Bf16)), c(n * n * sizeof(Bf16)),
      workspace(std::size_t{32} << 20U);
  std::mt19937 random(1);
  randomise(a.bytes(), random);
  randomise(b.bytes(), random);
  Gemm gemm(workspace.bytes());
  const double seconds = median_seconds(stream, [&] {
    gemm.run(Product::multiply_transposed, square<const Bf16>(a, n), square<const Bf16>(b, n),
             square<Bf16>(c, n), Update::set, stream.get());
  });
  return 2.0 * n * n * n / seconds;
}

double copy_bandwidth(const OwnedStream& stream) {
  constexpr std::size_t bytes = std::size_t{1} << 30U;
  const DeviceMemory from(bytes), to(bytes);
  std::mt19937 random(2);
  randomise(from.bytes(), random);
  const double seconds = median_seconds(
      stream, [&] { copy_bytes(to.bytes().data(), from.bytes().data(), bytes, stream.get()); });
  return 2.0 * bytes / seconds;
}

}  // namespace

double median_seconds(const OwnedStream& stream, const std::function<void()>& run, int repeats) {
  const int warm_up = repeats / 5;
  std::vector<double> times;
  const Event begin, end;
  for (int i = 0; i < warm_up + repeats; ++i) {
    begin.record(stream.get());
    run();
    end.record(stream.get());
    const double time = end.seconds_since(begin);
    if (i >= warm_up) times.push_back(time);
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[repeats / 2];
}

Ceilings measure_ceilings() {
  static_cast<void>(use_device(
      {.index = current_device(), .memory = std::size_t{3} << 30U, .what = "measuring what it can do"}));
  const OwnedStream stream;
  return {.flops = product_flops(stream), .bandwidth = copy_bandwidth(stream)};
}

}  // namespace slimpack::kernels::cuda
