#include "dtn/nn/conv_embed.h"

namespace dtn {

ConvEmbed::ConvEmbed(const Scope& scope, std::int64_t in, std::int64_t out,
                     const TokenConv::Options& options)
    : proj_(scope / "proj", in, out, options),
      norm_(make_layer_norm({out, 1, kDefaultNormEps}, scope / "norm")) {}

Tokens ConvEmbed::forward(Context& ctx, const Tokens& tokens) const {
  Tokens coarse = proj_.forward(ctx, tokens);
  coarse.x = norm_->forward(ctx, coarse.x, coarse.grid);
  return coarse;
}

}  // namespace dtn
