// Means for Normalizer::view(): of x [B, T, C] float64 on the host, with the shape of x.
#pragma once

#include <cstdint>

#include "dtn/core/tensor.h"

namespace dtn {

// Converts any real tensor to float64 on the host.
Tensor in_float64(const Tensor& values);

// Means of each token over all channels.
Tensor means_of_tokens(const Tensor& x);
// Means of each image over its tokens and each of `groups` groups of consecutive channels.
Tensor means_of_groups(const Tensor& x, std::int64_t groups);
// Repeats `mean`, [C] of any real type, for all tokens.
Tensor means_of_channels(const Tensor& x, const Tensor& mean);

}  // namespace dtn
