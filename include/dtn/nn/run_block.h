// Blocks of a model that may be run again in the backward pass instead of being saved.
#pragma once

#include <functional>
#include <utility>

#include "dtn/autograd/context.h"

namespace dtn {

// `block` of x; a pure function of x, its parameters and the context, see checkpoint(), which it
// goes through where ctx.mode.checkpoint_blocks says so.
inline Variable run_block(Context& ctx, const Variable& x,
                          std::function<Variable(Context&, const Variable&)> block) {
  return ctx.mode.checkpoint_blocks ? checkpoint(ctx, x, std::move(block)) : block(ctx, x);
}

}  // namespace dtn
