// Reads ONNX files for tests: the fields that dtn-export writes, by their numbers in onnx.proto.
// Any other field is an error.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dtn::test {

// The fields of a protocol buffer by number; repeated fields are in file order.
class ProtoFields {
 public:
  struct Field {
    std::uint64_t number = 0;  // of a varint or a 4-byte field
    std::string_view bytes;    // of a length-delimited field
  };

  explicit ProtoFields(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::uint64_t key = varint(bytes);
      Field field;
      if (key % 8 == 0) {
        field.number = varint(bytes);
      } else if (key % 8 == 2) {
        field.bytes = take(bytes, varint(bytes));
      } else if (key % 8 == 5) {
        const std::string_view four = take(bytes, 4);
        for (int i = 3; i >= 0; --i) {
          field.number = field.number << 8 | static_cast<unsigned char>(four[std::size_t(i)]);
        }
      } else {
        throw std::runtime_error("a wire type that is not written");
      }
      fields_[static_cast<int>(key / 8)].push_back(field);
    }
  }

  const std::vector<Field>& all(int field) const {
    static const std::vector<Field> none;
    const auto found = fields_.find(field);
    return found == fields_.end() ? none : found->second;
  }
  bool has(int field) const { return fields_.contains(field); }
  const Field& at(int field) const { return fields_.at(field).at(0); }
  std::string text(int field) const { return std::string(at(field).bytes); }
  std::int64_t integer(int field) const { return static_cast<std::int64_t>(at(field).number); }
  ProtoFields part(int field) const { return ProtoFields(at(field).bytes); }
  std::vector<std::int64_t> integers(int field) const {
    std::vector<std::int64_t> values;
    for (const Field& f : all(field)) values.push_back(static_cast<std::int64_t>(f.number));
    return values;
  }

 private:
  static std::string_view take(std::string_view& bytes, std::uint64_t count) {
    if (count > bytes.size()) throw std::runtime_error("a field that is cut short");
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  }
  static std::uint64_t varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(bytes, 1)[0]);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a varint without an end");
  }

  std::map<int, std::vector<Field>> fields_;
};

struct Array {
  std::vector<std::int64_t> shape;
  std::vector<double> values;

  std::int64_t numel() const { return static_cast<std::int64_t>(values.size()); }
};

struct OnnxNode {
  struct Attribute {
    std::int64_t integer = 0;
    double number = 0;
    std::string text;
    std::vector<std::int64_t> integers;
  };
  std::string op;
  std::vector<std::string> inputs;
  std::string output;
  std::map<std::string, Attribute> attributes;
};

struct OnnxFile {
  std::int64_t ir_version, opset;
  std::vector<OnnxNode> nodes;
  std::map<std::string, Array> constants;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, std::string> notes;

  explicit OnnxFile(std::string_view bytes) {
    const ProtoFields model(bytes);
    ir_version = model.integer(1);
    opset = model.part(8).integer(2);
    for (const auto& note : model.all(14)) {
      const ProtoFields entry(note.bytes);
      notes[entry.text(1)] = entry.text(2);
    }
    const ProtoFields graph = model.part(7);
    for (const auto& node : graph.all(1)) nodes.push_back(node_of(ProtoFields(node.bytes)));
    for (const auto& tensor : graph.all(5)) add_constant(ProtoFields(tensor.bytes));
    for (const auto& value : graph.all(11)) inputs.push_back(ProtoFields(value.bytes).text(1));
    for (const auto& value : graph.all(12)) outputs.push_back(ProtoFields(value.bytes).text(1));
  }

 private:
  static OnnxNode node_of(const ProtoFields& fields) {
    OnnxNode node;
    for (const auto& input : fields.all(1)) node.inputs.emplace_back(input.bytes);
    node.output = fields.text(2);
    node.op = fields.text(4);
    for (const auto& part : fields.all(5)) {
      const ProtoFields attribute(part.bytes);
      OnnxNode::Attribute& a = node.attributes[attribute.text(1)];
      const std::int64_t type = attribute.integer(20);
      if (type == 1) {
        const auto bits = static_cast<std::uint32_t>(attribute.at(2).number);
        float value;
        std::memcpy(&value, &bits, sizeof value);
        a.number = static_cast<double>(value);
      } else if (type == 2) {
        a.integer = attribute.integer(3);
      } else if (type == 3) {
        a.text = attribute.text(4);
      } else if (type == 7) {
        a.integers = attribute.integers(8);
      } else {
        throw std::runtime_error("an attribute of a type that is not written");
      }
    }
    return node;
  }

  void add_constant(const ProtoFields& fields) {
    Array array;
    array.shape = fields.integers(1);
    const std::string_view raw = fields.at(9).bytes;
    const bool real = fields.integer(2) == 1;
    const auto read = [&](auto zero) {
      for (std::size_t at = 0; at + sizeof zero <= raw.size(); at += sizeof zero) {
        std::memcpy(&zero, raw.data() + at, sizeof zero);
        array.values.push_back(static_cast<double>(zero));
      }
    };
    real ? read(0.0f) : read(std::int64_t{0});
    std::int64_t wanted = 1;
    for (std::int64_t extent : array.shape) wanted *= extent;
    if (wanted != array.numel()) throw std::runtime_error("a tensor of another size than it says");
    if (!constants.emplace(fields.text(8), std::move(array)).second) {
      throw std::runtime_error("two tensors of one name");
    }
  }
};

}  // namespace dtn::test
