// Feeds hostile image files to every decoder: whole, a region, at each scale, and the conversion to
// a model's input. Only errors are allowed, and memory stays within the limits.
#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "data/sample/transforms.h"
#include "dtn/core/check.h"
#include "fuzz/decode_checks.h"

namespace {

dtn::Transform make_transform(int channels, bool training) {
  dtn::DataConfig data;
  data.decode = dtn::DecodeMode::kFast;
  data.exif = training;
  dtn::AugmentConfig augment;
  augment.preset = dtn::AugmentPreset::kLight;
  return dtn::Transform(data, augment, 12, channels, training, dtn::fuzz::kOptions);
}

void transform(std::span<const std::byte> bytes, std::uint32_t choice) {
  static const std::string name = "fuzz";
  static const std::array transforms = {make_transform(1, false), make_transform(1, true),
                                        make_transform(3, false), make_transform(3, true)};
  static dtn::TransformWorkspace workspace;
  static std::array<float, 3 * 12 * 12> out;
  const dtn::Transform& chosen = transforms[choice % 4];
  const dtn::SampleKey key{1, 2, choice};
  chosen.normalize(chosen.decode_and_prepare(bytes, name, key, workspace), key, out.data());
}

// Corrects the checksums of a PNG, because otherwise no damaged file would pass them.
void mend_checksums(std::vector<std::byte>& file) {
  constexpr std::size_t kSignature = 8, kOverhead = 12;
  if (file.size() < kSignature || std::memcmp(file.data(), "\x89PNG", 4) != 0) return;
  auto* data = reinterpret_cast<Bytef*>(file.data());
  for (std::size_t at = kSignature; at + kOverhead <= file.size();) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8 | data[at + i];
    if (size > file.size() - at - kOverhead) return;
    const auto sum = static_cast<std::uint32_t>(crc32_z(0, data + at + 4, 4 + size));
    for (std::size_t i = 0; i < 4; ++i)
      data[at + 8 + size + i] = static_cast<Bytef>(sum >> (24 - 8 * i));
    at += kOverhead + size;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::vector<std::byte> bytes;
  bytes.assign(reinterpret_cast<const std::byte*>(data),
               reinterpret_cast<const std::byte*>(data) + size);
  std::uint32_t choice = static_cast<std::uint32_t>(size) * 2654435761u;
  if (size > 0) choice ^= data[size / 2] * 40503u;
  choice >>= 8;
  if (choice % 4 != 0) mend_checksums(bytes);
  for (auto* step : {dtn::fuzz::check_decoding, transform}) {
    try {
      step(bytes, choice);
    } catch (const dtn::DataError&) {
    }
  }
  return 0;
}
