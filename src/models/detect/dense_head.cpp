#include "models/detect/dense_head.h"

#include <cmath>

#include "dtn/nn/initializers.h"
#include "dtn/ops/activation.h"

namespace dtn {
namespace {

// At the start, each class has this probability: few anchors contain an object.
constexpr double kFirstProbability = 0.01;

TokenConv::Options conv_options(std::int64_t kernel) {
  return {.kernel = kernel, .padding = kernel / 2, .weight_init = normal_with(0.01)};
}

Tokens after_relu(Context& ctx, Tokens tokens) {
  tokens.x = ops::relu(ctx, tokens.x);
  return tokens;
}

std::vector<TokenConv> make_branch(const Scope& scope, const char* convs, const char* last,
                                   const RetinaHead::Options& o, std::int64_t outputs,
                                   std::optional<Initializer> bias_init) {
  std::vector<TokenConv> branch;
  for (int i = 0; i < o.convs; ++i) {
    branch.emplace_back(scope / convs / i / "conv", o.channels, o.channels, conv_options(3));
  }
  TokenConv::Options options = conv_options(3);
  options.bias_init = std::move(bias_init);
  branch.emplace_back(scope / last, o.channels, outputs, options);
  return branch;
}

Variable run_branch(Context& ctx, const std::vector<TokenConv>& branch, Tokens tokens) {
  for (std::size_t i = 0; i + 1 < branch.size(); ++i) {
    tokens = after_relu(ctx, branch[i].forward(ctx, tokens));
  }
  return branch.back().forward(ctx, tokens).x;
}

}  // namespace

RetinaHead::RetinaHead(const Scope& scope, const Options& o)
    : classes_(make_branch(scope, "cls_convs", "retina_cls", o, o.anchors * o.classes,
                           constant_value(-std::log((1 - kFirstProbability) / kFirstProbability)))),
      boxes_(make_branch(scope, "reg_convs", "retina_reg", o, o.anchors * 4, {})) {}

DensePrediction RetinaHead::forward(Context& ctx, const Tokens& level) const {
  return {run_branch(ctx, classes_, level), run_branch(ctx, boxes_, level), level.grid};
}

ProposalHead::ProposalHead(const Scope& scope, std::int64_t channels, std::int64_t anchors)
    : conv_(scope / "rpn_conv", channels, channels, conv_options(3)),
      classes_(scope / "rpn_cls", channels, anchors, conv_options(1)),
      boxes_(scope / "rpn_reg", channels, 4 * anchors, conv_options(1)) {}

DensePrediction ProposalHead::forward(Context& ctx, const Tokens& level) const {
  const Tokens hidden = after_relu(ctx, conv_.forward(ctx, level));
  return {classes_.forward(ctx, hidden).x, boxes_.forward(ctx, hidden).x, level.grid};
}

}  // namespace dtn
