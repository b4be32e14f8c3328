// Blocks of a model that can run again in the backward pass instead of saving activations.
#pragma once

#include <functional>
#include <utility>

#include "dtn/autograd/context.h"

namespace dtn {

// Runs `block` on x, through checkpoint() if ctx.mode.checkpoint_blocks is set. `block` must be a
// pure function of x, its parameters and the context.
inline Variable run_block(Context& ctx, const Variable& x,
                          std::function<Variable(Context&, const Variable&)> block) {
  return ctx.mode.checkpoint_blocks ? checkpoint(ctx, x, std::move(block)) : block(ctx, x);
}

}  // namespace dtn
