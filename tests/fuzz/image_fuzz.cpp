// Hostile image files through every decoder: whole, a region, at each scale, and on to the input of
// a model. Errors only, and memory within the limits.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "data/sample/transforms.h"
#include "dtn/core/check.h"

namespace {

constexpr dtn::DecodeLimits kLimits{1 << 20, 4096, 20, 1 << 24};

dtn::Transform make_transform(int channels, bool training) {
  dtn::DataConfig data;
  data.decode = dtn::DecodeMode::kFast;
  dtn::AugmentConfig augment;
  augment.preset = dtn::AugmentPreset::kLight;
  return dtn::Transform(data, augment, 12, channels, training, kLimits);
}

// What decodes has the size it should have.
void decode(std::span<const std::byte> bytes, std::uint32_t choice) {
  static const std::string name = "fuzz";
  static dtn::Image image;  // reused, as by a worker
  const auto mode = static_cast<dtn::ColorMode>(choice % 3);
  const dtn::ImageInfo info = dtn::read_image_info(bytes, name, kLimits);
  const dtn::ImageRegion middle{info.width / 3, info.height / 3, info.width - info.width / 3,
                                info.height - info.height / 3};
  const int eighths = info.scalable ? 1 + static_cast<int>(choice / 3 % 8) : 8;
  dtn::decode_image_scaled(bytes, name, middle, eighths, image, kLimits, mode);
  const dtn::ImageRegion part = dtn::scaled_region(middle, eighths);
  if (image.width != part.x1 - part.x0 || image.height != part.y1 - part.y0) std::abort();
  dtn::decode_image_into(bytes, name, image, kLimits, mode);
  if (image.width != info.width || image.height != info.height) std::abort();
}

void transform(std::span<const std::byte> bytes, std::uint32_t choice) {
  static const std::string name = "fuzz";
  static const std::array transforms = {make_transform(1, false), make_transform(1, true),
                                        make_transform(3, false), make_transform(3, true)};
  static dtn::TransformWorkspace workspace;
  static std::array<float, 3 * 12 * 12> out;
  transforms[choice % 4].decode_and_apply(bytes, name, {1, 2, choice}, workspace, out.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  std::uint32_t choice = static_cast<std::uint32_t>(size) * 2654435761u;
  if (size > 0) choice ^= data[size / 2] * 40503u;
  choice >>= 8;
  for (auto* step : {decode, transform}) {
    try {
      step(bytes, choice);
    } catch (const dtn::DataError&) {
    }
  }
  return 0;
}
