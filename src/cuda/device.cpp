#include <nvtx3/nvToolsExt.h>

#include <mutex>

#include "core/cuda_device.h"
#include "core/format.h"
#include "core/queue.h"
#include "cuda/check.h"
#include "cuda/streams.h"
#include "kernels/cuda/probe.h"

namespace dtn::cuda {
namespace {

struct Streams {
  cudaStream_t compute = nullptr, copy = nullptr;
};

// Index of the device. select_device() may change it until the first stream exists. kNone: take the
// first usable device.
constexpr int kNone = -1;
int selected = kNone;
bool in_use = false;

#if defined(DTN_CUDA_EMULATED)
constexpr const char* kArchitectures = "the emulator";
#else
constexpr const char* kArchitectures = DTN_CUDA_ARCHITECTURES;  // from CMake
#endif
constexpr const char* kOtherDevices =
    "; choose others with CUDA_VISIBLE_DEVICES, or use --device cpu";

struct Capability {
  int major = 0, minor = 0;
};

// Needs no CUDA context: a context on each device would take device memory.
Capability capability_of(int device) {
  Capability c;
  DTN_CUDA(cudaDeviceGetAttribute(&c.major, cudaDevAttrComputeCapabilityMajor, device));
  DTN_CUDA(cudaDeviceGetAttribute(&c.minor, cudaDevAttrComputeCapabilityMinor, device));
  return c;
}

std::string name_of_device(int device) {
  cudaDeviceProp p;
  DTN_CUDA(cudaGetDeviceProperties(&p, device));
  return p.name;
}

// Returns an empty string, or the reason why the device cannot be used.
std::string objection_to(int device) {
  const Capability c = capability_of(device);
  if (c.major >= 8) return "";
  return cat("the device, ", name_of_device(device), ", has compute capability ", c.major, ".",
             c.minor, "; 8.0 or newer is needed; use --device cpu");
}

int first_usable() {
  const std::vector<int> usable = usable_devices();
  return usable.empty() ? 0 : usable.front();
}

const Streams& streams() {
  static const Streams instance = [] {
    std::string reason = unavailable_reason();
    if (!reason.empty()) throw ConfigError(cat("--device cuda: ", reason));
    if (selected == kNone) selected = first_usable();
    DTN_CUDA(cudaSetDevice(selected));
    reason = missing_code(selected);
    if (!reason.empty()) throw ConfigError(cat("--device cuda: ", reason));
    in_use = true;
    Streams s;
    DTN_CUDA(cudaStreamCreateWithFlags(&s.compute, cudaStreamNonBlocking));
    DTN_CUDA(cudaStreamCreateWithFlags(&s.copy, cudaStreamNonBlocking));
    return s;
  }();
  static thread_local bool on_device = false;
  if (!on_device) {  // an error here belongs to an earlier call, and shows in the next one
    (void)cudaSetDevice(selected);
    on_device = true;
  }
  return instance;
}

}  // namespace

std::string missing_code(int device) {
  const cudaError_t error = find_probe();
  if (error == cudaSuccess) return "";
  (void)cudaGetLastError();
  const Capability c = capability_of(device);
  const std::string capability = cat(c.major, ".", c.minor);
  if (error != cudaErrorNoKernelImageForDevice && error != cudaErrorUnsupportedPtxVersion) {
    return cat("the device, ", name_of_device(device),
               ", cannot load this program's kernels: ", cudaGetErrorString(error));
  }
  const std::string architecture = cat(c.major, c.minor, c.major == 9 && c.minor == 0 ? "a" : "");
  return cat("this program has no code for the device, ", name_of_device(device),
             " of compute capability ", capability, ": it was built for ", kArchitectures,
             "; build it with -DCMAKE_CUDA_ARCHITECTURES=", architecture,
             "-real, or pack it with --arch ", architecture, "-real", kOtherDevices);
}

bool is_capturing() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(compute_stream(), &status) == cudaSuccess &&
         status != cudaStreamCaptureStatusNone;
}

std::string toolkit() {
#if defined(DTN_CUDA_EMULATED)
  return "an emulated CUDA";
#else
  return cat("CUDA ", CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10);
#endif
}

std::vector<int> usable_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};
  }
  std::vector<int> usable;
  for (int device = 0; device < count; ++device) {
    if (objection_to(device).empty()) usable.push_back(device);
  }
  return usable;
}

std::string unavailable_reason() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return cat("no CUDA device can be used here (", cudaGetErrorString(error),
               "); check the driver with nvidia-smi, or use --device cpu");
  }
  if (count == 0) return "this machine has no CUDA device; use --device cpu";
  return usable_devices().empty() ? objection_to(0) : "";
}

void select_device(int index) {
  std::string reason = unavailable_reason();
  if (!reason.empty()) throw ConfigError(cat("--device cuda: ", reason));
  int count = 0;
  DTN_CUDA(cudaGetDeviceCount(&count));
  if (index < 0 || index >= count) {
    throw ConfigError(
        cat("there is no CUDA device ", index, "; this machine has ", counted(count, "devices")));
  }
  reason = objection_to(index);
  if (!reason.empty()) throw ConfigError(cat("CUDA device ", index, ": ", reason));
  DTN_CHECK(!in_use || index == selected, "cannot select CUDA device ", index, " while device ",
            selected, " is in use");
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
