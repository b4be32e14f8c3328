// Conversion of the pixels that are copied to the device into the float32 input of a model.
#pragma once

#include <cstdint>

#include "core/queue.h"

namespace dtn {

//    images[b, c, y, x] = table[c, pixels[b, y, x', c]]
// x' is width - 1 - x if flips[b] is set, else x. The table holds (value / 255 - mean[c]) / std[c]
// for every pixel value, so images prepared on the host and on a device are bit-identical.
struct NormalizeImages {
  std::int64_t batch, channels, height, width;
  const std::uint8_t* pixels;  // [B, height, width, channels]
  const std::uint8_t* flips;   // [B], 0 or 1; null: none
  const float* table;          // [channels, 256]
  float* images;               // [B, channels, height, width]
};
void run(CpuQueue&, const NormalizeImages&);
void run(CudaQueue&, const NormalizeImages&);

// The same for images of different sizes, each padded with 0 to height x width afterwards:
//    images[b, c, y, x] = table[c, pixels[b, (y w[b] + x) channels + c]]   y < h[b] and x < w[b]
//                         0                                               otherwise
struct PadImages {
  std::int64_t batch, channels, height, width;
  std::int64_t capacity;       // bytes of `pixels` for each image, at least h[b] w[b] channels
  const std::uint8_t* pixels;  // [B, capacity]
  const std::int64_t* sizes;   // [B, 2]: h[b] <= height and w[b] <= width
  const float* table;          // [channels, 256]
  float* images;               // [B, channels, height, width]
};
void run(CpuQueue&, const PadImages&);
void run(CudaQueue&, const PadImages&);

// Random erasing. In the box of each image, images[b, c, y, x] becomes the element
// (c height + y) width + x of the image's noise (see core/normal_noise.h).
struct EraseImages {
  std::int64_t batch, channels, height, width;
  // [B, 5]: left, top, width and height of a box inside the image (height 0 for none), and the seed
  // of the noise.
  const std::int64_t* boxes;
  const float* table;  // normal_table(), in the memory of the device
  float* images;       // [B, channels, height, width]
};
void run(CpuQueue&, const EraseImages&);
void run(CudaQueue&, const EraseImages&);

}  // namespace dtn
