// Whole runs of a Transform, and its normalization by the formula.
#pragma once

#include <span>
#include <string>

#include "data/sample/transforms.h"

namespace dtn::test {

inline void apply(const Transform& transform, const Image& image, const SampleKey& key,
                  TransformWorkspace& workspace, float* out) {
  transform.normalize(transform.prepare(image, key, workspace), key, out);
}

inline void decode_and_apply(const Transform& transform, std::span<const std::byte> bytes,
                             const std::string& name, const SampleKey& key,
                             TransformWorkspace& workspace, float* out) {
  transform.normalize(transform.decode_and_prepare(bytes, name, key, workspace), key, out);
}

// out[c, y, x] = (pixel / 255 - mean[c]) / std[c], mirrored left to right if `flip`.
inline void normalize_to_chw(const Image& image, const Normalization& n, bool flip, float* out) {
  for (int c = 0; c < image.channels; ++c) {
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        const int from = (y * image.width + (flip ? image.width - 1 - x : x)) * image.channels + c;
        const float value = image.pixels[static_cast<std::size_t>(from)];
        const auto channel = static_cast<std::size_t>(c);
        *out++ = (value / 255.0f - n.mean[channel]) / n.std[channel];
      }
    }
  }
}

}  // namespace dtn::test
