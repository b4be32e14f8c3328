// Resampling of learned positions to another grid of tokens.
#pragma once

#include <cstdint>

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Rows and columns of a grid of tokens.
struct GridSize {
  std::int64_t height, width;
  bool operator==(const GridSize&) const = default;
  std::int64_t tokens() const { return height * width; }
};

// Interpolation of positions, not antialiased, with clamped borders. On an axis of G positions,
// output i of g reads the position
//     kDino      (i + 1/2) G / (g + 0.1) - 1/2
//     kBilinear  (i + 1/2) G / g - 1/2
// kDino (Caron et al., Emerging Properties in Self-Supervised Vision Transformers, ICCV 2021) is
// bicubic with a = -0.75. Its 0.1 shifts the samples, and DINO's public weights were trained with
// it. kBilinear is that of detectors with a pyramid vision transformer (Wang et al., ICCV 2021).
enum class PositionFilter { kDino, kBilinear };

// Resampling along both axes of a grid.
class PositionResampling {
 public:
  // `dtype` (float32 or float64) and `device` are those of the positions.
  PositionResampling(const GridSize& from, const GridSize& to, DType dtype, Device device,
                     PositionFilter filter = PositionFilter::kDino);

  const GridSize& from() const { return from_; }  // the grid that the positions belong to
  const GridSize& to() const { return to_; }      // the grid of the result
  const Tensor& down() const { return down_; }    // M_y [to.height, from.height]
  const Tensor& along() const { return along_; }  // M_x [to.width, from.width]

 private:
  GridSize from_, to_;
  Tensor down_, along_;
};

// positions [1, prefix + h w, C] on the grid from() -> [1, prefix + h' w', C] on the grid to():
// M_y p M_x^T for every channel. The prefix rows, which precede the grid, are kept. The gradient of
// the positions is the transposed product.
Variable resample_positions(Context&, const Variable& positions, const PositionResampling&);
// The same, with matrices for this call, which a captured step on a CUDA device cannot make.
// Positions of the grid `to` are returned as they are.
Variable resample_positions(Context&, const Variable& positions, const GridSize& from,
                            const GridSize& to);

}  // namespace dtn::ops
