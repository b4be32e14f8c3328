#include "ops/dtn/dtn_prefix.h"

#include <utility>

#include "core/queue.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::ops {

DtnPrefix::DtnPrefix(const Tensor& x, std::int64_t count, double eps, Tensor weight)
    : batch_(x.dim(0)),
      tokens_(x.dim(1)),
      channels_(x.dim(2)),
      eps_(eps),
      x_(Tensor::empty({batch_, count, channels_}, x.dtype(), x.device())),
      weight_(std::move(weight)),
      mean_(Tensor::empty({batch_ * count}, weight_.dtype(), x.device())),
      rstd_(Tensor::empty_like(mean_)) {
  x_ = taken_from(x.raw());
}

void DtnPrefix::forward(const Tensor& bias, Tensor& y) {
  Tensor prefix = empty();
  run_on(x_.device(),
         LayerNormForward{x_.dtype(), mean_.numel(), channels_, eps_, x_.raw(), weight_.raw(),
                          bias.raw(), prefix.raw(), mean_.raw(), rstd_.raw()});
  put_into(y.raw(), prefix);
}

void DtnPrefix::backward(const void* dy, const void* waiting, void* dx, void* dweight,
                         void* dbias) const {
  const Tensor prefix_dy = taken_from(dy);
  Tensor prefix_dx, add;
  if (dx) prefix_dx = empty();
  if (dx && waiting) add = taken_from(waiting);
  LayerNormBackward args{};
  args.dtype = x_.dtype();
  args.rows = mean_.numel();
  args.channels = channels_;
  args.x = x_.raw();
  args.weight = weight_.raw();
  args.mean = mean_.raw();
  args.rstd = rstd_.raw();
  args.dy = prefix_dy.raw();
  args.dx_add = add.raw();
  args.dx = dx ? prefix_dx.raw() : nullptr;
  args.dweight = dweight;
  args.dbias = dbias;
  run_on(x_.device(), args);
  if (dx) put_into(dx, prefix_dx);
}

Tensor DtnPrefix::taken_from(const void* tokens) const {
  Tensor prefix = empty();
  const std::int64_t n = x_.dim(1) * channels_;
  run_on(x_.device(),
         CopyRows{x_.dtype(), batch_, n, tokens, tokens_ * channels_, prefix.raw(), n});
  return prefix;
}

void DtnPrefix::put_into(void* tokens, const Tensor& prefix) const {
  const std::int64_t n = x_.dim(1) * channels_;
  run_on(x_.device(),
         CopyRows{x_.dtype(), batch_, n, prefix.raw(), n, tokens, tokens_ * channels_});
}

}  // namespace dtn::ops
