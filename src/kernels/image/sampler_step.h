// Steps of sampling from a diffusion model, and their noise. No gradients.
#pragma once

#include <cstdint>

#include "core/queue.h"

namespace dtn {

// One step of a sampler, in place. For each element with noisy value x, predicted noise e and noise
// z:
//    e = unlabelled e + guidance (labelled e - unlabelled e)   in the first `guided` channels
//    start = from_noisy x - from_noise e,                      clipped to [-1, 1] if `clip`
//    x = of_start start + of_noisy x + sigma z
// With learned variances, the second half of the output channels holds v:
//    sigma = exp(log_sigma_low + (v + 1) / 2 (log_sigma_high - log_sigma_low))
// The products round as written with fused multiply-adds, so the bits are the same on every device;
// a learned sigma differs by the rounding of exp. NaN stays NaN.
struct SamplerStep {
  std::int64_t batch, channels, pixels;  // pixels: H W
  std::int64_t output_channels;          // Co: C, or 2 C with v, which is ignored without `learned`
  const float* output;                   // [B, Co, pixels] of the labelled pass
  const float* unlabelled = nullptr;     // [B, Co, pixels]; null: no guidance
  std::int64_t guided = 0;
  float guidance = 1;
  float from_noisy, from_noise;
  bool clip = false;
  float of_start, of_noisy;
  const float* z = nullptr;  // [B, C, pixels]; null: no noise
  float sigma = 0;           // without `learned`
  bool learned = false;      // needs Co = 2 C
  float log_sigma_low = 0, log_sigma_high = 0;
  float* x;  // [B, C, pixels]
};
void run(CpuQueue&, const SamplerStep&);
void run(CudaQueue&, const SamplerStep&);

//    noise[b, i] = element i of the noise sequence seeds[b]; see core/normal_noise.h
// The bits are the same on every device.
struct NormalNoise {
  std::int64_t batch, values;  // values: of an image
  const std::int64_t* seeds;   // [B]
  const float* table;          // normal_table(), in the memory of the device
  float* noise;                // [B, values]
};
void run(CpuQueue&, const NormalNoise&);
void run(CudaQueue&, const NormalNoise&);

}  // namespace dtn
