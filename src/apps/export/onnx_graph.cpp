#include "apps/export/onnx_graph.h"

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/version.h"
#include "io/atomic_file.h"

namespace dtn::onnx {
namespace {

using protobuf::Message;

// Supported since ONNX 1.13, by runtimes from 2022 on.
constexpr int kIrVersion = 8;
constexpr std::uint64_t kMaxBytes = (std::uint64_t{1} << 31) - 1;

// Field numbers of onnx.proto, message by message.
enum ModelField {
  kModelIr = 1,
  kModelProducer = 2,
  kModelVersion = 3,
  kModelGraph = 7,
  kModelOpset = 8,
  kModelNote = 14
};
enum OpsetField { kOpsetVersion = 2 };
enum NoteField { kNoteKey = 1, kNoteText = 2 };
enum GraphField {
  kGraphNode = 1,
  kGraphName = 2,
  kGraphInitializer = 5,
  kGraphInput = 11,
  kGraphOutput = 12
};
enum NodeField { kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOp = 4, kNodeAttribute = 5 };
enum AttributeField {
  kAttributeName = 1,
  kAttributeFloat = 2,
  kAttributeInt = 3,
  kAttributeString = 4,
  kAttributeInts = 8,
  kAttributeType = 20
};
enum AttributeType { kFloatType = 1, kIntType = 2, kStringType = 3, kIntsType = 7 };
enum TensorField { kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorData = 9 };
enum ValueField { kValueName = 1, kValueType = 2 };
enum TypeField { kTypeTensor = 1, kTensorElement = 1, kTensorShape = 2, kShapeDim = 1 };
enum DimField { kDimValue = 1, kDimName = 2 };
enum ElementType { kFloat32 = 1, kInt64 = 7 };

Message attribute_message(const Attribute& attribute) {
  Message m;
  m.text(kAttributeName, attribute.name);
  if (const auto* whole = std::get_if<std::int64_t>(&attribute.value)) {
    m.integer(kAttributeInt, *whole);
    m.integer(kAttributeType, kIntType);
  } else if (const auto* real = std::get_if<float>(&attribute.value)) {
    m.number(kAttributeFloat, *real);
    m.integer(kAttributeType, kFloatType);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    m.text(kAttributeString, *text);
    m.integer(kAttributeType, kStringType);
  } else {
    for (std::int64_t value : std::get<Ints>(attribute.value)) m.integer(kAttributeInts, value);
    m.integer(kAttributeType, kIntsType);
  }
  return m;
}

// A float32 tensor with a first dimension of any extent.
Message value_message(const std::string& name, const Ints& dims) {
  Message shape, batch;
  batch.text(kDimName, "N");
  shape.message(kShapeDim, std::move(batch));
  for (std::int64_t extent : dims) {
    Message dim;
    dim.integer(kDimValue, extent);
    shape.message(kShapeDim, std::move(dim));
  }
  Message tensor, type, value;
  tensor.integer(kTensorElement, kFloat32);
  tensor.message(kTensorShape, std::move(shape));
  type.message(kTypeTensor, std::move(tensor));
  value.text(kValueName, name);
  value.message(kValueType, std::move(type));
  return value;
}

}  // namespace

Value Graph::node(std::string_view op, const std::vector<Value>& inputs,
                  const std::vector<Attribute>& attributes, std::string name) {
  if (name.empty()) name = cat(part_, "/", op, "_", named_++);
  Message m;
  for (const Value& input : inputs) m.text(kNodeInput, input);
  m.text(kNodeOutput, name);
  m.text(kNodeName, name);
  m.text(kNodeOp, op);
  for (const Attribute& attribute : attributes) {
    m.message(kNodeAttribute, attribute_message(attribute));
  }
  nodes_.push_back(std::move(m));
  return name;
}

void Graph::initializer(const std::string& name, const Ints& dims, int type, const Tensor& value) {
  Message m;
  for (std::int64_t extent : dims) m.integer(kTensorDims, extent);
  m.integer(kTensorType, type);
  m.text(kTensorName, name);
  m.tensor(kTensorData, value);
  initializers_.push_back(std::move(m));
}

Value Graph::tensor(const std::string& name, const Tensor& value) {
  DTN_CHECK(value.dtype() == DType::kFloat32, name, " is ", name_of(value.dtype()));
  if (!constants_.insert(name).second) return name;
  Ints dims;
  for (int d = 0; d < value.rank(); ++d) dims.push_back(value.dim(d));
  initializer(name, dims, kFloat32, value);
  return name;
}

Value Graph::number(double value) {
  std::string name = cat("number/", format("%.9g", static_cast<double>(static_cast<float>(value))));
  if (!constants_.insert(name).second) return name;
  initializer(name, {}, kFloat32, Tensor::full({1}, DType::kFloat32, value));
  return name;
}

Value Graph::ints(const Ints& values) {
  std::string name = "ints";
  for (std::int64_t value : values) name += cat("/", value);
  if (!constants_.insert(name).second) return name;
  const auto count = static_cast<std::int64_t>(values.size());
  initializer(name, {count}, kInt64, Tensor::from(values, {count}));
  return name;
}

Value Graph::index(std::int64_t value) {
  std::string name = cat("index/", value);
  if (!constants_.insert(name).second) return name;
  initializer(name, {}, kInt64, Tensor::from(Ints{value}, {1}));
  return name;
}

void Graph::input(const std::string& name, const Ints& dims) {
  inputs_.push_back(value_message(name, dims));
}

void Graph::output(const std::string& name, const Ints& dims) {
  outputs_.push_back(value_message(name, dims));
}

void Graph::write(const std::filesystem::path& path, const std::string& graph_name) const {
  Message graph, opset, model;
  for (const Message& node : nodes_) graph.message(kGraphNode, node);
  graph.text(kGraphName, graph_name);
  for (const Message& weight : initializers_) graph.message(kGraphInitializer, weight);
  for (const Message& value : inputs_) graph.message(kGraphInput, value);
  for (const Message& value : outputs_) graph.message(kGraphOutput, value);
  opset.integer(kOpsetVersion, opset_);
  model.integer(kModelIr, kIrVersion);
  model.text(kModelProducer, "dtn");
  model.text(kModelVersion, version());
  model.message(kModelGraph, std::move(graph));
  model.message(kModelOpset, std::move(opset));
  for (const auto& [key, text] : notes_) {
    Message note;
    note.text(kNoteKey, key);
    note.text(kNoteText, text);
    model.message(kModelNote, std::move(note));
  }
  if (model.size() > kMaxBytes) {
    throw Error(cat(path.string(), ": the model would take ", model.size(),
                    " bytes, and an ONNX file with its weights inside cannot exceed 2 GiB, the "
                    "limit of a protocol buffer; nothing was written"));
  }
  AtomicFile file(path);
  model.write([&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace dtn::onnx
