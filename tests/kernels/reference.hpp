#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "slimpack/model/transformer.hpp"

// A Llama-style transformer in plain loops: whole samples one at a time, no slices, packs or stages, all
// probabilities kept. Shares no code with kernels/, only names and shapes of the weights.
namespace slimpack::testing {

// The two loops in which nearly all of the reference's time goes. What a sanitizer has to watch is the kernels' memory, not
// this: checked number by number, it took more than half of the time of whole training runs.

/// The sum of left[i] * right[i].
__attribute__((no_sanitize("address", "undefined", "thread"))) inline double reference_dot(
    const double* left, const double* right, std::size_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += left[i] * right[i];
  return sum;
}

/// to[i] += factor * from[i].
__attribute__((no_sanitize("address", "undefined", "thread"))) inline void reference_add(double factor,
                                                                                         const double* from,
                                                                                         double* to,
                                                                                         std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

class Reference {
 public:
  using Tensor = std::vector<double>;  ///< row by row
  using Rows = std::vector<std::vector<double>>;

  explicit Reference(const Transformer& m) : m_(m) {}

  std::map<std::string, Tensor> weights, gradients;
  double loss = 0.0;

  void clear() {
    loss = 0.0;
    for (const auto& [name, tensor] : weights) gradients[name].assign(tensor.size(), 0.0);
  }

  /// Adds a sample's loss and gradients, times `scale`.
  void run(std::span<const std::int32_t> ids, double scale) {
    std::vector<Layer> layers(size(m_.layers));
    Rows x;
    for (const std::int32_t id : ids) {
      const auto row = weights.at("embedding").begin() + std::ptrdiff_t{id} * m_.hidden;
      x.emplace_back(row, row + m_.hidden);
    }
    for (std::size_t l = 0; l < layers.size(); ++l) forward(layers[l], l, x);
    Rows dx = head(x, ids, scale);
    for (std::size_t l = layers.size(); l-- > 0;) backward(layers[l], l, dx);
    for (std::size_t t = 0; t < ids.size(); ++t) {
      for (std::size_t i = 0; i < size(m_.hidden); ++i) {
        gradients.at("embedding")[size(ids[t]) * size(m_.hidden) + i] += dx[t][i];
      }
    }
  }

 private:
  struct Layer {
    Rows x, normed, qkv, mixed, middle, normed2, gate_up, act;
    std::vector<Rows> p;  ///< [head][query][key]
  };

  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }
  static std::string name(std::size_t layer, const char* tensor) {
    return "layers." + std::to_string(layer) + "." + tensor;
  }

  Rows times(const Rows& x, const std::string& tensor) const {
    const Tensor& w = weights.at(tensor);
    Rows y;
    for (const auto& row : x) {
      const std::size_t outputs = w.size() / row.size();
      y.emplace_back(outputs, 0.0);
      for (std::size_t i = 0; i < row.size(); ++i)
        reference_add(row[i], &w[i * outputs], y.back().data(), outputs);
    }
    return y;
  }

  /// Returns the gradient of x, adds that of the tensor.
  Rows times_backward(const Rows& x, const std::string& tensor, const Rows& dy) {
    const Tensor& w = weights.at(tensor);
    Tensor& dw = gradients.at(tensor);
    Rows dx;
    for (std::size_t t = 0; t < x.size(); ++t) {
      dx.emplace_back(x[t].size(), 0.0);
      const std::size_t outputs = dy[t].size();
      for (std::size_t i = 0; i < x[t].size(); ++i) {
        dx[t][i] = reference_dot(dy[t].data(), &w[i * outputs], outputs);
        reference_add(x[t][i], dy[t].data(), &dw[i * outputs], outputs);
      }
    }
    return dx;
  }

  static double length(const std::vector<double>& row) {
    double square = 0.0;
    for (const double v : row) square += v * v;
    return std::sqrt(square / double(row.size()) + 1e-5);
  }

  Rows norm(const Rows& x, const std::string& tensor) const {
    Rows y = x;
    for (auto& row : y) {
      const double r = length(row);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] *= weights.at(tensor)[i] / r;
    }
    return y;
  }

  Rows norm_backward(const Rows& x, const std::string& tensor, const Rows& dy) {
    Rows dx = dy;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const double r = length(x[t]), n = double(x[t].size());
      double along = 0.0;
      for (std::size_t i = 0; i < x[t].size(); ++i) {
        along += dy[t][i] * weights.at(tensor)[i] * x[t][i];
        gradients.at(tensor)[i] += dy[t][i] * x[t][i] / r;
      }
      for (std::size_t i = 0; i < x[t].size(); ++i) {
        dx[t][i] = dy[t][i] * weights.at(tensor)[i] / r - x[t][i] * along / (n * r * r * r);
      }
    }
    return dx;
  }

  /// Turns queries and keys by their positions, times `direction`.
  void turn(Rows& qkv, double direction) const {
    const std::size_t half = size(m_.head_dim) / 2;
    for (std::size_t t = 0; t < qkv.size(); ++t) {
      for (std::size_t i = 0; i < half; ++i) {
        const double angle = direction * double(t) * std::pow(1e4, -double(i) / double(half));
        const double cosine = std::cos(angle), sine = std::sin(angle);
        for (std::size_t head = 0; head < size(m_.heads + m_.kv_heads); ++head) {
          double& a = qkv[t][head * 2 * half + i];
          double& b = qkv[t][head * 2 * half + half + i];
          const double before = a;
          a = before * cosine - b * sine;
          b = before * sine + b * cosine;
        }
      }
    }
  }

  [[nodiscard]] std::size_t key_of(std::size_t head) const {
    const std::size_t group = size(m_.heads / m_.kv_heads);
    return (size(m_.heads) + head / group) * size(m_.head_dim);
  }

  void attend(Layer& layer) const {
    const std::size_t d = size(m_.head_dim), tokens = layer.qkv.size();
    layer.p.assign(size(m_.heads), Rows(tokens));
    layer.mixed.assign(tokens, std::vector<double>(size(m_.heads) * d, 0.0));
    for (std::size_t head = 0; head < size(m_.heads); ++head) {
      const std::size_t k = key_of(head), v = k + size(m_.kv_heads) * d;
      for (std::size_t t = 0; t < tokens; ++t) {
        auto& p = layer.p[head][t];
        p.assign(t + 1, 0.0);
        double sum = 0.0;
        for (std::size_t j = 0; j <= t; ++j) {
          p[j] = reference_dot(&layer.qkv[t][head * d], &layer.qkv[j][k], d);
          p[j] = std::exp(p[j] / std::sqrt(double(d)));
          sum += p[j];
        }
        for (std::size_t j = 0; j <= t; ++j) {
          p[j] /= sum;
          reference_add(p[j], &layer.qkv[j][v], &layer.mixed[t][head * d], d);
        }
      }
    }
  }

  Rows attend_backward(const Layer& layer, const Rows& dmixed) const {
    const std::size_t d = size(m_.head_dim), tokens = layer.qkv.size();
    Rows dqkv(tokens, std::vector<double>(layer.qkv[0].size(), 0.0));
    for (std::size_t head = 0; head < size(m_.heads); ++head) {
      const std::size_t q = head * d, k = key_of(head), v = k + size(m_.kv_heads) * d;
      for (std::size_t t = 0; t < tokens; ++t) {
        const auto& p = layer.p[head][t];
        std::vector<double> dp(t + 1, 0.0);
        double mean = 0.0;
        for (std::size_t j = 0; j <= t; ++j) {
          dp[j] = reference_dot(&dmixed[t][q], &layer.qkv[j][v], d);
          reference_add(p[j], &dmixed[t][q], &dqkv[j][v], d);
          mean += p[j] * dp[j];
        }
        for (std::size_t j = 0; j <= t; ++j) {
          const double ds = p[j] * (dp[j] - mean) / std::sqrt(double(d));
          reference_add(ds, &layer.qkv[j][k], &dqkv[t][q], d);
          reference_add(ds, &layer.qkv[t][q], &dqkv[j][k], d);
        }
      }
    }
    return dqkv;
  }

  static void add(Rows& x, const Rows& y) {
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
    }
  }

  void forward(Layer& layer, std::size_t l, Rows& x) const {
    layer.x = x;
    layer.normed = norm(x, name(l, "attention_norm"));
    layer.qkv = times(layer.normed, name(l, "qkv"));
    turn(layer.qkv, 1.0);
    attend(layer);
    add(x, times(layer.mixed, name(l, "output")));
    layer.middle = x;
    layer.normed2 = norm(x, name(l, "mlp_norm"));
    layer.gate_up = times(layer.normed2, name(l, "gate_up"));
    const std::size_t f = size(m_.ffn);
    for (const auto& row : layer.gate_up) {
      layer.act.emplace_back(f);
      for (std::size_t i = 0; i < f; ++i)
        layer.act.back()[i] = row[i] / (1.0 + std::exp(-row[i])) * row[f + i];
    }
    add(x, times(layer.act, name(l, "down")));
  }

  void backward(const Layer& layer, std::size_t l, Rows& dx) {
    const std::size_t f = size(m_.ffn);
    const Rows dact = times_backward(layer.act, name(l, "down"), dx);
    Rows dgate_up = layer.gate_up;
    for (std::size_t t = 0; t < dact.size(); ++t) {
      for (std::size_t i = 0; i < f; ++i) {
        const double g = layer.gate_up[t][i], up = layer.gate_up[t][f + i], s = 1.0 / (1.0 + std::exp(-g));
        dgate_up[t][i] = dact[t][i] * up * (s + g * s * (1.0 - s));
        dgate_up[t][f + i] = dact[t][i] * g * s;
      }
    }
    const Rows dnormed2 = times_backward(layer.normed2, name(l, "gate_up"), dgate_up);
    add(dx, norm_backward(layer.middle, name(l, "mlp_norm"), dnormed2));
    Rows dqkv = attend_backward(layer, times_backward(layer.mixed, name(l, "output"), dx));
    turn(dqkv, -1.0);
    const Rows dnormed = times_backward(layer.normed, name(l, "qkv"), dqkv);
    add(dx, norm_backward(layer.x, name(l, "attention_norm"), dnormed));
  }

  /// Adds the loss; returns the gradient of the last layer's output.
  Rows head(const Rows& x, std::span<const std::int32_t> ids, double scale) {
    const Rows normed = norm(x, "final_norm");
    Rows dlogits = times(normed, "head");
    for (std::size_t t = 0; t < ids.size(); ++t) {
      auto& row = dlogits[t];
      if (t + 1 == ids.size()) {
        row.assign(row.size(), 0.0);
        continue;
      }
      double sum = 0.0;
      for (const double logit : row) sum += std::exp(logit);
      loss += scale * (std::log(sum) - row[size(ids[t + 1])]);
      for (double& logit : row) logit = scale * std::exp(logit) / sum;
      row[size(ids[t + 1])] -= scale;
    }
    return norm_backward(x, "final_norm", times_backward(normed, "head", dlogits));
  }

  Transformer m_;
};

}  // namespace slimpack::testing
