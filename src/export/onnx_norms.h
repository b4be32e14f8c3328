// Normalizers in evaluation, as ONNX operators.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dtn/config/norm_config.h"
#include "dtn/io/safetensors.h"
#include "dtn/nn/tokens.h"
#include "export/onnx_graph.h"

namespace dtn::onnx {

// The weights of a model, by their names, float32 in host memory.
class Weights {
 public:
  explicit Weights(const NamedTensors& tensors);
  // The tensor of that name; `find` gives null where there is none, `at` throws Error.
  const Tensor* find(const std::string& name) const;
  const Tensor& at(const std::string& name) const;

 private:
  std::map<std::string, Tensor> tensors_;
};

// Where a normalizer stands, and under which name its weights are.
struct NormPlace {
  std::string path;  // blocks.0.norm1
  std::int64_t channels, heads;
  double eps;
  std::int64_t tokens;  // T, the prefix among them
  TokenGrid grid;       // of the others
};

// LayerNorm over the last dimension of x, [..., channels].
Value layer_norm(Graph& g, const Weights& weights, const std::string& path, double eps,
                 const Value& x);

// Of x [N, T, channels]. Throws ConfigError for a normalizer that has no such form, naming those
// that have.
Value normalized(Graph& g, const Weights& weights, const NormConfig& config, const NormPlace& place,
                 const Value& x);

// DTN (onnx_dtn.cpp), which `normalized` calls.
Value dynamic_token_norm(Graph& g, const Weights& weights, const NormConfig& config,
                         const NormPlace& place, const Value& x);

// A tensor of float32, of values in double precision.
Tensor constant(const std::vector<double>& values, const Shape& shape);
std::vector<double> doubles_of(const Tensor& tensor);

}  // namespace dtn::onnx
