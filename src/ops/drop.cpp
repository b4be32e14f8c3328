#include "dtn/ops/drop.h"

#include "dtn/ops/elementary.h"
#include "kernels/pointwise.h"
#include "ops/dispatch.h"
#include "ops/scale_rows.h"

namespace dtn::ops {
namespace {

// The first element of this micro-batch in the numbering of the global batch, so that gradient
// accumulation draws the same mask as one large batch.
std::uint64_t first_element(const Context& ctx, const Tensor& x) {
  return ctx.first_sample * static_cast<std::uint64_t>(x.numel() / x.dim(0));
}

struct Mask {
  double p;
  PhiloxKey key;
  std::uint64_t first;
  const std::uint32_t* device_step;
};

Tensor dropped(const Tensor& x, const Mask& mask) {
  Tensor y = Tensor::empty_like(x);
  run_on(x.device(), Dropout{x.dtype(), x.numel(), mask.p, mask.key, mask.first, x.raw(), y.raw(),
                             mask.device_step});
  return y;
}

}  // namespace

Variable dropout(Context& ctx, const Variable& x, double p, std::uint32_t stream) {
  if (!ctx.training || p == 0) return x;
  Mask mask{p, ctx.key(stream), first_element(ctx, x.value()), ctx.device_step};
  return ctx.record("dropout", dropped(x.value(), mask), {&x},
                    [mask, dx = x.sink()](const Tensor& dy) { dx->accumulate(dropped(dy, mask)); });
}

Tensor drop_path_scales(const Context& ctx, std::int64_t batch, double p, std::uint32_t stream,
                        DType dtype, Device device) {
  if (!ctx.training || p == 0) return {};
  Tensor scale = Tensor::empty({batch}, accumulator_of(dtype), device);
  run_on(device, DropPathScales{scale.dtype(), batch, p, ctx.key(stream), ctx.first_sample,
                                scale.raw(), ctx.device_step});
  return scale;
}

Variable residual_add(Context& ctx, const Variable& residual, const Variable& branch,
                      const Tensor& scale) {
  DTN_CHECK(residual.shape() == branch.shape(), "residual ", to_string(residual.shape()),
            " and branch ", to_string(branch.shape()), " differ");
  Tensor y;
  if (scale.defined()) {
    y = scale_rows(branch.value(), scale, residual.value());
  } else {
    y = Tensor::empty_like(branch.value());
    run_on(y.device(),
           Add{y.dtype(), y.numel(), residual.value().raw(), branch.value().raw(), y.raw()});
  }
  return ctx.record(
      "residual_add", y, {&residual, &branch},
      [scale, dresidual = residual.sink(), dbranch = branch.sink()](const Tensor& dy) {
        if (dbranch) {
          dbranch->accumulate(scale.defined() ? scale_rows(dy, scale) : dy);
        }
        if (dresidual) dresidual->accumulate(dy);
      });
}

namespace reference {
using namespace elementary;

Variable dropout(Context& ctx, const Variable& x, double p, std::uint32_t stream) {
  if (!ctx.training || p == 0) return x;
  PhiloxKey key = ctx.key(stream);
  std::uint64_t first = first_element(ctx, x.value());
  Tensor mask = Tensor::empty_like(x.value());
  dispatch_real(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < mask.numel(); ++i) {
      bool keep =
          philox_uniform(key, first + static_cast<std::uint64_t>(i)) >= static_cast<float>(p);
      mask.data<T>()[i] = keep ? static_cast<T>(1 / (1 - p)) : T(0);
    }
  });
  return mul(ctx, x, Variable(mask));
}

Variable residual_add(Context& ctx, const Variable& residual, const Variable& branch,
                      const Tensor& scale) {
  if (!scale.defined()) return add(ctx, residual, branch);
  Shape ones = branch.shape();
  for (int i = 1; i < ones.rank(); ++i) ones[i] = 1;
  return add(ctx, residual, mul(ctx, branch, Variable(scale.reshape(ones))));
}

}  // namespace reference
}  // namespace dtn::ops
