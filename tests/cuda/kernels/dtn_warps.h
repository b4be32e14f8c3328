// Sets the warps per block of DTN's backward pass on tensor cores, until the end of a scope.
#pragma once

#include "kernels/dtn/dtn_norm_cuda.h"
#ifdef DTN_CUDA_EMULATED
#include "cuda_emulator/device_model.h"
#endif

namespace dtn::test {

class ScopedBackwardWarps {
 public:
  explicit ScopedBackwardWarps(int warps) : before_(dtn_backward_warps()) {
    set_dtn_backward_warps(warps);
  }
  ~ScopedBackwardWarps() { set_dtn_backward_warps(before_); }
  ScopedBackwardWarps(const ScopedBackwardWarps&) = delete;
  ScopedBackwardWarps& operator=(const ScopedBackwardWarps&) = delete;

 private:
  int before_;
};

#ifdef DTN_CUDA_EMULATED
// Device model with `kib` KiB of shared memory per block. Compute capability 8.6 has 99, 8.0 has
// 163, and 9.0 has 227.
inline emu::DeviceModel with_shared_kib(std::size_t kib) {
  emu::DeviceModel model = emu::device_model();
  model.shared_memory = kib << 10;
  return model;
}
#endif

}  // namespace dtn::test
