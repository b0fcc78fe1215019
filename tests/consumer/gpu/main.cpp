// Trains a small model for a step on the first GPU. Without one it says what is missing, and exits with 2.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/cuda_stage.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "slimpack/core/error.hpp"
#include "slimpack/model/presets.hpp"
#include "slimpack/planners/slimpack.hpp"

#ifdef CONSUMER_NCCL
#include "kernels/transport/nccl_links.hpp"
#endif
#ifdef CONSUMER_KERNELS_CUDNN
#include "kernels/cuda/cudnn/cudnn_attention.hpp"
#endif

using namespace slimpack;
using namespace slimpack::kernels;

namespace {

template <class... Links>
using Rank = RankExecutor<cuda::CudaStage, InProcessTransport, Links...>;

double loss_of_a_step() {
  const Transformer model{"small", 2, 64, 1, 1, 64, 128, 50};
  const Job job{.model = model, .device = device_preset("h100")};
  const std::vector<Tokens> lengths{40, 17};
  const cuda::CudaStage::Memory memory(model, std::vector<std::int32_t>{2}, sizeof(float));
  const Plan plan = plan_slimpack(lengths, job, CalibratedCost(job), memory);
  Ragged<std::int32_t> ids;
  for (const Tokens length : plan.tokens) ids.add_row(static_cast<std::size_t>(length), 3);
  double loss = 0.0;
  run_in_process(1, [&](InProcessTransport& t) {
#ifdef CONSUMER_NCCL
    Rank<NcclLinks> rank(t, model, plan, {}, NcclLinks(t, PlanRanks(plan)));
#else
    Rank<> rank(t, model, plan);
#endif
    loss = rank.step(plan, ids).loss;
  });
  return loss;
}

}  // namespace

int main() {
  try {
#ifdef CONSUMER_NCCL
    prepare_for_links();
#endif
#ifdef CONSUMER_KERNELS_CUDNN
    const std::vector<cuda::Bf16> rows(8 * 64);
    const MatrixView<const cuda::Bf16> matrix(rows.data(), 8, 64);
    if (cuda::cudnn_refusal({1, 1, 64}, std::vector<cuda::AttentionSlice>{{0, 8, 0, 0}},
                            {matrix, matrix, matrix}, true))
      throw std::runtime_error("cuDNN refuses a plain pack");
#endif
    const cuda::Device device = cuda::use_device();
    const double loss = loss_of_a_step();
    std::printf("%s: loss %.3f\n", device.name.c_str(), loss);
    return std::abs(loss - std::log(50.0)) < 0.5 ? 0 : 1;
  } catch (const InvalidInput& error) {
    std::fprintf(stderr, "gpu_consumer: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_consumer: %s\n", error.what());
    return 1;
  }
}
