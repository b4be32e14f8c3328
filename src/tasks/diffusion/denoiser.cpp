#include "tasks/diffusion/denoiser.h"

#include "dtn/models/backbone.h"
#include "dtn/ops/tokens.h"

namespace dtn {

Denoiser denoiser_of(ImageModel& model, DType compute) {
  return [&model, compute](const Tensor& x, const Tensor& t, const Tensor& label) {
    Context ctx;
    ctx.mode.compute = compute;
    const Variable output = model.image(ctx, {{"image", x}, {"timestep", t}, {"label", label}});
    return ops::cast(ctx, output, DType::kFloat32).value();
  };
}

}  // namespace dtn
