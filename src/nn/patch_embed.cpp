#include "dtn/nn/patch_embed.h"

#include <cmath>

#include "dtn/ops/tokens.h"

namespace dtn {
namespace {

// The variance of PyTorch's convolution, 1 / (3 fan_in): at 16 x 16 x 3 that is the 0.02 of every
// other layer, and small patches keep their signal.
CustomInit patch_init(std::int64_t fan_in) {
  return [fan_in](Tensor& value, std::uint64_t seed, const std::string& name) {
    fill_truncated_normal(value, 1 / std::sqrt(3.0 * static_cast<double>(fan_in)), seed, name);
  };
}

}  // namespace

PatchEmbed::PatchEmbed(const Scope& scope, const Options& o) : options_(o) {
  const Scope proj = scope / "proj";
  weight_ = proj.weight("weight", {o.width, o.channels, o.patch, o.patch},
                        patch_init(o.channels * o.patch * o.patch), Decay::kYes);
  bias_ = proj.weight("bias", {o.width}, InitKind::kZeros);
}

Tokens PatchEmbed::forward(Context& ctx, const Tensor& images) const {
  DTN_CHECK(images.rank() == 4 && images.dim(1) == options_.channels, "images ",
            to_string(images.shape()), " are not [B, ", options_.channels, ", height, width]");
  Variable x = ops::patch_embed(ctx, images, weight_->variable, bias_->variable, ctx.mode.compute);
  return {std::move(x), {images.dim(2) / options_.patch, images.dim(3) / options_.patch}};
}

}  // namespace dtn
