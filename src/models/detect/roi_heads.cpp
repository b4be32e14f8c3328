#include "models/detect/roi_heads.h"

#include <cmath>

#include "dtn/core/check.h"
#include "dtn/nn/initializers.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/primitive.h"

namespace dtn {
namespace {

namespace p = primitive;

Linear make_shared(const Scope& scope, std::int64_t in, std::int64_t out) {
  return {scope, in, out, {.init = xavier_uniform(in, out)}};
}

// He et al. 2015 for the outputs of a kernel.
CustomInit he_normal(std::int64_t taps, std::int64_t outputs) {
  return normal_with(std::sqrt(2 / static_cast<double>(taps * outputs)));
}

// The 2 x 2 outputs of every token, x [R, h w, 4 C] with output (u, v) in channels (2 u + v) C and
// on, as tokens [R, 2 h 2 w, C].
Variable unfold_squares(Context& ctx, const Variable& x, std::int64_t size) {
  const std::int64_t n = x.dim(0), channels = x.dim(2) / 4;
  const Variable split = p::reshape(ctx, x, {n, size, size, 2, 2, channels});
  const Variable rows = p::permute(ctx, split, {0, 1, 3, 2, 4, 5});
  return p::reshape(ctx, rows, {n, 4 * size * size, channels});
}

}  // namespace

RoiBoxHead::RoiBoxHead(const Scope& scope, const Options& o)
    : first_(make_shared(scope / "shared_fcs" / 0, o.channels * o.size * o.size, o.hidden)),
      second_(make_shared(scope / "shared_fcs" / 1, o.hidden, o.hidden)),
      classes_(scope / "fc_cls", o.hidden, o.classes + 1, {.init = normal_with(0.01)}),
      boxes_(scope / "fc_reg", o.hidden, 4 * o.classes, {.init = normal_with(0.001)}) {}

RoiPrediction RoiBoxHead::forward(Context& ctx, const Variable& x) const {
  const Variable planes = p::permute(ctx, x, {0, 2, 1});
  const Variable flat = p::reshape(ctx, planes, {x.dim(0), x.dim(1) * x.dim(2)});
  Variable hidden = ops::relu(ctx, first_.forward(ctx, flat));
  hidden = ops::relu(ctx, second_.forward(ctx, hidden));
  return {classes_.forward(ctx, hidden), boxes_.forward(ctx, hidden)};
}

RoiMaskHead::RoiMaskHead(const Scope& scope, const Options& o)
    : upsample_((scope / "upsample")
                    .weight("weight", {o.channels, o.channels, 2, 2}, he_normal(4, o.channels),
                            Decay::kYes)),
      upsample_bias_((scope / "upsample").weight("bias", {o.channels}, InitKind::kZeros)),
      logits_(scope / "conv_logits", o.channels, o.classes,
              {.kernel = 1, .weight_init = he_normal(1, o.classes)}) {
  for (int i = 0; i < o.convs; ++i) {
    convs_.emplace_back(
        scope / "convs" / i / "conv", o.channels, o.channels,
        TokenConv::Options{.kernel = 3, .padding = 1, .weight_init = he_normal(9, o.channels)});
  }
}

Variable RoiMaskHead::forward(Context& ctx, const Variable& x, std::int64_t size) const {
  DTN_CHECK(x.dim(1) == size * size, "a RoI of ", x.dim(1), " tokens is not ", size, " x ", size);
  Tokens tokens{x, {size, size}};
  for (const TokenConv& conv : convs_) {
    tokens = conv.forward(ctx, tokens);
    tokens.x = ops::relu(ctx, tokens.x);
  }
  // The windows of a transposed convolution with stride 2 do not overlap, so it is a linear layer
  // for each token, whose outputs are ordered (u, v, channel).
  const std::int64_t channels = x.dim(2);
  const Variable& kernel = upsample_->variable;
  const Variable weight =
      p::reshape(ctx, p::permute(ctx, kernel, {2, 3, 1, 0}), {4 * channels, channels});
  const Variable bias = p::reshape(
      ctx, p::broadcast_to(ctx, upsample_bias_->variable, {4, channels}), {4 * channels});
  const Variable squares = ops::linear(ctx, tokens.x, weight, bias);
  const Variable finer = ops::relu(ctx, unfold_squares(ctx, squares, size));
  return logits_.forward(ctx, {finer, {2 * size, 2 * size}}).x;
}

}  // namespace dtn
