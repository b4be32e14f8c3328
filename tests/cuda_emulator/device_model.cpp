#include "device_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace emu {
namespace {

DeviceModel from_environment() {
  DeviceModel model;
  if (const char* text = std::getenv("DTN_EMULATOR_SHARED_KIB")) {
    model.shared_memory = static_cast<std::size_t>(std::atoi(text)) << 10;
  }
  if (const char* text = std::getenv("DTN_EMULATOR_PRODUCTS_AT_ONCE")) {
    model.products_at_once = std::atoi(text);
  }
  model.unsteady_products = std::getenv("DTN_EMULATOR_UNSTEADY_PRODUCTS") != nullptr;
  if (const char* text = std::getenv("DTN_EMULATOR_OLD_DEVICES")) {
    model.old_devices = std::atoi(text);
  }
  model.has_code = std::getenv("DTN_EMULATOR_WITHOUT_CODE") == nullptr;
  return model;
}

DeviceModel& current() {
  static DeviceModel model = from_environment();
  return model;
}

// Truncates v to the digits of float32.
float cut_off(double v) {
  constexpr std::uint64_t kBelowFloat = (std::uint64_t{1} << 29) - 1;
  return static_cast<float>(std::bit_cast<double>(std::bit_cast<std::uint64_t>(v) & ~kBelowFloat));
}

// Returns the exponent in v = 0.1... x 2^exponent.
int exponent_of(double v) { return std::ilogb(v) + 1; }

}  // namespace

const DeviceModel& device_model() { return current(); }
void set_device_model(const DeviceModel& model) { current() = model; }

float add_truncating(float c, const float* a, const float* b, int n) {
  constexpr int kMax = 16, kDigits = 24 + 2;
  double terms[kMax + 1] = {c}, plain = c;
  bool any = c != 0;
  int largest = any && std::isfinite(c) ? exponent_of(c) : INT32_MIN;
  for (int i = 0; i < n; ++i) {
    const double product = static_cast<double>(a[i]) * static_cast<double>(b[i]);
    terms[i + 1] = product;
    plain += product;
    if (product == 0 || !std::isfinite(product)) continue;
    any = true;
    largest = std::max(largest, exponent_of(product));
  }
  if (!std::isfinite(plain) || !any) return static_cast<float>(plain);
  const double unit = std::ldexp(1.0, largest - kDigits);
  double sum = 0;  // sum of whole units: exact
  for (int i = 0; i <= n; ++i) sum += std::trunc(terms[i] / unit);
  return cut_off(sum * unit);
}

}  // namespace emu
