#include "dtn/nn/normalizer.h"

#include "dtn/ops/drop.h"

namespace dtn {

Variable Normalizer::forward_sum(Context& ctx, const Variable& residual, const Variable& branch,
                                 const Tensor& scale, const TokenGrid& grid, Variable& sum) {
  sum = ops::residual_add(ctx, residual, branch, scale);
  return forward(ctx, sum, grid);
}

}  // namespace dtn
