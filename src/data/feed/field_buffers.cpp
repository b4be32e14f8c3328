#include "data/feed/field_buffers.h"

#include <algorithm>
#include <string>

#include "dtn/core/check.h"

namespace dtn {
std::vector<FieldSpec> with_lengths(const std::vector<FieldSpec>& fields) {
  std::vector<FieldSpec> all;
  for (const FieldSpec& field : fields) {
    all.push_back(field);
    if (!field.ragged) continue;
    DTN_CHECK(field.row.rank() > 0, "field '", field.name,
              "' is ragged, so it cannot have scalar rows");
    all.push_back({lengths_of(field.name), {}, DType::kInt64});
  }
  for (const FieldSpec& field : all) {
    const auto same = std::ranges::count(all, field.name, &FieldSpec::name);
    DTN_CHECK(!field.name.empty(), "a field has no name");
    DTN_CHECK(same == 1, "field '", field.name, "' appears ", same, " times");
  }
  return all;
}

Tensor allocate_rows(const FieldSpec& spec, std::int64_t rows, Device device) {
  return Tensor::empty(shape_of(spec, rows), spec.dtype, device);
}

Tensor allocate_rows(const FieldSpec& spec, std::int64_t rows, const HostMemory& memory) {
  if (!memory) return allocate_rows(spec, rows, kCpu);
  const Shape shape = shape_of(spec, rows);
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(spec.dtype);
  return Tensor::wrap(memory(bytes), 0, shape, spec.dtype);
}

void view_rows(const Fields& from, std::int64_t rows, Fields& to) {
  for (const auto& [name, tensor] : from) {
    to[name] = rows == tensor.dim(0) ? tensor : tensor.slice(0, rows);
  }
}

}  // namespace dtn
