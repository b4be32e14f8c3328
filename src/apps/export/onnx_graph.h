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

}  // namespace dtn::onnx
