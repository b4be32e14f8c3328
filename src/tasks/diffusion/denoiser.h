// A diffusion model as the denoiser of a sampler.
#pragma once

#include "dtn/core/dtype.h"
#include "tasks/diffusion/sampler.h"

namespace dtn {

class ImageModel;

// The model, which must outlive the result, in evaluation mode with activations in `compute`. It
// reads the fields "image", "timestep" and "label".
Denoiser denoiser_of(ImageModel& model, DType compute);

// The same denoiser, which on a CUDA device replays the model as one captured graph, once for each
// batch size. A result is valid until the next call. Copies share the graph. On the CPU, and with
// `on` false, returns the argument.
Denoiser replayed(Denoiser model, Device device, bool on = true);

}  // namespace dtn
