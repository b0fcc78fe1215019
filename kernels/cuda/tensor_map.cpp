#include <cuda.h>

#include <cstring>
#include <stdexcept>

#include "kernels/cuda/runtime_private.hpp"

namespace slimpack::kernels::cuda {

namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));

/// The driver's function, found at run time: a program that is linked with the driver starts nowhere else.
[[nodiscard]] decltype(&cuTensorMapEncodeTiled) encode_function() {
  constexpr unsigned since = 12000;  // CUDA 12.0
  void* function = nullptr;
  auto answer = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, since, cudaEnableDefault,
                                         &answer),
        "looking for the driver's tensor maps");
  if (answer != cudaDriverEntryPointSuccess || function == nullptr) {
    throw std::runtime_error("the NVIDIA driver has no tensor maps; expected one for CUDA 12.0 or newer");
  }
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

}  // namespace

TensorMap tensor_map(const MatrixView<const Bf16>& matrix, int rows) {
  static const auto encode = encode_function();
  const cuuint64_t sizes[2] = {matrix.cols, matrix.rows};
  const cuuint64_t strides[1] = {matrix.stride * sizeof(Bf16)};
  const cuuint32_t box[2] = {line_numbers, static_cast<cuuint32_t>(rows)}, steps[2] = {1, 1};
  CUtensorMap map;
  // The driver takes a pointer to what may be written, though the map is for reading here.
  auto* data = const_cast<Bf16*>(matrix.data);
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, sizes, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw std::runtime_error(concat(
        "CUDA driver error ", static_cast<int>(result), " in describing a matrix of ", matrix.rows, " x ",
        matrix.cols, " with rows ", matrix.stride, " apart; expected rows at multiples of 16 bytes"));
  }
  TensorMap out;
  std::memcpy(&out, &map, sizeof out);
  return out;
}

}  // namespace slimpack::kernels::cuda
