#include <nvtx3/nvToolsExt.h>

#include <mutex>

#include "core/cuda_device.h"
#include "core/queue.h"
#include "cuda/check.h"
#include "cuda/streams.h"
#include "kernels/cuda/trace.h"

namespace dtn::cuda {
namespace {

struct Streams {
  cudaStream_t compute = nullptr, copy = nullptr;
};

// Before the first stream is made, select_device() may still change it.
int selected = 0;
bool in_use = false;

// Empty, or why the device cannot be used.
std::string objection_to(int device) {
  cudaDeviceProp p;
  DTN_CUDA(cudaGetDeviceProperties(&p, device));
  if (p.major >= 8) return "";
  return cat("the device, ", p.name, ", has compute capability ", p.major, ".", p.minor,
             "; 8.0 or newer is needed; use --device cpu");
}

const Streams& streams() {
  static const Streams instance = [] {
    std::string reason = unavailable_reason();
    if (!reason.empty()) throw ConfigError(cat("--device cuda: ", reason));
    DTN_CUDA(cudaSetDevice(selected));
    in_use = true;
    Streams s;
    DTN_CUDA(cudaStreamCreateWithFlags(&s.compute, cudaStreamNonBlocking));
    DTN_CUDA(cudaStreamCreateWithFlags(&s.copy, cudaStreamNonBlocking));
    return s;
  }();
  static thread_local bool on_device = false;
  if (!on_device) {  // a failure would be that of an earlier call, and shows in the next
    (void)cudaSetDevice(selected);
    on_device = true;
  }
  return instance;
}

}  // namespace

std::string toolkit() {
#if defined(DTN_CUDA_EMULATED)
  return "an emulated CUDA";
#else
  return cat("CUDA ", CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10);
#endif
}

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

std::string unavailable_reason() {
  static const std::string reason = []() -> std::string {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
      (void)cudaGetLastError();
      return cat("no CUDA device can be used here (", cudaGetErrorString(error),
                 "); check the driver with nvidia-smi, or use --device cpu");
    }
    if (count == 0) return "this machine has no CUDA device; use --device cpu";
    return objection_to(0);
  }();
  return reason;
}

void select_device(int index) {
  std::string reason = unavailable_reason();
  if (!reason.empty()) throw ConfigError(cat("--device cuda: ", reason));
  if (index < 0 || index >= device_count()) {
    throw ConfigError(cat("CUDA device ", index, ": this machine has ", device_count()));
  }
  reason = objection_to(index);
  if (!reason.empty()) throw ConfigError(cat("CUDA device ", index, ": ", reason));
  DTN_CHECK(!in_use || index == selected, "CUDA device ", index, " is selected while ", selected,
            " is in use");
  selected = index;
  streams();
}

cudaStream_t compute_stream() { return streams().compute; }
cudaStream_t copy_stream() { return streams().copy; }
cudaStream_t communication_stream() {
  use_device();
  static const cudaStream_t stream = [] {
    int least = 0, greatest = 0;
    DTN_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t s = nullptr;
    DTN_CUDA(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest));
    return s;
  }();
  return stream;
}
void use_device() { streams(); }

DeviceInfo device_info() {
  streams();
  cudaDeviceProp p;
  DTN_CUDA(cudaGetDeviceProperties(&p, selected));
  return {p.name, p.multiProcessorCount, p.major, p.minor, p.totalGlobalMem};
}

void copy_to_device(void* to, const void* from, std::size_t bytes) {
  const TracedLaunch traced("copy to device");
  DTN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, compute_stream()));
}
void copy_to_host(void* to, const void* from, std::size_t bytes) {
  const TracedLaunch traced("copy to host");
  DTN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, compute_stream()));
}
void copy_on_device(void* to, const void* from, std::size_t bytes) {
  const TracedLaunch traced("copy on device");
  DTN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, compute_stream()));
}
void fill_with_zero(void* to, std::size_t bytes) {
  const TracedLaunch traced("fill with zero");
  DTN_CUDA(cudaMemsetAsync(to, 0, bytes, compute_stream()));
}

void synchronize() { DTN_CUDA(cudaStreamSynchronize(compute_stream())); }

TraceRange::TraceRange(const char* name) { nvtxRangePushA(name); }
TraceRange::~TraceRange() { nvtxRangePop(); }

}  // namespace dtn::cuda

namespace dtn {

void* CudaQueue::stream() const { return cuda::compute_stream(); }
bool CudaQueue::has_warpgroup_products() const {
#if defined(DTN_CUDA_EMULATED) || defined(DTN_CUDA_SM_90A)
  static const bool has = cuda::device_info().major == 9;
  return has;
#else
  return false;
#endif
}
std::shared_ptr<std::byte> CudaQueue::take_bytes(std::size_t bytes) const {
  return cuda::allocate(bytes);
}

}  // namespace dtn
