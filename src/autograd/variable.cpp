#include "dtn/autograd/variable.h"

#include "kernels/pointwise/pointwise.h"

namespace dtn {

void GradSlot::accumulate(Tensor g) {
  // The summed bias gradient does not contain g yet, so add the rows of g to it.
  if (row_bias_ && row_bias_->is_summed()) {
    const std::int64_t columns = g.dim(-1);
    run_on(g.device(),
           SumRows{g.dtype(), g.numel() / columns, columns, g.raw(), row_bias_->gradient().raw()});
  }
  if (!has()) {
    grad_ = std::move(g);
    return;
  }
  DTN_CHECK(g.shape() == grad_.shape() && g.dtype() == grad_.dtype(), "gradient of ",
            name_of(g.dtype()), " ", to_string(g.shape()), " meets one of ", name_of(grad_.dtype()),
            " ", to_string(grad_.shape()));
  Tensor sum = bound_ || grad_.unique() ? grad_ : g.unique() ? g : Tensor::empty_like(g);
  run_on(g.device(), Add{g.dtype(), g.numel(), grad_.raw(), g.raw(), sum.raw()});
  grad_ = std::move(sum);
}

Tensor& GradSlot::buffer(const Shape& shape, DType dtype, Device device) {
  if (!has()) {
    grad_ = Tensor::zeros(shape, dtype, device);
  } else if (!bound_ && !grad_.unique()) {
    grad_ = grad_.clone();
  }
  return grad_;
}

Tensor Variable::value_as(DType dtype) const {
  if (!value_.defined() || value_.dtype() == dtype) return value_;
  if (low_precision_.defined() && low_precision_.dtype() == dtype) return low_precision_;
  Tensor converted = Tensor::empty(value_.shape(), dtype, device());
  run_on(device(), Cast{value_.dtype(), dtype, value_.numel(), value_.raw(), converted.raw()});
  return converted;
}

}  // namespace dtn
