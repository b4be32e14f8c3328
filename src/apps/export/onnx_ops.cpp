#include "apps/export/onnx_ops.h"

#include <cmath>

namespace dtn::onnx {

Value add(Graph& g, const Value& a, const Value& b) { return g.node("Add", {a, b}); }
Value sub(Graph& g, const Value& a, const Value& b) { return g.node("Sub", {a, b}); }
Value mul(Graph& g, const Value& a, const Value& b) { return g.node("Mul", {a, b}); }
Value div(Graph& g, const Value& a, const Value& b) { return g.node("Div", {a, b}); }
Value scaled(Graph& g, const Value& x, double factor) { return mul(g, x, g.number(factor)); }
Value shifted(Graph& g, const Value& x, double by) { return add(g, x, g.number(by)); }
Value square_root(Graph& g, const Value& x) { return g.node("Sqrt", {x}); }
Value square(Graph& g, const Value& x) { return mul(g, x, x); }

namespace {

constexpr int kOpsetOfAxesInput = 18;  // ReduceMean takes axes as an input; earlier, an attribute
constexpr int kOpsetOfGelu = 20;

Value gelu(Graph& g, const Value& x, bool by_tanh) {
  if (g.opset() >= kOpsetOfGelu) {
    return g.node("Gelu", {x}, {{"approximate", std::string(by_tanh ? "tanh" : "none")}});
  }
  Value phi;
  if (by_tanh) {
    const Value cubed = mul(g, x, square(g, x));
    const Value inner = add(g, x, scaled(g, cubed, 0.044715));
    phi = g.node("Tanh", {scaled(g, inner, std::sqrt(2 / M_PI))});
  } else {
    phi = g.node("Erf", {scaled(g, x, std::sqrt(0.5))});
  }
  return mul(g, x, scaled(g, shifted(g, phi, 1), 0.5));
}

}  // namespace

Value activated(Graph& g, const Value& x, MlpActivation act) {
  switch (act) {
    case MlpActivation::kGelu: return gelu(g, x, false);
    case MlpActivation::kGeluTanh: return gelu(g, x, true);
    case MlpActivation::kQuickGelu: return mul(g, x, g.node("Sigmoid", {scaled(g, x, 1.702)}));
    case MlpActivation::kSilu: break;
  }
  return mul(g, x, g.node("Sigmoid", {x}));
}

Value reshape(Graph& g, const Value& x, const Ints& shape) {
  return g.node("Reshape", {x, g.ints(shape)});
}

Value transpose(Graph& g, const Value& x, const Ints& order) {
  return g.node("Transpose", {x}, {{"perm", order}});
}

Value concat(Graph& g, const std::vector<Value>& parts, std::int64_t axis) {
  return g.node("Concat", parts, {{"axis", axis}});
}

Value slice(Graph& g, const Value& x, std::int64_t axis, std::int64_t begin, std::int64_t end) {
  return g.node("Slice", {x, g.ints({begin}), g.ints({end}), g.ints({axis})});
}

Value take(Graph& g, const Value& x, std::int64_t axis, std::int64_t index) {
  return g.node("Gather", {x, g.index(index)}, {{"axis", axis}});
}

Value mean(Graph& g, const Value& x, const Ints& axes, bool keep) {
  const Attribute keepdims{"keepdims", std::int64_t{keep}};
  if (g.opset() >= kOpsetOfAxesInput) {
    return g.node("ReduceMean", {x, g.ints(axes)}, {keepdims});
  }
  return g.node("ReduceMean", {x}, {{"axes", axes}, keepdims});
}

Value matmul(Graph& g, const Value& a, const Value& b) { return g.node("MatMul", {a, b}); }

Value softmax(Graph& g, const Value& x) {
  return g.node("Softmax", {x}, {{"axis", std::int64_t{-1}}});
}

}  // namespace dtn::onnx
