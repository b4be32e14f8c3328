#include "dtn/core/device.h"

#include "core/cuda_device.h"
#include "dtn/core/check.h"

namespace dtn {

std::string to_string(Device device) {
  switch (device.type) {
    case DeviceType::kCpu: return "cpu";
    case DeviceType::kCuda: return cat("cuda:", device.index);
    case DeviceType::kMeta: return "meta";
  }
  return "unknown";
}

Device parse_device(const std::string& name) {
  if (name == "cpu") return kCpu;
  if (name == "cuda" || name == "auto") {
    std::string reason = cuda::unavailable_reason();
    if (reason.empty()) return kCuda;
    if (name == "auto") return kCpu;
    throw ConfigError(cat("--device cuda: ", reason));
  }
  throw ConfigError(cat("--device ", name, ": unknown device; use cpu, cuda or auto"));
}

}  // namespace dtn
