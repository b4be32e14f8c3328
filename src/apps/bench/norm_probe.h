// Runs one normalizer once on given tensors, for a comparison with another implementation.
#pragma once

#include "dtn/io/safetensors.h"
#include "dtn/nn/normalizer.h"

namespace dtn {

struct NormProbe {
  NormConfig norm;
  std::int64_t heads;
  std::optional<TokenGrid> grid;  // unset: a square if T is one, else a sequence
  double eps = kDefaultNormEps;
  DType dtype = DType::kFloat32;  // of activations
  bool training = true;           // use batch statistics even if there are running ones
};

// `inputs` holds x [B, T, C], dy [B, T, C], and optionally parameters and buffers by name (weight,
// bias, running_mean, ...); the others keep their initial values. The result holds y, dx, the
// gradient of each parameter as d<name>, and each buffer by name with its value after the pass, all
// in float32 (float64 for float64). Throws DataError if x or dy is missing, if a shape is wrong, or
// if a name is unknown.
NamedTensors probe_norm(const NormProbe& probe, const NamedTensors& inputs, Device device = kCpu,
                        const NormRegistry& norms = norm_registry());

}  // namespace dtn
