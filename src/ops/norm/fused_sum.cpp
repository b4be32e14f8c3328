#include "ops/norm/fused_sum.h"

#include <utility>

#include "dtn/core/check.h"
#include "ops/pointwise/rows.h"

namespace dtn::ops {

Tensor BranchGradient::make_like(const Tensor& x) const {
  if (!branch_ || !scale_.defined()) return {};
  return made_->gradient = Tensor::empty_like(x);
}

void* BranchGradient::sum_columns() const {
  // The sums must include every gradient that reaches the branch.
  if (!branch_->row_bias() || branch_->has()) return nullptr;
  made_->columns = true;
  return branch_->row_bias()->gradient().raw();
}

void BranchGradient::deliver(const Tensor& dsum) const {
  if (!branch_) return;
  if (!scale_.defined()) return branch_->accumulate(dsum);
  Made made = std::exchange(*made_, Made());
  branch_->accumulate(made.gradient.defined() ? std::move(made.gradient)
                                              : scale_rows(dsum, scale_));
  if (made.columns) branch_->row_bias()->set_summed();
}

FusedSum::FusedSum(Context& ctx, const Variable& of_residual, const Variable& of_branch,
                   const Tensor& of_scale)
    : residual(of_residual.value()),
      branch(of_branch.value()),
      scale(of_scale),
      gradient(of_scale, of_branch.sink()) {
  DTN_CHECK(residual.shape() == branch.shape(), "residual ", to_string(residual.shape()),
            " and branch ", to_string(branch.shape()), " differ");
  sum = ctx.record("residual_add", Tensor::empty_like(residual), {&of_residual, &of_branch},
                   [to_branch = gradient, dresidual = of_residual.sink()](const Tensor& dsum) {
                     to_branch.deliver(dsum);
                     if (dresidual) dresidual->accumulate(dsum);
                   });
}

}  // namespace dtn::ops
