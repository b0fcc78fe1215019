#include <cstdio>
#include <random>

#include "bench/gpu/buffers.hpp"
#include "bench/gpu/gpu.hpp"
#include "kernels/cuda/operators.hpp"
#include "kernels/cuda/profile_device.hpp"
#include "kernels/cuda/runtime.hpp"

namespace slimpack::bench {

using cuda::Bf16;

cuda::Ceilings print_ceilings(const FigureFile& figures) {
  const cuda::Ceilings ceilings = cuda::measure_ceilings();
  std::printf("cuBLASLt, 8192 x 8192: %.0f TFLOP/s; copy: %.2f TB/s\n", ceilings.flops * 1e-12,
              ceilings.bandwidth * 1e-12);
  figures.add("ceilings/flops", ceilings.flops);
  figures.add("ceilings/bandwidth", ceilings.bandwidth);
  return ceilings;
}

void time_memory_bound(const cuda::Ceilings& ceilings, unsigned seed) {
  std::mt19937 random(seed);
  const cuda::OwnedStream stream;
  constexpr std::size_t tokens = 32768, hidden = 5120, ffn = 13824;
  const auto print = [&](const char* what, double bytes, double time) {
    std::printf("| %s | %.3f ms | %.2f TB/s | %.2f |\n", what, time * 1e3, bytes / time * 1e-12,
                bytes / time / ceilings.bandwidth);
  };
  std::printf("\n| kernel | time | bandwidth | of a copy's |\n| --- | --- | --- | --- |\n");
  {
    const auto x = random_rows(random, tokens, hidden);
    const Rows<Bf16> y(tokens, hidden), weight(random_bf16(random, hidden), 1, hidden);
    print("rms_norm", 4.0 * tokens * hidden, cuda::median_seconds(stream, [&] {
            cuda::rms_norm(x.in(), {}, {}, weight.span(), 1e-5, y.view(), stream.get());
          }));
  }
  {
    const auto gate_up = random_rows(random, tokens, 2 * ffn);
    const Rows<Bf16> out(tokens, ffn);
    print("swiglu", 6.0 * tokens * ffn,
          cuda::median_seconds(stream, [&] { cuda::swiglu(gate_up.in(), out.view(), stream.get()); }));
  }
  {
    const std::size_t n = std::size_t{1} << 28U;
    Numbers<float> weights(n), gradients(n), first(n), second(n);
    for (auto* numbers : {&weights, &gradients, &first, &second}) numbers->fill(0x3c);
    const Numbers<Bf16> copies(n);
    print("adamw", 30.0 * static_cast<double>(n), cuda::median_seconds(stream, [&] {
            cuda::adamw(weights.span(), copies.span(), gradients.span(), first.span(), second.span(), 1, {},
                        stream.get());
          }));
  }
}

}  // namespace slimpack::bench
