// Checks if the program's kernels can run on a device.
#pragma once

#include <cuda_runtime.h>

namespace dtn::cuda {

// Looks up an empty kernel on the calling thread's device. Returns an error if this program has
// neither machine code for the device nor PTX that the driver can compile for it.
cudaError_t find_probe();

}  // namespace dtn::cuda
