// Two faults on purpose, so that tools/gpu-check.sh knows that compute-sanitizer sees them on the
// machine at hand before it believes that it sees none in our kernels.
//   planted_faults memcheck    writes behind an allocation
//   planted_faults racecheck   reads what another warp wrote to shared memory, without a barrier
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
