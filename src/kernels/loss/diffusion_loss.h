// Loss of a diffusion model that predicts the noise e in x_t (Ho, Jain and Abbeel, "Denoising
// diffusion probabilistic models", NeurIPS 2020). An image has P = C H W values:
//    x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) e
//    mse_b = mean over the P values of (e'_b - e_b)^2
//    vb_b = mean over the P values of bound(e'_b, v_b) / log 2, in bits; see diffusion_terms.h
//    loss = mean over b of mse_b + vb_b
// The model's output [B, C, H, W] is e'. With a learned variance it is [B, 2 C, H, W], e' and then
// v, and only then there is a bound. The bound has no gradient to e': it trains v alone.
//
// Sums run over the values of an image in float64. "acc" is the accumulator type: float32, or
// float64 for float64, which runs on the CPU only. A time step outside [0, steps) gives NaN.
#pragma once

#include <cstdint>

#include "core/queue.h"
#include "dtn/core/dtype.h"
#include "kernels/loss/diffusion_terms.h"

namespace dtn {

// Writes x_t. The coefficients are rounded to acc.
struct DiffuseImages {
  DType dtype;                    // float32 or float64
  std::int64_t batch, values;     // B, P
  const void* start;              // x_0 [B, P]
  const void* noise;              // e [B, P]
  const std::int64_t* time;       // [B]
  const DiffusionStep* schedule;  // [steps]
  std::int64_t steps;
  void* noisy;  // x_t [B, P]
};
void run(CpuQueue&, const DiffuseImages&);
void run(CudaQueue&, const DiffuseImages&);

// Inputs of both directions.
struct DiffusionLossInputs {
  DType dtype;                 // of the output
  std::int64_t batch, values;  // B, P
  bool learned_variance;
  const void* output;             // [B, P] or [B, 2 P]
  const void* noise;              // e [B, P] acc
  const void* start;              // x_0 [B, P] acc; read only with a learned variance
  const std::int64_t* time;       // [B]
  const DiffusionStep* schedule;  // [steps]
  std::int64_t steps;

  DTN_HOST_DEVICE std::int64_t outputs() const { return learned_variance ? 2 * values : values; }
  DTN_HOST_DEVICE bool has_time(std::int64_t b) const { return time[b] >= 0 && time[b] < steps; }
};

// Parts of the time steps for which the error is logged separately: t < S / 4, ...
inline constexpr int kTimeQuartiles = 4;

struct DiffusionLossForward : DiffusionLossInputs {
  void* mse;      // [B] acc
  void* bound;    // vb [B] acc; null without a learned variance
  void* loss;     // [1] acc
  void* figures;  // DiffusionFigures in acc
};
void run(CpuQueue&, const DiffusionLossForward&);
void run(CudaQueue&, const DiffusionLossForward&);

// Means over the batch: of mse and vb, of mse with 0 outside of a quartile of the time steps, and
// the share of the samples in that quartile.
template <class A>
struct DiffusionFigures {
  A mse, bound, mse_in[kTimeQuartiles], share[kTimeQuartiles];
};

// Element `i` of DiffusionFigures, as a mean over the batch in order.
template <class A>
DTN_HOST_DEVICE static inline A diffusion_figure(const DiffusionLossForward& args, int i) {
  const auto* mse = static_cast<const A*>(args.mse);
  const auto* bound = static_cast<const A*>(args.bound);
  const int quartile = i < 2 ? -1 : (i - 2) % kTimeQuartiles;
  double sum = 0;
  for (std::int64_t b = 0; b < args.batch; ++b) {
    if (quartile >= 0 && args.time[b] * kTimeQuartiles / args.steps != quartile) continue;
    if (i == 1) {
      sum += bound ? static_cast<double>(bound[b]) : 0;
    } else {
      sum += i < 2 + kTimeQuartiles ? static_cast<double>(mse[b]) : 1;
    }
  }
  return static_cast<A>(sum / static_cast<double>(args.batch));
}

//    de' = upstream 2 (e' - e) / (B P)
//    dv = upstream bound' / (B P log 2)
struct DiffusionLossBackward : DiffusionLossInputs {
  const void* upstream;  // [1] acc
  void* doutput;         // [B, P] or [B, 2 P], =; may be `output`
};
void run(CpuQueue&, const DiffusionLossBackward&);
void run(CudaQueue&, const DiffusionLossBackward&);

}  // namespace dtn
