// Protocol buffers: the writing part that an ONNX file needs
// (https://protobuf.dev/programming-guides/encoding). A message is a sequence of fields, each a key
// (number and wire type) and a value. Weights are not copied on their way to the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtn/core/tensor.h"

namespace dtn::protobuf {

class Message {
 public:
  void integer(int field, std::int64_t value);                // int64, enum: a varint
  void number(int field, float value);                        // float: four bytes
  void text(int field, std::string_view value);               // string, bytes
  void integers(int field, std::span<const std::int64_t> v);  // repeated int64, packed
  void message(int field, Message part);
  // bytes of a tensor in host memory; the tensor is kept alive and not copied.
  void tensor(int field, const Tensor& value);

  std::uint64_t size() const { return size_; }
  // Passes its bytes to `sink`, in order.
  void write(const std::function<void(std::span<const std::byte>)>& sink) const;

 private:
  struct Piece {
    std::string own;
    Tensor tensor;  // used instead of `own` if it is defined
  };

  void varint(std::uint64_t value);
  void key(int field, int wire_type);
  void length(int field, std::uint64_t bytes);
  void append(std::string_view bytes);

  std::vector<Piece> pieces_;
  std::uint64_t size_ = 0;
};

}  // namespace dtn::protobuf
