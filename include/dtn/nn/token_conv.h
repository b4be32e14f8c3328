// A convolution over the tokens of a grid. Parameters: weight [out, in / groups, k, k], which
// decays, and bias [out].
#pragma once

#include <optional>

#include "dtn/autograd/context.h"
#include "dtn/nn/linear.h"
#include "dtn/nn/scope.h"
#include "dtn/nn/tokens.h"
#include "dtn/ops/primitive.h"

namespace dtn {

// Initialization of a convolution's parameters.
enum class ConvInit {
  kFanIn,   // PyTorch's default: uniform within +-1 / sqrt(in / groups k k), the bias too
  kFanOut,  // He et al. 2015: normal with variance 2 / (k k out / groups); the bias 0
};

class TokenConv {
 public:
  struct Options {
    std::int64_t kernel;
    std::int64_t stride = 1, padding = 0;
    std::int64_t groups = 1;  // equal to `in`: a depthwise convolution
    bool bias = true;
    ConvInit init = ConvInit::kFanIn;
    // Initial weights and biases in place of `init`; without `bias_init`, the biases are then 0.
    std::optional<Initializer> weight_init{}, bias_init{};
  };
  // Throws Error if the groups do not divide the channels.
  TokenConv(const Scope&, std::int64_t in, std::int64_t out, const Options&);

  // x [B, h w, in] -> [B, h' w', out] with the grid ops::convolved_grid. Throws Error if there are
  // prefix tokens.
  Tokens forward(Context& ctx, const Tokens& tokens) const {
    return forward(ctx, tokens, values());
  }
  // The same with other values instead of the parameters.
  Tokens forward(Context&, const Tokens&, const LinearValues&) const;
  // The same made of primitive operations.
  Tokens reference(Context&, const Tokens&) const;

  LinearValues values() const { return {weight->variable, bias ? bias->variable : Variable()}; }

  Parameter* weight;
  Parameter* bias;  // null: none
  primitive::Conv2d how;
};

// Images [B, channels, H, W] float32 (or float64) as tokens in the type ctx.mode.compute.
Tokens image_as_tokens(Context&, const Tensor& images);

}  // namespace dtn
