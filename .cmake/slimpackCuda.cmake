# Enables the language CUDA where SLIMPACK_WITH_CUDA and the machine have it. Sets SLIMPACK_CUDA_FOUND.
set(SLIMPACK_WITH_CUDA AUTO CACHE STRING "Build slimpack::kernels_cuda: ON, OFF, or AUTO where CUDA is found")
set_property(CACHE SLIMPACK_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SLIMPACK_CUDA_ARCHITECTURES 90a-real CACHE STRING
  "GPUs that the CUDA kernels are compiled for, a list as CMAKE_CUDA_ARCHITECTURES; at least 80")

set(SLIMPACK_CUDA_FOUND OFF)
if(NOT SLIMPACK_WITH_CUDA)
  return()
endif()
include(CheckLanguage)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${SLIMPACK_CUDA_ARCHITECTURES})
endif()
check_language(CUDA)
find_package(CUDAToolkit 12.8 QUIET)  # the first that knows sm_100
if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
  enable_language(CUDA)
  set(SLIMPACK_CUDA_FOUND ON)
elseif(SLIMPACK_WITH_CUDA STREQUAL "AUTO")
  slimpack_left_out(slimpack::kernels_cuda "a CUDA toolkit of at least 12.8 was not found")
else()
  message(FATAL_ERROR "SLIMPACK_WITH_CUDA is ${SLIMPACK_WITH_CUDA}, but a CUDA toolkit of at least 12.8 was not "
    "found; set CMAKE_CUDA_COMPILER to its nvcc")
endif()
