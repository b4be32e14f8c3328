// Convolutions of tokens in which each channel has a separate kernel (ConvolutionShape::depthwise),
// and their gradients. convolution.h explains the arguments.
#pragma once

#include "kernels/conv/convolution.h"

namespace dtn {

struct DepthwiseTokensForward : ConvolutionForward {};
void run(CpuQueue&, const DepthwiseTokensForward&);
void run(CudaQueue&, const DepthwiseTokensForward&);

struct DepthwiseTokensBackwardInput : ConvolutionBackwardInput {};
void run(CpuQueue&, const DepthwiseTokensBackwardInput&);
void run(CudaQueue&, const DepthwiseTokensBackwardInput&);

struct DepthwiseTokensBackwardWeight : ConvolutionBackwardWeight {};
void run(CpuQueue&, const DepthwiseTokensBackwardWeight&);
void run(CudaQueue&, const DepthwiseTokensBackwardWeight&);

}  // namespace dtn
