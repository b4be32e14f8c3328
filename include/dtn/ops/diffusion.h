// Noising and loss of diffusion models that predict noise (Ho, Jain and Abbeel, "Denoising
// diffusion probabilistic models", NeurIPS 2020; Nichol and Dhariwal, "Improved denoising diffusion
// probabilistic models", ICML 2021).
#pragma once

#include "dtn/autograd/context.h"

namespace dtn::ops {

// Number of constants of a time step in a schedule.
inline constexpr std::int64_t kScheduleColumns = 6;

// Images of a batch on their way to noise. Image, noise and output have the same height and width.
struct DiffusionBatch {
  Tensor image;     // x_0 [B, C, H, W] float32, or float64
  Tensor noise;     // e [B, C, H, W] in the type of image
  Tensor time;      // [B] int64, the time step t of each image
  Tensor schedule;  // [steps, kScheduleColumns] float64 on the device: the constants of all steps
};

// Returns x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) e, [B, C, H, W] in the type of image. Records
// nothing. On the CPU, throws Error for a time step outside of the schedule; a GPU gives NaN.
Tensor noisy_images(const DiffusionBatch& batch);

// Loss of a batch, and figures for the log.
struct DiffusionLoss {
  Variable mean;  // [1], accumulator type: mean over the batch of mse + vb
  Tensor mse;     // [B]: mean squared error of the predicted noise
  Tensor vb;      // [B]: variational bound in bits per value; undefined without a learned variance
  // [1] each: the means of mse and of vb (0 without a learned variance).
  Tensor mean_mse, mean_vb;
  // [4] each, for the time steps t < S / 4, S / 4 <= t < S / 2, ...: sum of mse over the samples in
  // that range, divided by B, and their share in the batch.
  Tensor quartile_mse, quartile_share;
};

// output [B, C, H, W], the predicted noise, or [B, 2 C, H, W] with a learned variance: noise, then
// v. The log variance is f log beta_t + (1 - f) log bt_t with f = (v + 1) / 2. A learned variance
// adds the variational bound to the loss; the bound has no gradient to the predicted noise. The
// gradient is written over the output if nothing else uses its memory.
DiffusionLoss diffusion_loss(Context&, const Variable& output, const DiffusionBatch& batch);

namespace reference {
// The mean of diffusion_loss().
Variable diffusion_loss(Context&, const Variable& output, const DiffusionBatch& batch);
}  // namespace reference
}  // namespace dtn::ops
