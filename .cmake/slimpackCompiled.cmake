# The compiled parts of slimpack, each after those that it links, and the packages that its library links. The
# project's own build and the installed package both read this file.
set(slimpack_compiled planners transport tcp kernels mpi nccl kernels_cuda kernels_cudnn)

set(slimpack_mpi_packages MPI)
set(slimpack_nccl_packages CUDAToolkit NCCL)
set(slimpack_kernels_cuda_packages CUDAToolkit)
set(slimpack_kernels_cudnn_packages CUDAToolkit CUDNN)
set(slimpack_kernels_cudnn_parts kernels_cuda)

set(slimpack_MPI_arguments 3.0 COMPONENTS CXX)
set(slimpack_modules "${CMAKE_CURRENT_LIST_DIR}")

# find_package, further arguments being added, of a package that a compiled part links. A macro: what a package
# defines is for the caller.
macro(slimpack_find package)
  if("${package}" STREQUAL "MPI")
    set(MPI_CXX_SKIP_MPICXX ON)  # the C interface alone
  endif()
  list(PREPEND CMAKE_MODULE_PATH "${slimpack_modules}")  # for what Find<package>.cmake stands there
  find_package(${package} ${slimpack_${package}_arguments} ${ARGN})
  list(POP_FRONT CMAKE_MODULE_PATH)
endmacro()
