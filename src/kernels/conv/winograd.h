// 3 x 3 convolutions with stride 1 by Winograd's minimal filtering F(4 x 4, 3 x 3), and their
// gradients (Winograd 1980; Lavin and Gray, "Fast algorithms for convolutional neural networks",
// 2016). convolution.h explains the arguments. A tile of 4 x 4 outputs takes 36 products per input
// and output channel in place of 144:
//    y  = A^T [ (G w G^T) . (B^T x B) ] A       x 6 x 6, w 3 x 3, y 4 x 4; . is element by element
//    dw = G^T [ (A dy A^T) . (B^T x B) ] G      summed over tiles
// dx is the same convolution of dy with the kernel turned by 180 degrees. The sums over channels
// and tiles are matrix products, one for each of the 36 elements. winograd_transforms.h has A, B
// and G.
//
// In float32 the root mean square error of y is about 1e-6 of its values with 256 channels, which
// is five times the error of direct products; the points of A, B and G are chosen for that. A value
// that is not finite spreads over its tile.
#pragma once

#include "kernels/conv/convolution.h"

namespace dtn {

// True if y and dx of this shape are faster by winograd.h than by the products of convolution.cpp.
// Transforming the kernels takes as long as some ten tiles. Does not depend on the batch size,
// because the bits of an image must not.
inline bool suits_winograd(const ConvolutionShape& s) {
  constexpr std::int64_t kMinTiles = 9, kMinPairs = 32;  // of an image; of channels and outputs
  const Window& w = s.window;
  return s.dtype != DType::kBFloat16 && s.groups == 1 && w.kernel_h == 3 && w.kernel_w == 3 &&
         w.stride_h == 1 && w.stride_w == 1 && w.pad_h <= 2 && w.pad_w <= 2 &&
         s.channels * s.outputs >= kMinPairs &&
         (w.out_h + 3) / 4 * ((w.out_w + 3) / 4) >= kMinTiles;
}
// The same of dweight, whose products are small matrices.
inline bool suits_winograd_weight(const ConvolutionShape& s) {
  constexpr std::int64_t kMinChannels = 8, kMinPairs = 256;
  return suits_winograd(s) && s.channels >= kMinChannels && s.outputs >= kMinChannels &&
         s.channels * s.outputs >= kMinPairs;
}

struct WinogradForward : ConvolutionForward {};
void run(CpuQueue&, const WinogradForward&);

struct WinogradBackwardInput : ConvolutionBackwardInput {};
void run(CpuQueue&, const WinogradBackwardInput&);

// Computes dweight alone: dbias must be null.
struct WinogradBackwardWeight : ConvolutionBackwardWeight {};
void run(CpuQueue&, const WinogradBackwardWeight&);

}  // namespace dtn
