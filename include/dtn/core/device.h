// The device that holds a tensor.
#pragma once

#include <cstdint>
#include <string>

namespace dtn {

// Tensors on the meta device have shapes but no values. Operations on them compute nothing; their
// work is counted instead, which gives the cost of a model (dtn/models/complexity.h).
enum class DeviceType : std::uint8_t { kCpu, kCuda, kMeta };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

inline constexpr Device kCpu{};
inline constexpr Device kCuda{DeviceType::kCuda, 0};
inline constexpr Device kMeta{DeviceType::kMeta, 0};

// For messages: "cpu", "cuda:0".
std::string to_string(Device device);

// Resolves `cpu`, `cuda` or `auto` (the best device this build and machine offer).
// Throws ConfigError, naming the reason, when the device cannot be used.
Device parse_device(const std::string& name);

}  // namespace dtn
