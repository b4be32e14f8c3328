// Mixing of a batch with itself: image b with its partner, image B - 1 - b. Both images of a pair
// are read and written together, in place and in one pass. The middle image of an odd batch is its
// own partner and stays unchanged.
#pragma once

#include <cstdint>

#include "core/queue.h"

namespace dtn {

//    images[b] = share images[b] + partner_share images[B-1-b]
// The second product is rounded, and then a fused multiply-add adds the first product. So the bits
// are the same on every device. Reads and writes all images.
struct BlendPairs {
  std::int64_t batch, values;  // values: of an image
  float share, partner_share;
  float* images;  // [B, values]
};
void run(CpuQueue&, const BlendPairs&);
void run(CudaQueue&, const BlendPairs&);

// Swaps the pixels of a box with those of the partner. Reads and writes the boxes only.
struct SwapBoxes {
  std::int64_t batch, channels, height, width;
  std::int64_t left, top, box_width, box_height;  // inside the image
  float* images;                                  // [B, channels, height, width]
};
void run(CpuQueue&, const SwapBoxes&);
void run(CudaQueue&, const SwapBoxes&);

// partner_labels[b] = labels[B-1-b], label_share[b] = share.
struct PairLabels {
  std::int64_t batch;
  const std::int64_t* labels;  // [B]
  float share;
  std::int64_t* partner_labels;  // [B]
  float* label_share;            // [B]
};
void run(CpuQueue&, const PairLabels&);
void run(CudaQueue&, const PairLabels&);

}  // namespace dtn
