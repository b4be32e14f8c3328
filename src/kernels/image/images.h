// From the pixels that cross the bus to the float32 input of a model.
#pragma once

#include <cstdint>

#include "core/queue.h"

namespace dtn {

// images[b, c, y, x] = table[c, pixels[b, y, x', c]], x' = width - 1 - x where flips[b] is set and
// x elsewhere. The table holds (value / 255 - mean[c]) / std[c] of every pixel value, so that
// images prepared on the host and on a device are equal to the last bit.
struct NormalizeImages {
  std::int64_t batch, channels, height, width;
  const std::uint8_t* pixels;  // [B, height, width, channels]
  const std::uint8_t* flips;   // [B], 0 or 1; null: none
  const float* table;          // [channels, 256]
  float* images;               // [B, channels, height, width]
};
void run(CpuQueue&, const NormalizeImages&);
void run(CudaQueue&, const NormalizeImages&);

// Random erasing: in the box of each image, images[b, c, y, x] becomes the element of its noise
// (see core/normal_noise.h) at its place (c height + y) width + x.
struct EraseImages {
  std::int64_t batch, channels, height, width;
  // [B, 5]: left, top, width and height of a box inside the image, height 0 for none; seed of the
  // noise.
  const std::int64_t* boxes;
  const float* table;  // normal_table(), in the memory of the device
  float* images;       // [B, channels, height, width]
};
void run(CpuQueue&, const EraseImages&);
void run(CudaQueue&, const EraseImages&);

}  // namespace dtn
