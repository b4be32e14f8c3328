// A diffusion model as the denoiser of a sampler.
#pragma once

#include "dtn/core/dtype.h"
#include "tasks/diffusion/sampler.h"

namespace dtn {

class ImageModel;

// The model, which must outlive the result, in evaluation mode with activations in `compute`. It
// reads the fields "image", "timestep" and "label".
Denoiser denoiser_of(ImageModel& model, DType compute);

}  // namespace dtn
