#include "kernels/cuda/gemm.hpp"

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernels/cuda/check_private.hpp"
#include "kernels/cuda/device.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels::cuda {

namespace {

void check_lt(cublasStatus_t status, std::string_view what, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(concat("cuBLASLt error ", static_cast<int>(status), " (",
                                  cublasLtGetStatusName(status), ") in ", what, ", ", file, ":", line));
}

/// Calls a destroying function of the library, whose result can't be used.
template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* p) const {
    static_cast<void>(destroy(p));
  }
};

template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// All that cuBLASLt's choice depends on.
struct Key {
  GemmLayout layout;
  cudaDataType_t type = CUDA_R_16BF;  ///< of the result
  bool adds = false;
  std::uint32_t alignment_a = 0, alignment_b = 0, alignment_c = 0;  ///< bytes

  friend auto operator<=>(const Key&, const Key&) = default;
};

struct Plan {
  Operation operation;
  Layout left, right, result;
  cublasLtMatmulAlgo_t algorithm{};
};

[[nodiscard]] Layout make_layout(const ColumnMajor& m, cudaDataType_t type) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_lt(cublasLtMatrixLayoutCreate(&layout, type, m.rows, m.cols, static_cast<std::int64_t>(m.leading)),
           "describing a matrix");
  return Layout(layout);
}

[[nodiscard]] Operation make_operation(const GemmLayout& layout) {
  cublasLtMatmulDesc_t operation = nullptr;
  check_lt(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  Operation owned(operation);
  const auto set = [&](cublasLtMatmulDescAttributes_t which, bool is_transposed) {
    const cublasOperation_t value = is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_lt(cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof value), "describing a product");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, layout.left.is_transposed);
  set(CUBLASLT_MATMUL_DESC_TRANSB, layout.right.is_transposed);
  return owned;
}

/// Largest power of two up to 256 that divides an address.
[[nodiscard]] std::uint32_t alignment_of(const void* p) {
  std::uint32_t alignment = 256;
  while (reinterpret_cast<std::uintptr_t>(p) % alignment != 0) alignment /= 2;
  return alignment;
}

}  // namespace

struct Gemm::State {
  explicit State(std::span<std::byte> given) : workspace(given) {
    require_reachable(probe_devices(), 0);  // otherwise cuBLASLt would only return a number
    cublasLtHandle_t created = nullptr;
    check_lt(cublasLtCreate(&created), "starting cuBLASLt");
    handle.reset(created);
  }

  [[nodiscard]] Plan make_plan(const Key& key) const {
    Plan plan{make_operation(key.layout), make_layout(key.layout.left, CUDA_R_16BF),
              make_layout(key.layout.right, CUDA_R_16BF), make_layout(key.layout.result, key.type)};
    cublasLtMatmulPreference_t created = nullptr;
    check_lt(cublasLtMatmulPreferenceCreate(&created), "describing a preference");
    const Preference preference(created);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
      check_lt(cublasLtMatmulPreferenceSetAttribute(created, which, &value, sizeof value),
               "describing a preference");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace.size());
    // The library's left factor is our b.
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment_b);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment_a);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment_c);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment_c);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    check_lt(
        cublasLtMatmulAlgoGetHeuristic(handle.get(), plan.operation.get(), plan.left.get(), plan.right.get(),
                                       plan.result.get(), plan.result.get(), created, 1, &found, &count),
        "choosing how to multiply");
    if (count == 0) {
      const auto& [left, right, result, depth] = key.layout;
      throw std::runtime_error(concat("cuBLASLt has no way to a product of [", result.cols, " x ", depth,
                                      "] and [", depth, " x ", result.rows, "] with ", workspace.size(),
                                      " bytes of workspace"));
    }
    plan.algorithm = found.algo;
    return plan;
  }

  void run(const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b, void* c,
           std::size_t number_bytes, const Key& key, Stream stream) {
    const ColumnMajor& result = key.layout.result;
    if (result.rows == 0 || result.cols == 0) return;
    if (key.layout.depth == 0) {
      if (key.adds) return;
      check(cudaMemset2DAsync(c, result.leading * number_bytes, 0, result.rows * number_bytes, result.cols,
                              stream),
            "clearing an empty product");
      return;
    }
    auto place = plans.find(key);
    if (place == plans.end()) place = plans.emplace(key, make_plan(key)).first;
    const Plan& plan = place->second;
    const float alpha = 1.0F, beta = key.adds ? 1.0F : 0.0F;
    check_lt(cublasLtMatmul(handle.get(), plan.operation.get(), &alpha, b.data, plan.left.get(), a.data,
                            plan.right.get(), &beta, c, plan.result.get(), c, plan.result.get(),
                            &plan.algorithm, workspace.data(), workspace.size(), stream),
             "multiplying matrices");
  }

  Owned<cublasLtHandle_t, cublasLtDestroy> handle;
  std::span<std::byte> workspace;
  std::map<Key, Plan> plans;
};

Gemm::Gemm(std::span<std::byte> workspace) : state_(std::make_unique<State>(workspace)) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

void Gemm::run(Product product, const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b,
               const MatrixView<Bf16>& c, Update update, Stream stream) {
  const Key key{gemm_layout(product, a, b, c), CUDA_R_16BF,          update == Update::add,
                alignment_of(a.data),          alignment_of(b.data), alignment_of(c.data)};
  state_->run(a, b, c.data, sizeof(Bf16), key, stream);
}

void Gemm::run(Product product, const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b,
               const MatrixView<float>& c, Update update, Stream stream) {
  const Key key{gemm_layout(product, a, b, c), CUDA_R_32F,           update == Update::add,
                alignment_of(a.data),          alignment_of(b.data), alignment_of(c.data)};
  state_->run(a, b, c.data, sizeof(float), key, stream);
}

}  // namespace slimpack::kernels::cuda
