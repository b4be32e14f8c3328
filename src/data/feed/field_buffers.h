// Memory for the fields of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dtn/core/device.h"
#include "dtn/core/fields.h"

namespace dtn {

// Where host memory comes from; empty: allocate_cached.
using HostMemory = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

// The fields with the lengths of those that are ragged behind each. Throws Error when a name comes
// up twice or a ragged field has nothing to be longer in.
std::vector<FieldSpec> with_lengths(const std::vector<FieldSpec>& fields);

// [rows, spec.row], uninitialised.
Tensor allocate_rows(const FieldSpec& spec, std::int64_t rows, Device device);
Tensor allocate_rows(const FieldSpec& spec, std::int64_t rows, const HostMemory& memory);

// Makes `to` the first `rows` rows of `from`, which has the same fields every time.
void view_rows(const Fields& from, std::int64_t rows, Fields& to);

}  // namespace dtn
