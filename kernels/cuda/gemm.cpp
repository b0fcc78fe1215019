#include "kernels/cuda/gemm.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/library_plans.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/runtime_private.hpp"
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
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// All that cuBLASLt's choice depends on.
struct Key {
  GemmLayout layout;
  cudaDataType_t type = CUDA_R_16BF;  ///< of the result
  bool adds = false;
  std::uint32_t alignment_a = 0, alignment_b = 0, alignment_c = 0;  ///< bytes

  friend auto operator<=>(const Key&, const Key&) = default;
};

/// A product as cuBLASLt describes it: made at each call, since it takes no memory and next to no time.
class Description {
 public:
  explicit Description(const Key& key) {
    const GemmLayout& l = key.layout;
    check_lt(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
    set_turned(CUBLASLT_MATMUL_DESC_TRANSA, l.left.is_transposed);
    set_turned(CUBLASLT_MATMUL_DESC_TRANSB, l.right.is_transposed);
    set_layout(left_, l.left, CUDA_R_16BF);
    set_layout(right_, l.right, CUDA_R_16BF);
    set_layout(result_, l.result, key.type);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  [[nodiscard]] cublasLtMatmulDesc_t operation() { return &operation_; }
  [[nodiscard]] cublasLtMatrixLayout_t left() { return &left_; }
  [[nodiscard]] cublasLtMatrixLayout_t right() { return &right_; }
  [[nodiscard]] cublasLtMatrixLayout_t result() { return &result_; }

 private:
  void set_turned(cublasLtMatmulDescAttributes_t which, bool is_transposed) {
    const cublasOperation_t value = is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_lt(cublasLtMatmulDescSetAttribute(&operation_, which, &value, sizeof value),
             "describing a product");
  }
  static void set_layout(cublasLtMatrixLayoutOpaque_t& layout, const ColumnMajor& m, cudaDataType_t type) {
    check_lt(cublasLtMatrixLayoutInit(&layout, type, m.rows, m.cols, static_cast<std::int64_t>(m.leading)),
             "describing a matrix");
  }

  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t left_{}, right_{}, result_{};
};

/// Where a product's matrices are.
struct Places {
  const void *left = nullptr, *right = nullptr;
  void* result = nullptr;
};

[[nodiscard]] std::size_t bytes_of(const ColumnMajor& m, cudaDataType_t type) {
  const std::size_t number = type == CUDA_R_32F ? sizeof(float) : sizeof(Bf16), line = 256;
  return (m.leading * m.cols * number + line - 1) / line * line;
}

/// Places in memory for a product's matrices; none if it is too small.
[[nodiscard]] std::optional<Places> places_in(std::span<std::byte> memory, const Key& key) {
  const std::size_t left = bytes_of(key.layout.left, CUDA_R_16BF),
                    right = bytes_of(key.layout.right, CUDA_R_16BF);
  if (left + right + bytes_of(key.layout.result, key.type) > memory.size()) return std::nullopt;
  return Places{memory.data(), memory.data() + left, memory.data() + left + right};
}

[[nodiscard]] double flops_of(const GemmLayout& layout) {
  return 2.0 * static_cast<double>(layout.result.rows) * static_cast<double>(layout.result.cols) *
         static_cast<double>(layout.depth);
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

  /// cuBLASLt's best ways to a product, the one first that it deems fastest. @param most of them
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> ways_to(const Key& key, int most) const {
    Description product(key);
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
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
    int count = 0;
    check_lt(cublasLtMatmulAlgoGetHeuristic(handle.get(), product.operation(), product.left(),
                                            product.right(), product.result(), product.result(), created,
                                            most, found.data(), &count),
             "choosing how to multiply");
    if (count == 0) {
      const auto& [left, right, result, depth] = key.layout;
      throw std::runtime_error(concat("cuBLASLt has no way to a product of [", result.cols, " x ", depth,
                                      "] and [", depth, " x ", result.rows, "] with ", workspace.size(),
                                      " bytes of workspace"));
    }
    std::vector<cublasLtMatmulAlgo_t> ways;
    ways.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) ways.push_back(found[static_cast<std::size_t>(i)].algo);
    return ways;
  }

  [[nodiscard]] const cublasLtMatmulAlgo_t& way_to(const Key& key, double work) {
    return choices.get(key, work, [&] { return ways_to(key, 1).front(); });
  }

  [[nodiscard]] cublasStatus_t multiply(const Key& key, const Places& places,
                                        const cublasLtMatmulAlgo_t& algorithm, Stream stream) const {
    Description product(key);
    const float alpha = 1.0F, beta = key.adds ? 1.0F : 0.0F;
    return cublasLtMatmul(handle.get(), product.operation(), &alpha, places.left, product.left(),
                          places.right, product.right(), &beta, places.result, product.result(),
                          places.result, product.result(), &algorithm, workspace.data(), workspace.size(),
                          stream);
  }

  /// Seconds of a way, the least of some; infinite if it can't be gone.
  [[nodiscard]] double seconds_of(const Key& key, const Places& places, const cublasLtMatmulAlgo_t& way,
                                  Stream stream) const {
    constexpr int repeats = 4;  // the first one may load code
    const Event begin, end;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < repeats; ++i) {
      begin.record(stream);
      if (multiply(key, places, way, stream) != CUBLAS_STATUS_SUCCESS)
        return std::numeric_limits<double>::infinity();
      end.record(stream);
      const double seconds = end.seconds_since(begin);
      if (i > 0) least = std::min(least, seconds);
    }
    return least;
  }

  /// The fastest of the best eight ways to a product.
  [[nodiscard]] cublasLtMatmulAlgo_t fastest(const Key& key, const cublasLtMatmulAlgo_t& otherwise,
                                             std::span<std::byte> scratch, Stream stream) const {
    constexpr int candidates = 8;
    const auto places = places_in(scratch, key);
    if (!places) return otherwise;
    cublasLtMatmulAlgo_t best = otherwise;
    double least = std::numeric_limits<double>::infinity();
    for (const cublasLtMatmulAlgo_t& way : ways_to(key, candidates)) {
      const double seconds = seconds_of(key, *places, way, stream);
      if (seconds < least) {
        least = seconds;
        best = way;
      }
    }
    return best;
  }

  void run(Product which, const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b, void* c,
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
    Key rounded = key;
    rounded.layout = rounded_tokens(which, key.layout);
    const double work = flops_of(key.layout);
    const Places places{b.data, a.data, c};
    cublasStatus_t status = multiply(key, places, way_to(rounded, work), stream);
    // It looks before it starts: what is chosen for the rounded number of tokens may be no way for this one.
    const bool refused = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
    if (refused && key != rounded) status = multiply(key, places, way_to(key, work), stream);
    check_lt(status, "multiplying matrices");
  }

  Owned<cublasLtHandle_t, cublasLtDestroy> handle;
  std::span<std::byte> workspace;
  static constexpr std::size_t most_choices = 512;
  TriedChoices<Key, cublasLtMatmulAlgo_t> choices{most_choices};
};

Gemm::Gemm(std::span<std::byte> workspace) : state_(std::make_unique<State>(workspace)) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

void Gemm::run(Product product, const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b,
               const MatrixView<Bf16>& c, Update update, Stream stream) {
  const Key key{gemm_layout(product, a, b, c), CUDA_R_16BF,          update == Update::add,
                alignment_of(a.data),          alignment_of(b.data), alignment_of(c.data)};
  state_->run(product, a, b, c.data, sizeof(Bf16), key, stream);
}

void Gemm::run(Product product, const MatrixView<const Bf16>& a, const MatrixView<const Bf16>& b,
               const MatrixView<float>& c, Update update, Stream stream) {
  const Key key{gemm_layout(product, a, b, c), CUDA_R_32F,           update == Update::add,
                alignment_of(a.data),          alignment_of(b.data), alignment_of(c.data)};
  state_->run(product, a, b, c.data, sizeof(float), key, stream);
}

std::size_t Gemm::try_hot(std::span<std::byte> scratch, Stream stream) {
  constexpr std::size_t most = 32;  // in a call
  return state_->choices.try_hot(most, [&](const Key& key, const cublasLtMatmulAlgo_t& choice) {
    return state_->fastest(key, choice, scratch, stream);
  });
}

}  // namespace slimpack::kernels::cuda
