# NCCL 2. Defines the target NCCL::nccl.
include("${CMAKE_CURRENT_LIST_DIR}/slimpackGpuLibrary.cmake")
slimpack_gpu_library(NCCL nccl nccl 2)
