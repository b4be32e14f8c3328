#include "dtn/core/device.h"

#include "dtn/core/check.h"

namespace dtn {

std::string to_string(Device device) {
  return device.type == DeviceType::kCpu ? "cpu" : cat("cuda:", device.index);
}

Device parse_device(const std::string& name) {
  if (name == "cpu" || name == "auto") return kCpu;
  if (name == "cuda") {
    throw ConfigError("--device cuda: this build has no CUDA backend; use --device cpu or auto");
  }
  throw ConfigError(cat("--device ", name, ": unknown device; use cpu, cuda or auto"));
}

}  // namespace dtn
