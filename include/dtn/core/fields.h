// What travels from a data set through the loader and the feeder to a task, and back as its
// outputs: tensors by name whose dimension 0 counts the samples of a batch.
//
// The names are the tasks': "image", "label", "tokens", "noise", ... A ragged field holds rows of
// different lengths, padded with zeros to the longest that may come up; the lengths are a field of
// their own, see lengths_of().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtn/core/tensor.h"

namespace dtn {

// What a field will hold, before there is any.
struct FieldSpec {
  std::string name;
  Shape row;  // of one sample; of the longest where the field is ragged
  DType dtype = DType::kFloat32;
  bool ragged = false;
  bool operator==(const FieldSpec&) const = default;
};

// Of a tensor with so many rows of a field.
Shape shape_of(const FieldSpec& spec, std::int64_t rows);

// The field that holds how much of dimension 0 of each row of a ragged field counts, [n] int64.
inline std::string lengths_of(std::string_view field) { return std::string(field) + ".lengths"; }

class Fields {
 public:
  using Field = std::pair<std::string, Tensor>;

  Fields() = default;
  Fields(std::initializer_list<Field> fields) : fields_(fields) {}

  // The field of that name, made undefined if there is none.
  Tensor& operator[](std::string_view name);
  // Throws Error that names the fields there are.
  Tensor& at(std::string_view name);
  const Tensor& at(std::string_view name) const;
  // Null where there is no such field, or it is undefined.
  const Tensor* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // Rows [begin, end) of every field that is defined.
  Fields rows(std::int64_t begin, std::int64_t end) const;
  // Samples, which all fields that are defined have as many of; 0 without any.
  std::int64_t count() const;
  // Lets go of every tensor, and keeps the names.
  void release();

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  auto begin() { return fields_.begin(); }
  auto end() { return fields_.end(); }
  bool empty() const { return fields_.empty(); }

 private:
  std::vector<Field> fields_;  // few; in the order they were added
};

}  // namespace dtn
