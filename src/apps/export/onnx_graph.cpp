#include "apps/export/onnx_graph.h"

#include <bit>
#include <cmath>
#include <protozero/pbf_writer.hpp>
#include <span>

#include "core/format.h"
#include "dtn/core/check.h"
#include "dtn/core/version.h"
#include "io/atomic_file.h"

namespace dtn::onnx {
namespace {

using protozero::pbf_writer;

// Supported since ONNX 1.13, by runtimes from 2022 on.
constexpr int kIrVersion = 8;
constexpr std::uint64_t kMaxBytes = (std::uint64_t{1} << 31) - 1;

// Field numbers of onnx.proto, message by message.
constexpr std::uint32_t kModelIr = 1, kModelProducer = 2, kModelVersion = 3, kModelGraph = 7,
                        kModelOpset = 8, kModelNote = 14;
constexpr std::uint32_t kOpsetVersion = 2, kNoteKey = 1, kNoteText = 2;
constexpr std::uint32_t kGraphNode = 1, kGraphName = 2, kGraphInitializer = 5, kGraphInput = 11,
                        kGraphOutput = 12;
constexpr std::uint32_t kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOp = 4,
                        kNodeAttribute = 5;
constexpr std::uint32_t kAttributeName = 1, kAttributeFloat = 2, kAttributeInt = 3,
                        kAttributeString = 4, kAttributeInts = 8, kAttributeType = 20;
constexpr std::uint32_t kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorData = 9;
constexpr std::uint32_t kValueName = 1, kValueType = 2, kTypeTensor = 1, kTensorElement = 1,
                        kTensorShape = 2, kShapeDim = 1, kDimValue = 1, kDimName = 2;
// Values of kAttributeType, and of kTensorType and kTensorElement.
enum AttributeType { kFloatType = 1, kIntType = 2, kStringType = 3, kIntsType = 7 };
enum ElementType { kFloat32 = 1, kInt64 = 7 };

void add_attribute(pbf_writer& node, const Attribute& attribute) {
  pbf_writer m(node, kNodeAttribute);
  m.add_string(kAttributeName, attribute.name);
  if (const auto* whole = std::get_if<std::int64_t>(&attribute.value)) {
    m.add_int64(kAttributeInt, *whole);
    m.add_enum(kAttributeType, kIntType);
  } else if (const auto* real = std::get_if<float>(&attribute.value)) {
    m.add_float(kAttributeFloat, *real);
    m.add_enum(kAttributeType, kFloatType);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    m.add_string(kAttributeString, *text);
    m.add_enum(kAttributeType, kStringType);
  } else {
    for (std::int64_t value : std::get<Ints>(attribute.value)) m.add_int64(kAttributeInts, value);
    m.add_enum(kAttributeType, kIntsType);
  }
}

// Adds a float32 tensor with a first dimension of any extent to the inputs or outputs of a graph.
void add_value(std::string& graph, std::uint32_t field, const std::string& name, const Ints& dims) {
  pbf_writer fields(graph), value(fields, field);
  value.add_string(kValueName, name);
  pbf_writer type(value, kValueType), tensor(type, kTypeTensor);
  tensor.add_enum(kTensorElement, kFloat32);
  pbf_writer shape(tensor, kTensorShape);
  pbf_writer(shape, kShapeDim).add_string(kDimName, "N");
  for (std::int64_t extent : dims) pbf_writer(shape, kShapeDim).add_int64(kDimValue, extent);
}

// Begins a field of `size` bytes that are written apart from the message.
void begin_field(std::string& message, std::uint32_t field, std::uint64_t size) {
  protozero::add_varint_to_buffer(
      &message, field << 3 | std::uint32_t(protozero::pbf_wire_type::length_delimited));
  protozero::add_varint_to_buffer(&message, size);
}

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

Value Graph::node(std::string_view op, const std::vector<Value>& inputs,
                  const std::vector<Attribute>& attributes, std::string name) {
  if (name.empty()) name = cat(part_, "/", op, "_", named_++);
  pbf_writer graph(nodes_), m(graph, kGraphNode);
  for (const Value& input : inputs) m.add_string(kNodeInput, input);
  m.add_string(kNodeOutput, name);
  m.add_string(kNodeName, name);
  m.add_string(kNodeOp, op.data(), op.size());
  for (const Attribute& attribute : attributes) add_attribute(m, attribute);
  return name;
}

void Graph::initializer(const std::string& name, const Ints& dims, int type, const Tensor& value) {
  DTN_CHECK(value.device() == kCpu, "a tensor to be written must lie in host memory");
  static_assert(std::endian::native == std::endian::little, "files are little-endian");
  std::string fields;
  pbf_writer m(fields);
  for (std::int64_t extent : dims) m.add_int64(kTensorDims, extent);
  m.add_enum(kTensorType, type);
  m.add_string(kTensorName, name);
  begin_field(fields, kTensorData, value.nbytes());
  std::string head;
  begin_field(head, kGraphInitializer, fields.size() + value.nbytes());
  initializers_.push_back({head + fields, value});
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
  add_value(inputs_, kGraphInput, name, dims);
}

void Graph::output(const std::string& name, const Ints& dims) {
  add_value(outputs_, kGraphOutput, name, dims);
}

void Graph::write(const std::filesystem::path& path, const std::string& graph_name) const {
  std::string name;
  pbf_writer(name).add_string(kGraphName, graph_name);
  std::uint64_t graph_size = nodes_.size() + name.size() + inputs_.size() + outputs_.size();
  for (const Initializer& i : initializers_) graph_size += i.head.size() + i.data.nbytes();

  std::string before, after;  // the fields of the model around the graph
  pbf_writer head(before), tail(after);
  head.add_int64(kModelIr, kIrVersion);
  head.add_string(kModelProducer, "dtn");
  head.add_string(kModelVersion, version());
  begin_field(before, kModelGraph, graph_size);
  pbf_writer(tail, kModelOpset).add_int64(kOpsetVersion, opset_);
  for (const auto& [key, text] : notes_) {
    pbf_writer note(tail, kModelNote);
    note.add_string(kNoteKey, key);
    note.add_string(kNoteText, text);
  }
  const std::uint64_t size = before.size() + graph_size + after.size();
  if (size > kMaxBytes) {
    throw Error(cat(path.string(), ": the model takes ", bytes_text(static_cast<double>(size)),
                    ", and an ONNX file that contains its weights cannot exceed 2 GiB, the "
                    "limit of a protocol buffer; nothing was written"));
  }
  AtomicFile file(path);
  const auto write = [&](const std::string& part) { file.write(std::as_bytes(std::span(part))); };
  write(before);
  write(nodes_);
  write(name);
  for (const Initializer& i : initializers_) {
    write(i.head);
    file.write({static_cast<const std::byte*>(i.data.raw()), i.data.nbytes()});
  }
  write(inputs_);
  write(outputs_);
  write(after);
  file.commit();
}

Value activated(Graph& g, const Value& x, MlpActivation act) {
  switch (act) {
    case MlpActivation::kGelu: return gelu(g, x, false);
    case MlpActivation::kGeluTanh: return gelu(g, x, true);
    case MlpActivation::kQuickGelu: return mul(g, x, g.node("Sigmoid", {scaled(g, x, 1.702)}));
    case MlpActivation::kRelu: return g.node("Relu", {x});
    case MlpActivation::kSilu: break;
  }
  return mul(g, x, g.node("Sigmoid", {x}));
}

Value mean(Graph& g, const Value& x, const Ints& axes, bool keep) {
  const Attribute keepdims{"keepdims", std::int64_t{keep}};
  if (g.opset() >= kOpsetOfAxesInput) {
    return g.node("ReduceMean", {x, g.ints(axes)}, {keepdims});
  }
  return g.node("ReduceMean", {x}, {{"axes", axes}, keepdims});
}

}  // namespace dtn::onnx
