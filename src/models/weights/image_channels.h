// Converts the first convolution of a model to another number of image channels.
#pragma once

#include "dtn/core/tensor.h"

namespace dtn {

// Returns float32 weights [N, to, h, w] from float32 weights [N, from, h, w], as timm's `in_chans`
// does for pretrained weights:
//     to = 1:  the sum over the channels; a grey image gives what its three equal channels gave
//     else:    out[n, c] = weight[n, c mod from] * from / to
Tensor with_channels(const Tensor& weight, std::int64_t to);

}  // namespace dtn
