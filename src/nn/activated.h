// The activations that a config can choose (model.act).
#pragma once

#include "dtn/autograd/context.h"
#include "dtn/config/model_config.h"

namespace dtn {

// Returns act(x) of any shape.
Variable activated(Context& ctx, const Variable& x, MlpActivation act);

}  // namespace dtn
