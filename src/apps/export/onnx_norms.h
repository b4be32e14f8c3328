// Normalizers in evaluation mode, as ONNX operators.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/export/onnx_graph.h"
#include "dtn/config/norm_config.h"
#include "dtn/io/safetensors.h"
#include "dtn/nn/tokens.h"

namespace dtn::onnx {

// Weights of a model by their names, float32 in host memory.
class Weights {
 public:
  explicit Weights(const NamedTensors& tensors);
  // Returns the tensor of that name. If there is none, `find` returns null and `at` throws Error.
  const Tensor* find(const std::string& name) const;
  const Tensor& at(const std::string& name) const;

 private:
  std::map<std::string, Tensor> tensors_;
};

// Position of a normalizer in the model, and the path of its weights.
struct NormPlace {
  std::string path;  // blocks.0.norm1
  std::int64_t channels, heads;
  double eps;
  std::int64_t tokens;  // T, including the prefix
  TokenGrid grid;       // of the other tokens
};

// LayerNorm over the last dimension of x, [..., channels].
Value layer_norm(Graph& g, const Weights& weights, const std::string& path, double eps,
                 const Value& x);

// Returns a float32 tensor of double-precision values.
Tensor constant(const std::vector<double>& values, const Shape& shape);
std::vector<double> doubles_of(const Tensor& tensor);

// A normalizer to write.
struct Norm {
  Graph& g;
  const Weights& weights;
  const NormConfig& config;
  const NormPlace& place;

  std::string name(const std::string& of) const { return place.path + "." + of; }
  Value weight(const std::string& of) const { return g.tensor(name(of), weights.at(name(of))); }
  std::vector<double> values(const std::string& of) const {
    return doubles_of(weights.at(name(of)));
  }
  // [C], computed from other tensors.
  Value per_channel(const std::string& of, const std::vector<double>& v) const {
    return g.tensor(name(of), constant(v, {place.channels}));
  }
  // False: the norm has no weight and bias, and its gains and shifts are 1 and 0.
  bool affine() const { return weights.find(name("weight")) != nullptr; }
  std::vector<double> gains() const { return affine() ? values("weight") : filled(1); }
  std::vector<double> shifts() const { return affine() ? values("bias") : filled(0); }
  Value scaled_by_weight(const Value& xhat) const {
    return affine() ? mul(g, xhat, weight("weight")) : xhat;
  }
  Value weighted(const Value& xhat) const {
    return affine() ? add(g, scaled_by_weight(xhat), weight("bias")) : xhat;
  }
  // [C]
  std::vector<double> filled(double value) const {
    return std::vector<double>(static_cast<std::size_t>(place.channels), value);
  }
  // x / sqrt(variance + eps).
  Value over_deviation(const Value& x, const Value& variance) const {
    return div(g, x, square_root(g, shifted(g, variance, place.eps)));
  }
};

// LayerNorm over the last dimension of x with the weight and bias of `n`, if it has them.
Value layer_norm(const Norm& n, const Value& x);

// Normalizes x [N, T, channels]. Throws ConfigError for a normalizer without an ONNX form, and
// names those that have one.
Value normalized(const Norm& n, const Value& x);

// DTN (onnx_dtn.cpp); `normalized` calls it.
Value dynamic_token_norm(const Norm& n, const Value& x);

}  // namespace dtn::onnx
