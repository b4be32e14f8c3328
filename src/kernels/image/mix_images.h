// Mixing a batch with itself: image b with its partner, image B - 1 - b. Both members of a pair are
// read and written together, so it is done in place in one pass. The middle image of an odd batch
// is its own partner and stays as it is.
#pragma once

#include <cstdint>

#include "core/queue.h"

namespace dtn {

// images[b] = share images[b] + partner_share images[B-1-b], the second product rounded, then fused
// with the first: the same bits on every device. Moves all images to and fro.
struct BlendPairs {
  std::int64_t batch, values;  // values: of an image
  float share, partner_share;
  float* images;  // [B, values]
};
void run(CpuQueue&, const BlendPairs&);
void run(CudaQueue&, const BlendPairs&);

// The pixels of a box change places with those of the partner. Moves the boxes to and fro.
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
