// Error messages for devices that a program cannot use.
#include <gtest/gtest.h>

#include "core/cuda_device.h"
#include "cuda/streams.h"
#include "cuda_emulator/device_model.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

void expect_text(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

std::string refusal_of(int device) {
  try {
    cuda::select_device(device);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

emu::DeviceModel with_old_devices(int count) {
  emu::DeviceModel model = emu::device_model();
  model.old_devices = count;
  return model;
}

TEST(EmulatedDevices, SkipsOldDevices) {
  const emu::ScopedDeviceModel mixed(with_old_devices(2));
  EXPECT_EQ(cuda::unavailable_reason(), "");
  EXPECT_EQ(cuda::usable_devices(), (std::vector<int>{2, 3, 4, 5, 6, 7}));
  expect_text(refusal_of(1),
              "CUDA device 1: the device, emulator, has compute capability 7.5; 8.0");
}

TEST(EmulatedDevices, ErrorNamesOldDevices) {
  const emu::ScopedDeviceModel old(with_old_devices(8));
  expect_text(cuda::unavailable_reason(), "has compute capability 7.5; 8.0 or newer is needed");
  EXPECT_TRUE(cuda::usable_devices().empty());
  expect_text(refusal_of(0), "--device cuda: the device");
}

TEST(EmulatedDevices, RejectsDeviceIndexOutOfRange) {
  expect_text(refusal_of(8), "no CUDA device 8; this machine has 8 devices");
}

TEST(EmulatedDevices, ErrorNamesMissingArchitecture) {
  EXPECT_EQ(cuda::missing_code(0), "");
  emu::DeviceModel model = emu::device_model();
  model.has_code = false;
  const emu::ScopedDeviceModel foreign(model);
  expect_text(cuda::missing_code(0),
              "no code for the device, emulator of compute capability 9.0: it was built for the "
              "emulator; build it with -DCMAKE_CUDA_ARCHITECTURES=90a-real, or pack it with --arch "
              "90a-real; choose others with CUDA_VISIBLE_DEVICES, or use --device cpu");
}

}  // namespace
}  // namespace dtn
