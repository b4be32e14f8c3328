// Initial values besides those of InitKind.
#pragma once

#include "dtn/nn/parameters.h"

namespace dtn {

// The same value everywhere.
CustomInit constant_value(double value);
// Uniform within +-bound.
CustomInit uniform_within(double bound);
// Uniform within +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).
CustomInit xavier_uniform(std::int64_t fan_in, std::int64_t fan_out);
// Normal distribution truncated at two standard deviations, with the variance 1 / fan_in after the
// truncation (LeCun et al., 1998, as in Flax).
CustomInit lecun_normal(std::int64_t fan_in);
// Normal distribution with mean 0, truncated at +-cut.
CustomInit truncated_normal(double std, double cut = 2);
// The same without truncation.
CustomInit normal_with(double std);

}  // namespace dtn
