// Some rows of the fields of a data set.
#pragma once

#include <cstdint>
#include <span>

#include "dtn/core/fields.h"

namespace dtn {

// Returns the rows `places` of every field; the fields themselves if these are all rows.
Fields rows_at(const Fields& fields, std::span<const std::int64_t> places);

}  // namespace dtn
