// One normalizer, run once on given numbers, to hold it against another implementation.
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
  bool training = true;           // statistics of the batch, where there are running ones too
};

// `inputs` holds x [B, T, C], dy [B, T, C], and any parameters and buffers by their names (weight,
// bias, running_mean, ...); the others stay at their initial values. The result holds y, dx, the
// gradient of each parameter as d<name>, and each buffer by its name as the pass left it, all in
// float32 (float64 for float64). Throws DataError when x or dy is missing, has another shape, or a
// name is not known.
NamedTensors probe_norm(const NormProbe& probe, const NamedTensors& inputs, Device device = kCpu,
                        const NormRegistry& norms = norm_registry());

}  // namespace dtn
