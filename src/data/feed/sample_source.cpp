#include "dtn/data/sample_source.h"

namespace dtn {

std::size_t FieldRow::used_of(std::string_view field, std::int64_t length, std::size_t all) const {
  const std::int64_t most = fields_.at(field).dim(1);
  DTN_CHECK(0 <= length && length <= most, "field '", field, "' has room for ", most, " rows, not ",
            length);
  return most > 0 ? all / static_cast<std::size_t>(most) * static_cast<std::size_t>(length) : 0;
}

}  // namespace dtn
