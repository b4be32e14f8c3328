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

// Allocator of host memory. If empty, allocate_cached is used.
using HostMemory = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

// Returns an allocator of page-locked memory, the only kind that is copied while the device
// computes. Page-locking takes milliseconds and waits for the device. Memory that a loader frees,
// as around a batch that is not full, is kept for its next request.
HostMemory pinned_memory();

// Returns the fields, with the lengths of each ragged field after it. Throws Error if a name is
// empty or occurs twice, or if a ragged field has no dimension.
std::vector<FieldSpec> with_lengths(const std::vector<FieldSpec>& fields);

// Allocate [rows, spec.row], uninitialised.
Tensor allocate_rows(const FieldSpec& spec, std::int64_t rows, Device device);
Tensor allocate_rows(const FieldSpec& spec, std::int64_t rows, const HostMemory& memory);

// Makes `to` the first `rows` rows of `from`, which must have the same fields every time.
void view_rows(const Fields& from, std::int64_t rows, Fields& to);

}  // namespace dtn
