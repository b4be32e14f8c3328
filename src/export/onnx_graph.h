// An ONNX graph under construction, and its file (https://github.com/onnx/onnx, onnx.proto). Only
// the parts of the format that a model in float32 needs.
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
#include "export/protobuf.h"

namespace dtn::onnx {

// A tensor of the graph, by its name.
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

  // Names what follows after a part of the model, such as "blocks.0.attn".
  void enter(std::string part) { part_ = std::move(part); }

  // One operator with one result, whose name is returned; the result is called `name`, or after the
  // part and the operator. Empty inputs are optional ones left out.
  Value node(std::string_view op, const std::vector<Value>& inputs,
             const std::vector<Attribute>& attributes = {}, std::string name = {});

  // Constants, each stored once: a second one of the same name, number or list is the first. A
  // tensor is float32 and must stay as it is until the file is written.
  Value tensor(const std::string& name, const Tensor& value);
  Value number(double value);       // float32 []
  Value ints(const Ints& values);   // int64 [values.size()]
  Value index(std::int64_t value);  // int64 []

  // float32; the first dimension is called N and has any extent, the others are `dims`.
  void input(const std::string& name, const Ints& dims);
  void output(const std::string& name, const Ints& dims);

  // A note that travels with the model.
  void note(const std::string& key, const std::string& text) { notes_.emplace_back(key, text); }

  // Writes the file atomically. Throws Error where it would exceed the 2 GiB of a protocol buffer.
  void write(const std::filesystem::path& path, const std::string& graph_name) const;

 private:
  void initializer(const std::string& name, const Ints& dims, int type, const Tensor& value);

  int opset_;
  std::string part_;
  std::int64_t named_ = 0;
  std::set<std::string> constants_;  // their names
  std::vector<protobuf::Message> nodes_, initializers_, inputs_, outputs_;
  std::vector<std::pair<std::string, std::string>> notes_;
};

}  // namespace dtn::onnx
