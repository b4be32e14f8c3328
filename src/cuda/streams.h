// The two streams of the process's device.
#pragma once

#include <cuda_runtime.h>

namespace dtn::cuda {

// Selects the device on first use, 0 unless select_device() was called. Throws ConfigError when
// there is none.
cudaStream_t compute_stream();
cudaStream_t copy_stream();

}  // namespace dtn::cuda
