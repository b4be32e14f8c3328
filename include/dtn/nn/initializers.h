// How weights of linear layers start that are not timm's.
#pragma once

#include "dtn/nn/parameters.h"

namespace dtn {

// Uniform within +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).
CustomInit xavier_uniform(std::int64_t fan_in, std::int64_t fan_out);
// A normal cut at two standard deviations, with the variance 1 / fan_in behind the cut (LeCun et
// al., 1998, as Flax has it).
CustomInit lecun_normal(std::int64_t fan_in);
// A normal.
CustomInit normal_with(double std);

}  // namespace dtn
