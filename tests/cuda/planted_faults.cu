// Two deliberate faults. tools/gpu-check.sh first checks that compute-sanitizer reports them on
// this machine. Only then does it trust a clean report about our kernels.
//    planted_faults memcheck    writes past the end of an allocation
//    planted_faults racecheck   reads shared memory that another warp wrote, without a barrier
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

namespace dtn {

constexpr int kThreads = 64;

__global__ void write_behind_kernel(int* out) { out[kThreads + threadIdx.x] = 1; }

__global__ void missing_barrier_kernel(int* out) {
  extern __shared__ int shared[];
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
}

}  // namespace dtn

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int* out = nullptr;
  if (cudaMalloc(&out, dtn::kThreads * sizeof(int)) != cudaSuccess) return 1;
  if (std::strcmp(argv[1], "memcheck") == 0) {
    dtn::write_behind_kernel<<<1, dtn::kThreads>>>(out);
  } else {
    dtn::missing_barrier_kernel<<<1, dtn::kThreads, dtn::kThreads * sizeof(int)>>>(out);
  }
  cudaError_t error = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(error));
  cudaFree(out);
  return 0;
}
