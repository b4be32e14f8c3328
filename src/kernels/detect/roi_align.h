// RoIAlign, aligned (He et al., "Mask R-CNN", ICCV 2017), of the levels of a feature pyramid. A
// region of interest (RoI) r has a level l, an image b and a box. It becomes S x S bins:
//    y[r, (p, q), c] = sum_i Ay_r[p, i] sum_j Ax_r[q, j] F_l[b, (i, j), c]
//    y_r = Ay_r F Ax_r^T
// Row p of Ay is the mean of n bilinear samples along the axis, and Ax is the same for columns:
//    lo = x1 scale - 1/2, hi = x2 scale - 1/2, n = ceil((hi - lo) / S)
//    position of sample k of bin p = lo + (p + (k + 1/2) / n) (hi - lo) / S
// A sample below -1 or above the size reads 0. Other samples are clamped to [0, size - 1]. Rows and
// columns are separate, at the borders too, see roi_align_taps.h. The positions are computed in
// float64, the sums in acc: float32, or float64 for float64, which runs on the CPU only.
//
// A RoI without positive width and height, or with a side that is not finite, gives 0. The caller
// should reject an image or a level out of range. Such a RoI gives NaN and has no gradient.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "dtn/core/host_device.h"

namespace dtn {

inline constexpr int kMaxRoiLevels = 8;

// The RoIs, and the sizes of the levels.
struct RoiAlignShape {
  DType dtype;  // of features and outputs
  int levels;
  std::int64_t batch, channels;  // B, C
  std::int64_t rois, size;       // R, S
  std::int64_t grid_h[kMaxRoiLevels], grid_w[kMaxRoiLevels];
  double scale[kMaxRoiLevels];        // cells per unit of the boxes
  const std::int64_t *image, *level;  // [R]
  const float* boxes;                 // [R, 4]: x1, y1, x2, y2

  DTN_HOST_DEVICE bool is_valid(std::int64_t r) const {
    return 0 <= image[r] && image[r] < batch && 0 <= level[r] && level[r] < levels;
  }
};

struct RoiAlignForward : RoiAlignShape {
  const void* features[kMaxRoiLevels];  // [B, H W, C] each
  void* y;                              // [R, S S, C]
};
void run(CpuQueue&, const RoiAlignForward&);
void run(CudaQueue&, const RoiAlignForward&);

//    dF_l[b, (i, j), c] = sum_r sum_p Ay_r[p, i] sum_q Ax_r[q, j] dy[r, (p, q), c]
// The sum runs over the RoIs in order. It needs no atomics.
struct RoiAlignBackward : RoiAlignShape {
  const void* dy;                  // [R, S S, C]
  void* dfeatures[kMaxRoiLevels];  // [B, H W, C] each, =; null if the gradient is not needed
};
void run(CpuQueue&, const RoiAlignBackward&);
void run(CudaQueue&, const RoiAlignBackward&);

}  // namespace dtn
