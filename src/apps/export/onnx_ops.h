// Operations of a model as ONNX operators, in the form that the graph's opset needs. Shapes are
// those of the results; the first dimension, N images, is never named.
#pragma once

#include "apps/export/onnx_graph.h"
#include "dtn/config/model_config.h"

namespace dtn::onnx {

// Elementwise operations; shapes broadcast.
Value add(Graph& g, const Value& a, const Value& b);
Value sub(Graph& g, const Value& a, const Value& b);
Value mul(Graph& g, const Value& a, const Value& b);
Value div(Graph& g, const Value& a, const Value& b);
Value scaled(Graph& g, const Value& x, double factor);
Value shifted(Graph& g, const Value& x, double by);
Value square_root(Graph& g, const Value& x);
Value square(Graph& g, const Value& x);
Value activated(Graph& g, const Value& x, MlpActivation act);

// Reshapes x; 0 copies an extent of x.
Value reshape(Graph& g, const Value& x, const Ints& shape);
Value transpose(Graph& g, const Value& x, const Ints& order);
Value concat(Graph& g, const std::vector<Value>& parts, std::int64_t axis);
// Takes the entries [begin, end) of a dimension.
Value slice(Graph& g, const Value& x, std::int64_t axis, std::int64_t begin, std::int64_t end);
// Takes one entry of a dimension, and removes the dimension.
Value take(Graph& g, const Value& x, std::int64_t axis, std::int64_t index);

// Mean over the axes; they keep extent 1 unless `keep` is false.
Value mean(Graph& g, const Value& x, const Ints& axes, bool keep = true);
Value matmul(Graph& g, const Value& a, const Value& b);
Value softmax(Graph& g, const Value& x);  // over the last dimension

}  // namespace dtn::onnx
