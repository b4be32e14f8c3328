#include "dtn/nn/patch_embed.h"

#include "dtn/nn/conv2d.h"
#include "dtn/ops/tokens.h"

namespace dtn {

// For patches of 16 x 16 x 3 the initial weights have std 0.02, as in every other layer. Smaller
// patches get a larger std, which keeps their signal.
PatchEmbed::PatchEmbed(const Scope& scope, const Options& o) : options_(o) {
  const Scope proj = scope / "proj";
  weight_ = proj.weight("weight", {o.width, o.channels, o.patch, o.patch},
                        init_convolution(o.channels * o.patch * o.patch), Decay::kYes);
  if (o.bias) bias_ = proj.weight("bias", {o.width}, InitKind::kZeros);
}

Tokens PatchEmbed::forward(Context& ctx, const Tensor& images) const {
  DTN_CHECK(images.rank() == 4 && images.dim(1) == options_.channels, "images ",
            to_string(images.shape()), " are not [B, ", options_.channels, ", height, width]");
  const Variable bias = bias_ ? bias_->variable : Variable();
  Variable x = ops::patch_embed(ctx, images, weight_->variable, bias, ctx.mode.compute);
  return {std::move(x), {images.dim(2) / options_.patch, images.dim(3) / options_.patch}};
}

}  // namespace dtn
