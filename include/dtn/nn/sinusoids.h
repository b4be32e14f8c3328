// Fixed sinusoidal positions (Vaswani et al., 2017).
#pragma once

#include "dtn/core/tensor.h"

namespace dtn {

// Fills table [1, T, C], float32 or float64 on the host. Row p, channel j is the sine (j even) or
// cosine (j odd) of p / 10000^(2 floor(j / 2) / C), computed in float64 and rounded once.
void fill_sinusoids(Tensor& table);

}  // namespace dtn
