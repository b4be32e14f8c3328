// What Normalizer::view() is made of: means of x [B, T, C] float64 on the host, as large as x.
#pragma once

#include <cstdint>

#include "dtn/core/tensor.h"

namespace dtn {

// Any real tensor as float64 on the host.
Tensor in_float64(const Tensor& values);

// Of each token over all channels.
Tensor means_of_tokens(const Tensor& x);
// Of each image over its tokens, and each of so many groups of consecutive channels.
Tensor means_of_groups(const Tensor& x, std::int64_t groups);
// A mean for each channel, [C] of any real type, for all tokens.
Tensor means_of_channels(const Tensor& x, const Tensor& mean);

}  // namespace dtn
