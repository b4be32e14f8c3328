// Whether the programs' kernels can run on a device at all.
#pragma once

#include <cuda_runtime.h>

namespace dtn::cuda {

// Asks for a kernel that does nothing on the calling thread's device. An error where this program
// holds neither machine code for the device nor text that the driver can compile for it.
cudaError_t find_probe();

}  // namespace dtn::cuda
