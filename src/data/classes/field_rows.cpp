#include "data/classes/field_rows.h"

namespace dtn {
namespace {

Tensor rows_of(const Tensor& values, std::span<const std::int64_t> places) {
  if (static_cast<std::int64_t>(places.size()) == values.dim(0)) return values;
  Shape shape = values.shape();
  shape[0] = static_cast<std::int64_t>(places.size());
  Tensor chosen = Tensor::empty(shape, values.dtype());
  std::int64_t row = 0;
  for (const std::int64_t place : places) {
    chosen.slice(row, row + 1).copy_from(values.slice(place, place + 1));
    ++row;
  }
  return chosen;
}

}  // namespace

Fields rows_at(const Fields& fields, std::span<const std::int64_t> places) {
  Fields chosen;
  for (const auto& [name, values] : fields) chosen[name] = rows_of(values, places);
  return chosen;
}

}  // namespace dtn
