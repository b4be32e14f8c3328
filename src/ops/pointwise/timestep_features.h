// Features of noise levels, as the input of a model.
#pragma once

#include "dtn/core/tensor.h"

namespace dtn::ops {

// Cosines, then sines, of t w with the frequencies w = 10000^(-k / n), k = 0 .. n - 1: timesteps
// [B] int64 -> [B, 2 n] in `dtype` (float32; float64 on the CPU), on the device of the timesteps.
// Throws Error for timesteps of another type or shape.
Tensor timestep_features(const Tensor& timesteps, std::int64_t frequencies, DType dtype);

}  // namespace dtn::ops
