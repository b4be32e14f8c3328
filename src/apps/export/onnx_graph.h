// An ONNX graph under construction, and its file (https://github.com/onnx/onnx, onnx.proto). Covers
// only the parts of the format that a float32 model needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dtn/config/model_config.h"
#include "dtn/core/tensor.h"

namespace dtn::onnx {

// A tensor of the graph, identified by its name.
using Value = std::string;
using Ints = std::vector<std::int64_t>;

struct Attribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, Ints> value;
};

class Graph {
 public:
  explicit Graph(int opset) : opset_(opset) {}

  int opset() const { return opset_; }

  // Sets the part of the model that names later nodes, such as "blocks.0.attn".
  void enter(std::string part) { part_ = std::move(part); }

  // Adds one operator with one result, and returns the name of the result: `name`, or a name from
  // the part and the operator. An empty input omits an optional input.
  Value node(std::string_view op, const std::vector<Value>& inputs,
             const std::vector<Attribute>& attributes = {}, std::string name = {});

  // Constants. Each is stored once: a repeated name, number or list returns the first constant. A
  // tensor is float32 and must not change until the file is written.
  Value tensor(const std::string& name, const Tensor& value);
  Value number(double value);       // float32 []
  Value ints(const Ints& values);   // int64 [values.size()]
  Value index(std::int64_t value);  // int64 []

  // float32. The first dimension is called N and has any extent; the others are `dims`.
  void input(const std::string& name, const Ints& dims);
  void output(const std::string& name, const Ints& dims);

  // Adds a metadata entry to the model.
  void note(const std::string& key, const std::string& text) { notes_.emplace_back(key, text); }

  // Writes the file atomically. Throws Error if it would exceed the 2 GiB of a protocol buffer.
  void write(const std::filesystem::path& path, const std::string& graph_name) const;

 private:
  // A constant as a field of the graph: `head`, then the bytes of `data`, which are not copied on
  // their way to the file.
  struct Initializer {
    std::string head;
    Tensor data;
  };

  void initializer(const std::string& name, const Ints& dims, int type, const Tensor& value);

  int opset_;
  std::string part_;
  std::int64_t named_ = 0;
  std::set<std::string> constants_;  // names
  std::vector<Initializer> initializers_;
  std::string nodes_, inputs_, outputs_;  // encoded fields of the graph
  std::vector<std::pair<std::string, std::string>> notes_;
};

// Operations of a model, in the form that the graph's opset needs. Shapes are those of the results;
// the first dimension, N images, is never named.

// Elementwise operations; shapes broadcast.
inline Value add(Graph& g, const Value& a, const Value& b) { return g.node("Add", {a, b}); }
inline Value sub(Graph& g, const Value& a, const Value& b) { return g.node("Sub", {a, b}); }
inline Value mul(Graph& g, const Value& a, const Value& b) { return g.node("Mul", {a, b}); }
inline Value div(Graph& g, const Value& a, const Value& b) { return g.node("Div", {a, b}); }
inline Value scaled(Graph& g, const Value& x, double factor) { return mul(g, x, g.number(factor)); }
inline Value shifted(Graph& g, const Value& x, double by) { return add(g, x, g.number(by)); }
inline Value square_root(Graph& g, const Value& x) { return g.node("Sqrt", {x}); }
inline Value square(Graph& g, const Value& x) { return mul(g, x, x); }
Value activated(Graph& g, const Value& x, MlpActivation act);

// Reshapes x; 0 copies an extent of x.
inline Value reshape(Graph& g, const Value& x, const Ints& shape) {
  return g.node("Reshape", {x, g.ints(shape)});
}
inline Value transpose(Graph& g, const Value& x, const Ints& order) {
  return g.node("Transpose", {x}, {{"perm", order}});
}
inline Value concat(Graph& g, const std::vector<Value>& parts, std::int64_t axis) {
  return g.node("Concat", parts, {{"axis", axis}});
}
// Takes the entries [begin, end) of a dimension.
inline Value slice(Graph& g, const Value& x, std::int64_t axis, std::int64_t begin,
                   std::int64_t end) {
  return g.node("Slice", {x, g.ints({begin}), g.ints({end}), g.ints({axis})});
}
// Takes one entry of a dimension, and removes the dimension.
inline Value take(Graph& g, const Value& x, std::int64_t axis, std::int64_t index) {
  return g.node("Gather", {x, g.index(index)}, {{"axis", axis}});
}

// Mean over the axes; they keep extent 1 unless `keep` is false.
Value mean(Graph& g, const Value& x, const Ints& axes, bool keep = true);
inline Value matmul(Graph& g, const Value& a, const Value& b) { return g.node("MatMul", {a, b}); }
inline Value softmax(Graph& g, const Value& x) {  // over the last dimension
  return g.node("Softmax", {x}, {{"axis", std::int64_t{-1}}});
}

}  // namespace dtn::onnx
