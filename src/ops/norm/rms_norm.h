// RMSNorm and ScaleNorm as operations. The formulas are in kernels/norm/rms_norm.h.
#pragma once

#include "dtn/autograd/context.h"
#include "kernels/norm/rms_norm.h"

namespace dtn::ops {

// Divides each row of x [.., C] by its root mean square (kRms) or its length (kScale), and
// multiplies the channels by weight [C]. Adds a gradient that already waits at x in the same pass.
Variable rms_norm(Context&, RmsNormKind, const Variable& x, const Variable& weight, double eps);

namespace reference {
Variable rms_norm(Context&, RmsNormKind, const Variable& x, const Variable& weight, double eps);
}
}  // namespace dtn::ops
