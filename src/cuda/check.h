// Checks calls of the CUDA runtime. DTN_CUDA throws an Error with the call and the driver's message
// if the call fails.
#pragma once

#include <cuda_runtime.h>

#include "dtn/core/check.h"

namespace dtn::cuda {

[[noreturn]] inline void fail_call(const char* call, cudaError_t error) {
  throw Error(
      cat("CUDA: ", call, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
}

}  // namespace dtn::cuda

#define DTN_CUDA(call)                                                         \
  do {                                                                         \
    if (cudaError_t dtn_error = (call); dtn_error != cudaSuccess) [[unlikely]] \
      ::dtn::cuda::fail_call(#call, dtn_error);                                \
  } while (false)
