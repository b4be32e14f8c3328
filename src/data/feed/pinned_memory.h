// Page-locked host memory for batches, the only kind that is copied while the device computes.
#pragma once

#include "data/feed/field_buffers.h"

namespace dtn {

// Returns an allocator of page-locked memory. Page-locking takes milliseconds and waits for the
// device. Memory that a loader frees, as around a batch that is not full, is kept for its next
// request.
HostMemory pinned_memory();

}  // namespace dtn
