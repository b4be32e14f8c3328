// The operations of a model as ONNX operators, in the form that the graph's opset has for them.
// Shapes are those of the results; the first dimension, N images, is never named.
#pragma once

#include "dtn/config/model_config.h"
#include "export/onnx_graph.h"

namespace dtn::onnx {

// Elementwise, shapes broadcast.
Value add(Graph& g, const Value& a, const Value& b);
Value sub(Graph& g, const Value& a, const Value& b);
Value mul(Graph& g, const Value& a, const Value& b);
Value div(Graph& g, const Value& a, const Value& b);
Value scaled(Graph& g, const Value& x, double factor);
Value shifted(Graph& g, const Value& x, double by);
Value square_root(Graph& g, const Value& x);
Value square(Graph& g, const Value& x);
Value activated(Graph& g, const Value& x, MlpActivation act);

// 0 copies an extent of x.
Value reshape(Graph& g, const Value& x, const Ints& shape);
Value transpose(Graph& g, const Value& x, const Ints& order);
Value concat(Graph& g, const std::vector<Value>& parts, std::int64_t axis);
// Entries [begin, end) of a dimension.
Value slice(Graph& g, const Value& x, std::int64_t axis, std::int64_t begin, std::int64_t end);
// One entry of a dimension, which goes.
Value take(Graph& g, const Value& x, std::int64_t axis, std::int64_t index);

// Over the axes; they stay with extent 1 unless `keep` is false.
Value mean(Graph& g, const Value& x, const Ints& axes, bool keep = true);
Value matmul(Graph& g, const Value& a, const Value& b);
Value softmax(Graph& g, const Value& x);  // over the last dimension

}  // namespace dtn::onnx
