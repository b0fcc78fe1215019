# cuDNN 9. Defines the target CUDNN::cudnn.
include("${CMAKE_CURRENT_LIST_DIR}/slimpackGpuLibrary.cmake")
slimpack_gpu_library(CUDNN cudnn cudnn 9)
