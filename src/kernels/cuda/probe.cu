#include "kernels/cuda/probe.h"

namespace dtn::cuda {
namespace {

__global__ void probe_kernel() {}

}  // namespace

cudaError_t find_probe() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, probe_kernel);
}

}  // namespace dtn::cuda
