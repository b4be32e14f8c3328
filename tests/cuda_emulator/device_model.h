// What the emulated device is like where devices differ.
#pragma once

#include <cstddef>

namespace emu {

struct DeviceModel {
  // Bytes of shared memory that a block may have: 163 KiB as on compute capability 8.0, the
  // smallest we build for; 99 KiB on 8.6, 8.9 and 12.0.
  std::size_t shared_memory = std::size_t{163} << 10;
  // How many products of bfloat16 numbers a tensor core adds at once, truncating (half as many of
  // tf32): 8 on compute capability 8, 16 on 9. 0: each product is added and rounded, which no
  // device does, but which says what is due to the formula alone.
  int products_at_once = 0;
  // Whether cuBLASLt has algorithms only for rows that begin at multiples of 16 bytes.
  bool wants_aligned_rows = false;
  // Whether cuBLASLt first offers an algorithm that gives other bits every other time, as sums in
  // no fixed order do; these are off by more, so that no rounding hides it.
  bool unsteady_products = false;
  std::size_t memory = std::size_t{8} << 30;  // bytes
  // How many devices, from the first, are of compute capability 7.5; the others are of 9.0.
  int old_devices = 0;
  // Whether the program holds code that the devices can run.
  bool has_code = true;
};

// DTN_EMULATOR_SHARED_KIB, DTN_EMULATOR_PRODUCTS_AT_ONCE, DTN_EMULATOR_UNSTEADY_PRODUCTS,
// DTN_EMULATOR_OLD_DEVICES and DTN_EMULATOR_WITHOUT_CODE in the environment change what a process
// starts with.
const DeviceModel& device_model();
void set_device_model(const DeviceModel& model);

// Another device until the end of a block.
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

// c + a[0] b[0] + ... + a[n - 1] b[n - 1] as a tensor core adds what it adds at once: the products
// are exact, all terms are shifted to the exponent of the largest and cut off two bits below float32,
// the sum is cut off to float32. After M. Fasi, N. J. Higham, M. Mikaitis and S. Pranesh, "Numerical
// behavior of NVIDIA tensor cores" (PeerJ CS 7:e330, 2021); of Hopper it is a guess.
float add_truncating(float c, const float* a, const float* b, int n);

}  // namespace emu
