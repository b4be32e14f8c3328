// Convolutions of tokens and their gradients:
//    y[b, (i, j), o] = bias[o] + sum over (c, u, v) of
//                      w[o, c, u, v] x[b, (i stride_h + u - pad_h, j stride_w + v - pad_w), c]
// x is 0 outside the grid, and c runs over the channels of o's group. Tokens are in raster order,
// channels innermost. Sums are computed in the accumulator type and rounded once. On the CPU, most
// 3 x 3 kernels in float32 and float64 are computed otherwise (kernels/conv/winograd.h). The bits
// of the results depend on the shape alone, and those of an image not on the batch.
#pragma once

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/conv/window.h"

namespace dtn {

struct ConvolutionShape {
  DType dtype;
  Window window;
  std::int64_t batch, channels, outputs;  // B, C, O
  std::int64_t groups = 1;                // divides C and O

  std::int64_t channels_of_group() const { return channels / groups; }
  std::int64_t outputs_of_group() const { return outputs / groups; }
  std::int64_t taps() const { return window.kernel_h * window.kernel_w; }
  std::int64_t positions() const { return batch * window.out_h * window.out_w; }
  // True if every output sees only the input at its own position.
  bool in_place() const {
    return taps() == 1 && window.stride_h == 1 && window.stride_w == 1 && window.pad_h == 0 &&
           window.pad_w == 0;
  }
  // True if the convolution is a linear layer.
  bool pointwise() const { return in_place() && groups == 1; }
  bool depthwise() const { return groups == channels && outputs == channels; }
  // Includes padding, as is usual for convolutions.
  double multiply_adds() const {
    return static_cast<double>(positions() * taps()) *
           static_cast<double>(channels_of_group() * outputs);
  }
};

struct ConvolutionForward {
  ConvolutionShape shape;
  const void* x;       // [B, height width, C]
  const void* weight;  // [O, C / groups, kernel_h, kernel_w]
  const void* bias;    // [O], accumulator type, or null
  void* y;             // [B, out_h out_w, O]

  double multiply_adds() const { return shape.multiply_adds(); }
};
void run(CpuQueue&, const ConvolutionForward&);
void run(CudaQueue&, const ConvolutionForward&);

struct ConvolutionBackwardInput {
  ConvolutionShape shape;
  const void* dy;      // [B, out_h out_w, O]
  const void* weight;  // [O, C / groups, kernel_h, kernel_w]
  void* dx;            // [B, height width, C], written (=)

  double multiply_adds() const { return shape.multiply_adds(); }
};
void run(CpuQueue&, const ConvolutionBackwardInput&);
void run(CudaQueue&, const ConvolutionBackwardInput&);

struct ConvolutionBackwardWeight {
  ConvolutionShape shape;
  const void* x;   // [B, height width, C]
  const void* dy;  // [B, out_h out_w, O]
  void* dweight;   // [O, C / groups, kernel_h, kernel_w], accumulator type, +=, or null
  void* dbias;     // [O], accumulator type, +=, or null

  double multiply_adds() const { return dweight ? shape.multiply_adds() : 0; }
};
void run(CpuQueue&, const ConvolutionBackwardWeight&);
void run(CudaQueue&, const ConvolutionBackwardWeight&);

}  // namespace dtn
