#include "data/sample/center_crop.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/sample/random.h"

namespace dtn {

int halvings_of(int width, int height, const ImageSize& size) {
  int count = 0;
  for (; width >= 2 * size.width && height >= 2 * size.height; width /= 2, height /= 2) ++count;
  return count;
}

void decode_for_center_crop(std::span<const std::byte> bytes, const std::string& name,
                            const ImageSize& size, bool fast, const DecodeOptions& decoding,
                            ColorMode color, Image& out) {
  constexpr int kMaxHalvings = 3;  // of a JPEG decoder
  const ImageInfo info = read_image_info(bytes, name, decoding);
  int eighths = 8;
  if (fast && info.scalable) {
    eighths >>= std::min(kMaxHalvings, halvings_of(info.width, info.height, size));
  }
  decode_image_scaled(bytes, name, {0, 0, info.width, info.height}, eighths, out, decoding, color);
}

const Image& center_crop(const Image& image, const ImageSize& size, const Resampling& how,
                         CenterCropWorkspace& ws) {
  const Image* now = &image;
  for (int left = halvings_of(image.width, image.height, size); left > 0; --left) {
    resize(view(*now), now->width / 2, now->height / 2, {kBoxFilter, how.order}, ws.resample,
           ws.half);
    std::swap(ws.half, ws.image);
    now = &ws.image;
  }
  if (now->width == size.width && now->height == size.height) return *now;
  const double scale = std::max(static_cast<double>(size.width) / now->width,
                                static_cast<double>(size.height) / now->height);
  const int width = round_even(now->width * scale), height = round_even(now->height * scale);
  resize(view(*now), width, height, how, ws.resample, ws.half);
  ws.image.reshape(size.width, size.height, ws.half.channels);
  const ImageView part = crop_view(view(ws.half), (width - size.width) / 2,
                                   (height - size.height) / 2, size.width, size.height);
  const std::size_t row = static_cast<std::size_t>(size.width) * part.channels;
  for (int y = 0; y < size.height; ++y) {
    std::memcpy(&ws.image.pixels[static_cast<std::size_t>(y) * row], part.pixels + y * part.stride,
                row);
  }
  return ws.image;
}

}  // namespace dtn
