// From the pixels that cross the bus to the float32 input of a model.
#pragma once

#include <cstdint>

#include "dtn/core/queue.h"

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

}  // namespace dtn
