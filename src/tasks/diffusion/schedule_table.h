// The constants of a diffusion process for kernels.
#pragma once

#include "dtn/core/tensor.h"
#include "tasks/diffusion/process.h"

namespace dtn {

// Returns the table [steps, ops::kScheduleColumns] float64 on the device, as ops::DiffusionBatch
// needs it. A table on the device kMeta has no values.
Tensor schedule_table(const DiffusionProcess& process, Device device);

}  // namespace dtn
