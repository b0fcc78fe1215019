#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cuda/library_attention.hpp"
#include "slimpack/core/error.hpp"
#include "tests/kernels_cuda/host_device.hpp"

// A library's attention in plain loops, as cuDNN's is on a GPU.
namespace slimpack::testing {

/// Calls f(query head, query's row, key's row, score) for what each query of a slice sees.
template <class F>
void for_each_pair(const kernels::cuda::PackProblem& p, const kernels::cuda::AttentionSlice& s,
                   const kernels::cuda::AttentionInput& in, F&& f) {
  const std::size_t dim = p.shape.head_dim;
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  for (std::size_t head = 0; head < p.shape.heads; ++head) {
    for (std::int32_t t = 0; t < s.tokens; ++t) {
      const auto row = static_cast<std::size_t>(s.query_begin + t);
      for (std::int32_t k = 0; k <= s.prefix + t; ++k) {
        const auto key = static_cast<std::size_t>(s.key_begin + k);
        double score = 0.0;
        for (std::size_t i = 0; i < dim; ++i) {
          score += static_cast<double>(kernels::cuda::to_float(in.q.row(row)[head * dim + i])) *
                   kernels::cuda::to_float(in.k.row(key)[head / p.shape.group() * dim + i]);
        }
        f(head, row, key, score * scale);
      }
    }
  }
}

inline void attend(const kernels::cuda::PackProblem& p, const kernels::cuda::AttentionSlice& s,
                   const kernels::cuda::PackMatrices& m) {
  const std::size_t dim = p.shape.head_dim;
  std::vector<double> sums(p.shape.heads * p.tokens), outs(p.tokens * p.shape.query_width());
  for_each_pair(p, s, m.in, [&](std::size_t head, std::size_t row, std::size_t key, double score) {
    const double weight = std::exp(score);
    sums[head * p.tokens + row] += weight;
    for (std::size_t i = 0; i < dim; ++i) {
      outs[row * p.shape.query_width() + head * dim + i] +=
          weight * kernels::cuda::to_float(m.in.v.row(key)[head / p.shape.group() * dim + i]);
    }
  });
  for (std::int32_t t = 0; t < s.tokens; ++t) {
    const auto row = static_cast<std::size_t>(s.query_begin + t);
    for (std::size_t i = 0; i < p.shape.query_width(); ++i) {
      const double sum = sums[i / dim * p.tokens + row];
      m.out.row(row)[i] =
          kernels::cuda::to_bf16(static_cast<float>(outs[row * p.shape.query_width() + i] / sum));
      m.lse.row(i / dim)[row] = static_cast<float>(std::log(sum));
    }
  }
}

inline void attend_backward(const kernels::cuda::PackProblem& p, const kernels::cuda::AttentionSlice& s,
                            const kernels::cuda::PackMatrices& m) {
  const std::size_t dim = p.shape.head_dim, width = p.shape.query_width();
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  std::vector<double> dq(p.tokens * width);
  for_each_pair(p, s, m.in, [&](std::size_t head, std::size_t row, std::size_t key, double score) {
    const std::size_t shared = head / p.shape.group() * dim,
                      to = static_cast<std::size_t>(
                          gradient_row(s, static_cast<std::int32_t>(key) - s.key_begin, p.gradient_pieces));
    const double weight = std::exp(score - static_cast<double>(m.lse.row(head)[row]));
    double made = 0.0, delta = 0.0;
    for (std::size_t i = 0; i < dim; ++i) {
      const double dout = kernels::cuda::to_float(m.dout.row(row)[head * dim + i]);
      made += dout * kernels::cuda::to_float(m.in.v.row(key)[shared + i]);
      delta += dout * kernels::cuda::to_float(m.out.row(row)[head * dim + i]);
      m.dv.row(to)[shared + i] += static_cast<float>(weight * dout);
    }
    const double dscore = weight * (made - delta) * scale;
    for (std::size_t i = 0; i < dim; ++i) {
      dq[row * width + head * dim + i] += dscore * kernels::cuda::to_float(m.in.k.row(key)[shared + i]);
      m.dk.row(to)[shared + i] +=
          static_cast<float>(dscore * kernels::cuda::to_float(m.in.q.row(row)[head * dim + i]));
    }
  });
  for (std::int32_t t = 0; t < s.tokens; ++t) {
    const auto row = static_cast<std::size_t>(s.query_begin + t);
    for (std::size_t i = 0; i < width; ++i)
      m.dq.row(row)[i] = kernels::cuda::to_bf16(static_cast<float>(dq[row * width + i]));
  }
}

struct LibraryOptions {
  std::size_t workspace = 64;
  bool refuses_gradients = false;
  bool any_order = false;  ///< of gradients, it says
};

/// Checks what a library is given, and that its lists are in the device's memory.
[[nodiscard]] inline kernels::cuda::AttentionLibrary<HostDevice::Stream> plain_library(
    const LibraryOptions& options = {}) {
  return [options](const kernels::cuda::PackProblem& given) {
    kernels::cuda::PlannedAttention<HostDevice::Stream> out;
    if (given.gradients && options.refuses_gradients) {
      out.refusal = "it has no gradients";
      return out;
    }
    out.workspace_bytes = options.workspace;
    out.any_order = given.gradients && options.any_order;
    out.lists.resize(given.slices.size() * sizeof(kernels::cuda::AttentionSlice));
    std::memcpy(out.lists.data(), given.slices.data(), out.lists.size());
    const auto problem = std::make_shared<const kernels::cuda::PackProblem>(given);
    const auto call = [problem, workspace = options.workspace](auto work) {
      return [=](const kernels::cuda::PackMatrices& m, HostDevice::Stream stream) {
        const kernels::cuda::PackProblem& p = *problem;
        const auto stride = [](const auto& matrix) { return static_cast<std::int64_t>(matrix.stride); };
        require(stride(m.in.q) == p.strides.q && stride(m.in.k) == p.strides.k &&
                    stride(m.in.v) == p.strides.v && stride(m.out) == p.strides.out &&
                    m.in.q.rows == p.tokens && m.in.k.rows == p.cache,
                "matrices have other shapes than the library was told");
        require(!p.gradients || m.dq.stride == static_cast<std::size_t>(p.strides.dq),
                "dq has another stride");
        require(m.workspace.size() >= workspace, "the workspace is too small");
        stream.add([=] {
          std::fill_n(m.workspace.begin(), workspace, std::byte{0xee});
          std::vector<kernels::cuda::AttentionSlice> slices(problem->slices.size());
          std::memcpy(slices.data(), m.lists, slices.size() * sizeof(kernels::cuda::AttentionSlice));
          for (const kernels::cuda::AttentionSlice& s : slices) work(*problem, s, m);
          return true;
        });
      };
    };
    out.forward = call(attend);
    out.backward = call(attend_backward);
    return out;
  };
}

}  // namespace slimpack::testing
