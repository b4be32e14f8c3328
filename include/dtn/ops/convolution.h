// Convolutions and poolings over the tokens of a grid, and the conversion of images to tokens.
//
// Tokens are [B, T, C], T = grid_h grid_w in raster order, channels innermost. All other layers use
// this layout too, so no transposition is needed between a convolution and a normalizer.
// Activations are float32, bfloat16 or float64; parameters float32 (float64 with float64). Sums are
// taken in float32 or wider and rounded once. Every operation has a reference made of primitive
// operations.
#pragma once

#include <array>

#include "dtn/ops/primitive.h"

namespace dtn::ops {

// Output grid of a convolution or a pooling: (n + 2 padding - kernel) / stride + 1, rounded down,
// along each axis. Throws Error if a kernel does not fit.
std::array<std::int64_t, 2> convolved_grid(const std::array<std::int64_t, 2>& grid,
                                           const std::array<std::int64_t, 2>& kernel,
                                           const std::array<std::int64_t, 2>& stride,
                                           const std::array<std::int64_t, 2>& padding);

// x [B, grid_h grid_w, C], weight [O, C / groups, kh, kw] (PyTorch's layout), bias [O] or undefined
// -> [B, h' w', O] on the output grid h' x w'. Computes a cross-correlation, as usual in deep
// learning.
Variable convolution(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                     const Variable& weight, const Variable& bias,
                     const primitive::Conv2d& how = {});

// x [B, grid_h grid_w, C] -> [B, h' w', C]. The padding must be smaller than the window. If several
// inputs share a window's maximum, the first in raster order gets the gradient. Padding is never
// the maximum.
Variable max_pool(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                  const primitive::Pool2d& how);
// The mean of each window, in the shapes of max_pool(). Zeros of the padding count if
// how.count_padding is set.
Variable avg_pool(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                  const primitive::Pool2d& how);

// images [B, channels, H, W] float32 (or float64, for float64) -> tokens [B, H W, channels] in
// `dtype`. Images get no gradient.
Variable image_tokens(Context&, const Tensor& images, DType dtype);

// The soft split of T2T-ViT (Yuan et al., ICCV 2021), the same as nn.Unfold. A token is a k x k
// window of the zero-padded grid, in raster order. Its channel (c k + ky) k + kx comes from the
// input channel c, so the input channel is outermost. x [B, grid_h grid_w, C] -> [B, h' w', C k k].
Variable soft_split(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                    std::int64_t k, std::int64_t stride, std::int64_t padding);

// The tokens of every s-th row and column, starting with the first:
// x [B, grid_h grid_w, C] -> [B, ceil(grid_h / s) ceil(grid_w / s), C].
Variable every_nth(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                   std::int64_t s);

// A coarse grid of tokens, upsampled and added to a fine one, as in a feature pyramid. Token (i, j)
// of the fine grid gets the coarse token (floor(i h' / h), floor(j w' / w)), the nearest:
// fine [B, h w, C] + coarse [B, h' w', C] -> [B, h w, C]. Throws Error if the coarse grid h' x w'
// is larger.
Variable upsample_add(Context&, const Variable& fine, const std::array<std::int64_t, 2>& fine_grid,
                      const Variable& coarse, const std::array<std::int64_t, 2>& coarse_grid);

// A coarse grid of tokens upsampled as in upsample_add(), with the channels of a fine map behind
// its own, as in an encoder-decoder: coarse [B, h' w', C] and fine [B, h w, F] -> [B, h w, C + F].
// An undefined fine map has no channels. Throws Error if the coarse grid h' x w' is larger than the
// fine grid h x w.
Variable upsample_join(Context&, const Variable& coarse,
                       const std::array<std::int64_t, 2>& coarse_grid, const Variable& fine,
                       const std::array<std::int64_t, 2>& fine_grid);

namespace reference {
Variable convolution(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                     const Variable& weight, const Variable& bias,
                     const primitive::Conv2d& how = {});
Variable max_pool(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                  const primitive::Pool2d& how);
Variable avg_pool(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                  const primitive::Pool2d& how);
Variable image_tokens(Context&, const Tensor& images, DType dtype);
Variable soft_split(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                    std::int64_t k, std::int64_t stride, std::int64_t padding);
Variable every_nth(Context&, const Variable& x, std::int64_t grid_h, std::int64_t grid_w,
                   std::int64_t s);
Variable upsample_add(Context&, const Variable& fine, const std::array<std::int64_t, 2>& fine_grid,
                      const Variable& coarse, const std::array<std::int64_t, 2>& coarse_grid);
Variable upsample_join(Context&, const Variable& coarse,
                       const std::array<std::int64_t, 2>& coarse_grid, const Variable& fine,
                       const std::array<std::int64_t, 2>& fine_grid);
}  // namespace reference
}  // namespace dtn::ops
