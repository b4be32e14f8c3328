#include "ops/fused_sum.h"

#include <utility>

#include "dtn/core/check.h"
#include "ops/scale_rows.h"

namespace dtn::ops {

Tensor BranchGradient::make_like(const Tensor& x) const {
  if (!made_) return {};
  return *made_ = Tensor::empty_like(x);
}

Tensor BranchGradient::take(const Tensor& dsum) const {
  if (!made_) return dsum;
  const Tensor made = std::exchange(*made_, Tensor());
  return made.defined() ? made : scale_rows(dsum, scale_);
}

FusedSum::FusedSum(Context& ctx, const Variable& of_residual, const Variable& of_branch,
                   const Tensor& of_scale)
    : residual(of_residual.value()), branch(of_branch.value()), scale(of_scale) {
  DTN_CHECK(residual.shape() == branch.shape(), "residual ", to_string(residual.shape()),
            " and branch ", to_string(branch.shape()), " differ");
  if (scale.defined() && of_branch.requires_grad()) gradient = BranchGradient(scale);
  sum = ctx.record("residual_add", Tensor::empty_like(residual), {&of_residual, &of_branch},
                   [made = gradient, dresidual = of_residual.sink(),
                    dbranch = of_branch.sink()](const Tensor& dsum) {
                     if (dbranch) dbranch->accumulate(made.take(dsum));
                     if (dresidual) dresidual->accumulate(dsum);
                   });
}

}  // namespace dtn::ops
