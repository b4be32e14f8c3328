#include "dtn/ops/drop.h"

#include "core/cuda_device.h"
#include "dtn/ops/primitive.h"
#include "kernels/pointwise/pointwise.h"
#include "ops/host_constant.h"
#include "ops/pointwise/rows.h"

namespace dtn::ops {
namespace {

// Random mask. Elements are numbered as in the global batch, so gradient accumulation and several
// ranks draw the same masks as one large batch.
struct Mask {
  double p;
  PhiloxKey key;
  const std::uint32_t* device_step;
  std::uint64_t first_sample;
  const std::int64_t* rows;
  std::int64_t per_sample;  // random numbers per sample; 0: as many as elements

  Mask(const Context& ctx, double share, std::uint32_t stream)
      : p(share),
        key(ctx.rng.key(stream)),
        device_step(ctx.rng.device_step),
        first_sample(ctx.rng.first_sample),
        rows(ctx.rng.rows),
        per_sample(ctx.rng.per_sample) {}

  // Returns the number of random numbers per sample of x.
  std::int64_t stride_of(const Tensor& x) const {
    const std::int64_t elements = x.numel() / x.dim(0);
    DTN_CHECK(per_sample == 0 || per_sample >= elements, "dropout: ", elements,
              " elements of a sample share ", per_sample, " random numbers");
    return per_sample ? per_sample : elements;
  }

  // Returns the number of element i of a sample of x.
  std::uint64_t number(const Tensor& x, std::int64_t sample, std::int64_t i) const {
    const std::uint64_t row = rows ? static_cast<std::uint64_t>(rows[sample])
                                   : first_sample + static_cast<std::uint64_t>(sample);
    return row * static_cast<std::uint64_t>(stride_of(x)) + static_cast<std::uint64_t>(i);
  }
};

Tensor dropped(const Tensor& x, const Mask& mask) {
  Tensor y = Tensor::empty_like(x);
  const std::int64_t elements = x.numel() / x.dim(0), stride = mask.stride_of(x);
  run_on(x.device(),
         ElementDropout{x.dtype(), x.numel(), mask.p, mask.key,
                        mask.first_sample * static_cast<std::uint64_t>(stride), x.raw(), y.raw(),
                        mask.device_step, mask.rows, elements, stride == elements ? 0 : stride});
  return y;
}

}  // namespace

Variable dropout(Context& ctx, const Variable& x, double p, std::uint32_t stream) {
  if (!ctx.training() || p == 0) return x;
  const Mask mask(ctx, p, stream);
  return ctx.record("dropout", dropped(x.value(), mask), {&x},
                    [mask, dx = x.sink()](const Tensor& dy) { dx->accumulate(dropped(dy, mask)); });
}

Tensor drop_path_scales(const Context& ctx, std::int64_t batch, double p, std::uint32_t stream,
                        DType dtype, Device device) {
  if (!ctx.training() || p == 0) return {};
  Tensor scale = Tensor::empty({batch}, accumulator_of(dtype), device);
  run_on(device, DropPathScales{scale.dtype(), batch, p, ctx.rng.key(stream), ctx.rng.first_sample,
                                scale.raw(), ctx.rng.device_step, ctx.rng.rows});
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
using namespace primitive;

Variable dropout(Context& ctx, const Variable& x, double p, std::uint32_t stream) {
  if (!ctx.training() || p == 0) return x;
  DTN_CHECK(!ctx.rng.device_step,
            "the reference of dropout draws on the host, so a captured step cannot use it");
  Mask drawn(ctx, p, stream);
  Tensor rows;
  if (drawn.rows && x.device() != kCpu) {
    rows = Tensor::empty({x.dim(0)}, DType::kInt64);
    cuda::copy_to_host(rows.raw(), drawn.rows, rows.nbytes());
    cuda::synchronize();
    drawn.rows = rows.data<std::int64_t>();
  }
  const std::int64_t per_sample = x.value().numel() / x.dim(0);
  const Tensor mask =
      host_constant(x.shape(), accumulator_of(x.dtype()), x.device(), [&](std::int64_t i) {
        const std::uint64_t n = drawn.number(x.value(), i / per_sample, i % per_sample);
        const bool keep = philox_uniform(drawn.key, n) >= static_cast<float>(p);
        return keep ? 1 / (1 - p) : 0;
      });
  return cast(ctx, mul(ctx, x, Variable(mask)), x.dtype());
}

Variable residual_add(Context& ctx, const Variable& residual, const Variable& branch,
                      const Tensor& scale) {
  if (!scale.defined()) return add(ctx, residual, branch);
  Shape ones = branch.shape();
  for (int i = 1; i < ones.rank(); ++i) ones[i] = 1;
  Variable scaled = mul(ctx, upcast(ctx, branch), Variable(scale.reshape(ones)));
  return cast(ctx, add(ctx, upcast(ctx, residual), scaled), residual.dtype());
}

}  // namespace reference
}  // namespace dtn::ops
