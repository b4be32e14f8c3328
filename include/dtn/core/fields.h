// Named tensors of a batch. They travel from a data set through the loader and the feeder to a
// task, and carry the outputs of the task. Dimension 0 of each tensor counts the samples.
//
// The tasks define the names: "image", "label", "tokens", "noise", ... A ragged field has rows of
// different lengths, padded with zeros to the longest possible row. The lengths are a separate
// field, see lengths_of().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtn/core/tensor.h"

namespace dtn {

// Name, shape and type of a field, known before the field has values.
struct FieldSpec {
  std::string name;
  Shape row;  // of one sample; of the longest possible sample if the field is ragged
  DType dtype = DType::kFloat32;
  bool ragged = false;
  bool operator==(const FieldSpec&) const = default;
};

// Shape of a tensor with `rows` rows of the field.
Shape shape_of(const FieldSpec& spec, std::int64_t rows);

// Name of the field with the valid length of each row of a ragged field: [n] int64, along
// dimension 0 of the row.
inline std::string lengths_of(std::string_view field) { return std::string(field) + ".lengths"; }

class Fields {
 public:
  // A name and its tensor.
  using Field = std::pair<std::string, Tensor>;

  Fields() = default;
  Fields(std::initializer_list<Field> fields) : fields_(fields) {}

  // The field with this name. Adds an undefined one if there is none.
  Tensor& operator[](std::string_view name);
  // Throws Error, listing the existing fields, if the field is absent or undefined.
  Tensor& at(std::string_view name);
  const Tensor& at(std::string_view name) const;
  // Null if the field is absent or undefined.
  const Tensor* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // Rows [begin, end) of every defined field.
  Fields rows(std::int64_t begin, std::int64_t end) const;
  // Number of samples, the same in all defined fields; 0 if no field is defined.
  std::int64_t count() const;
  // Releases every tensor and keeps the names.
  void release();

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  auto begin() { return fields_.begin(); }
  auto end() { return fields_.end(); }
  bool empty() const { return fields_.empty(); }

 private:
  std::vector<Field> fields_;  // few; in insertion order
};

}  // namespace dtn
