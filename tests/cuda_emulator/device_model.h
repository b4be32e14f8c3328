// Properties of the emulated device in which devices differ.
#pragma once

#include <cstddef>

namespace emu {

struct DeviceModel {
  // Shared memory available to a block; bytes. 163 KiB as on compute capability 8.0, the smallest
  // that we build for. It is 99 KiB on 8.6, 8.9 and 12.0.
  std::size_t shared_memory = std::size_t{163} << 10;
  // Number of products of bfloat16 numbers that a tensor core adds at once, with truncation (half
  // as many of tf32): 8 on compute capability 8, 16 on 9. With 0 each product is added and rounded.
  // No device does that, but it shows the error of the formula alone.
  int products_at_once = 0;
  // True if cuBLASLt has algorithms only for rows that begin at multiples of 16 bytes.
  bool wants_aligned_rows = false;
  // True if cuBLASLt's first candidate is an algorithm whose bits differ every other time, as those
  // of sums in no fixed order do. Its error is larger than rounding, so rounding cannot hide it.
  bool unsteady_products = false;
  std::size_t memory = std::size_t{8} << 30;  // bytes
  // Number of devices, from the first, of compute capability 7.5. The others are of 9.0.
  int old_devices = 0;
  // True if the program contains code that the devices can run.
  bool has_code = true;
};

// Model of the device. The environment variables DTN_EMULATOR_SHARED_KIB,
// DTN_EMULATOR_PRODUCTS_AT_ONCE, DTN_EMULATOR_UNSTEADY_PRODUCTS, DTN_EMULATOR_OLD_DEVICES and
// DTN_EMULATOR_WITHOUT_CODE change the model that a process starts with.
const DeviceModel& device_model();
void set_device_model(const DeviceModel& model);

// Replaces the device model until the end of a scope.
class ScopedDeviceModel {
 public:
  explicit ScopedDeviceModel(const DeviceModel& model) : before_(device_model()) {
    set_device_model(model);
  }
  ~ScopedDeviceModel() { set_device_model(before_); }
  ScopedDeviceModel(const ScopedDeviceModel&) = delete;
  ScopedDeviceModel& operator=(const ScopedDeviceModel&) = delete;

 private:
  DeviceModel before_;
};

// Returns c + a[0] b[0] + ... + a[n - 1] b[n - 1] as a tensor core adds terms at once. The products
// are exact. All terms are shifted to the exponent of the largest term and truncated two bits below
// float32. The sum is truncated to float32. After M. Fasi, N. J. Higham, M. Mikaitis and S.
// Pranesh, "Numerical behavior of NVIDIA tensor cores" (PeerJ CS 7:e330, 2021). For Hopper it is a
// guess.
float add_truncating(float c, const float* a, const float* b, int n);

}  // namespace emu
