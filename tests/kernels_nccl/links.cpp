#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "kernels/cuda/cuda_stage.hpp"
#include "kernels/executor.hpp"
#include "kernels/transport/in_process.hpp"
#include "kernels/transport/nccl_links.hpp"
#include "slimpack/core/error.hpp"

using namespace slimpack;
using namespace slimpack::kernels;

static_assert(DeviceLinks<NcclLinks, kernels::cuda::Stream, kernels::cuda::Bf16, float>);
static_assert(LinkedBackEnd<kernels::cuda::CudaStage>);
static_assert(RankExecutor<kernels::cuda::CudaStage, InProcessTransport, NcclLinks>::linked);

TEST_CASE("links between GPUs refuse an environment in which tasks could be queued after receives") {
  const auto error_of = [] {
    try {
      require_prepared_for_links();
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  unsetenv("CUDA_MODULE_LOADING");
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  CHECK_THAT(error_of(), Catch::StartsWith("CUDA_MODULE_LOADING is ''; expected EAGER"));
  prepare_for_links();
  CHECK(error_of().empty());
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  prepare_for_links();
  CHECK_THAT(error_of(), Catch::StartsWith("CUDA_DEVICE_MAX_CONNECTIONS is '1'; expected at least 16"));
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  CHECK_THAT(error_of(), Catch::StartsWith("CUDA_MODULE_LOADING is 'LAZY'"));
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
}

TEST_CASE("links between GPUs are of stages that one rank runs") {
  prepare_for_links();
  auto transports = InProcessTransport::create(2);
  Plan plan;
  plan.pipelines.push_back({.layers = {1}, .order = {}});
  const auto links = [&] { return NcclLinks(transports[0], PlanRanks(plan)); };
  CHECK_THROWS_WITH(links(), Catch::Contains("there are 2 ranks; expected the 1"));
  plan.pipelines[0].tp = 2;
  CHECK_THROWS_WITH(links(), Catch::Contains("pipeline 0 has 2 tensor-parallel ranks; expected 1"));
}
