#include "dtn/ops/contrastive.h"

#include <algorithm>

#include "dtn/ops/primitive.h"
#include "kernels/gemm/gemm.h"
#include "kernels/loss/contrastive.h"
#include "kernels/pointwise/pointwise.h"
#include "ops/host_constant.h"

namespace dtn::ops {
namespace {

void check_contrast(const Tensor& z, const Tensor& all, const Contrast& how) {
  DTN_CHECK(how.temperature > 0 && how.base_temperature > 0,
            "contrastive: temperatures must be positive, not ", how.temperature, " and ",
            how.base_temperature);
  DTN_CHECK(z.rank() == 2 && all.rank() == 2 && all.dim(1) == z.dim(1) && z.dim(0) > 0 &&
                z.dim(0) <= all.dim(0),
            "contrastive: rows ", to_string(z.shape()), " cannot be among rows ",
            to_string(all.shape()));
  DTN_CHECK(all.dtype() == accumulator_of(z.dtype()) && all.device() == z.device(),
            "contrastive: all_features must be ", name_of(accumulator_of(z.dtype())), " on ",
            to_string(z.device()));
  const auto is_index = [&](const Tensor& t, std::int64_t count) {
    return t.defined() && t.dtype() == DType::kInt64 && t.numel() == count &&
           t.device() == z.device();
  };
  DTN_CHECK(is_index(how.labels, all.dim(0)), "contrastive: labels must be ", all.dim(0),
            " values of int64 on ", to_string(z.device()));
  if (!how.positions.defined()) return;
  DTN_CHECK(is_index(how.positions, z.dim(0)), "contrastive: positions must be ", z.dim(0),
            " values of int64 on ", to_string(z.device()));
  if (z.device() != kCpu) return;  // the kernel gives NaN for an invalid position
  for (std::int64_t position : how.positions.values<std::int64_t>()) {
    DTN_CHECK(0 <= position && position < all.dim(0), "contrastive: position ", position,
              " is outside [0, ", all.dim(0), ")");
  }
}

// a b, or a b^T.
Tensor row_products(const Tensor& a, const Tensor& b, bool transpose_b) {
  Gemm g{};
  g.dtype = g.c_dtype = a.dtype();
  g.m = a.dim(0);
  g.k = a.dim(1);
  g.n = b.dim(transpose_b ? 0 : 1);
  Tensor c = Tensor::empty({g.m, g.n}, a.dtype(), a.device());
  g.a = a.raw();
  g.b = b.raw();
  g.c = c.raw();
  g.lda = g.k;
  g.ldb = b.dim(1);
  g.ldc = g.n;
  g.transpose_b = transpose_b;
  run_on(a.device(), g);
  return c;
}

Tensor mean_of(const Tensor& x) {
  Tensor mean = Tensor::empty({1}, x.dtype(), x.device());
  run_on(x.device(),
         Mean{x.dtype(), x.numel(), x.raw(), mean.raw(), 1 / static_cast<double>(x.numel())});
  return mean;
}

const std::int64_t* indices(const Tensor& t) { return static_cast<const std::int64_t*>(t.raw()); }

}  // namespace

ContrastiveLoss contrastive(Context& ctx, const Variable& z, const Contrast& how) {
  const DType acc = accumulator_of(z.dtype());
  const Device device = z.device();
  const Tensor all =
      how.all_features.defined() ? how.all_features : primitive::cast_tensor(z.value(), acc);
  check_contrast(z.value(), all, how);
  const std::int64_t anchors = z.dim(0), rows = all.dim(0);
  const Tensor products = row_products(all, all, true);
  const auto kernel_arguments = [=] {
    return ContrastiveArguments{acc, rows, products.raw(), indices(how.labels), how.temperature};
  };
  Tensor each = Tensor::empty({rows}, acc, device), lse = Tensor::empty({rows}, acc, device);
  Tensor positives = Tensor::empty({rows}, acc, device);
  Tensor without = Tensor::empty({rows}, DType::kFloat32, device);
  run_on(device,
         ContrastiveForward{kernel_arguments(), how.temperature / how.base_temperature, each.raw(),
                            lse.raw(), positives.raw(), static_cast<float*>(without.raw())});
  // 1 / t_base of each loss_i, times 1 / m of the mean, times the promised m / n.
  const double scale = 1 / (how.base_temperature * static_cast<double>(anchors));
  Variable loss = ctx.record(
      "contrastive", mean_of(each), {&z},
      [=, dtype = z.dtype(), dz = z.sink(), positions = how.positions](const Tensor& dy) {
        // Without positions, each row of the gradient overwrites its own products.
        Tensor gradient = positions.defined() ? Tensor::empty({anchors, rows}, acc, device)
                                              : products.slice(0, anchors);
        run_on(device,
               ContrastiveBackward{kernel_arguments(), anchors, indices(positions), lse.raw(),
                                   positives.raw(), scale, gradient.raw(), dy.raw()});
        dz->accumulate(primitive::cast_tensor(row_products(gradient, all, false), dtype));
      });
  return {loss, mean_of(without)};
}

namespace reference {
using namespace primitive;

namespace {

// all_features, with the rows of z in their places: these pass the gradient on.
Variable all_rows(Context& ctx, const Variable& z, const Contrast& how) {
  if (!how.all_features.defined()) return z;
  const std::int64_t n = z.dim(0), m = how.all_features.dim(0);
  const Tensor host = how.positions.to(kCpu);
  const auto position = [&](std::int64_t r) {
    return host.defined() ? host.data<std::int64_t>()[r] : r;
  };
  const Variable places(host_constant({m, n}, z.dtype(), z.device(), [&](std::int64_t i) {
    return position(i % n) == i / n ? 1.0 : 0.0;
  }));
  const Variable others = affine(ctx, sum(ctx, places, 1), -1, 1);  // [m, 1]
  return add(ctx, mul(ctx, Variable(how.all_features), others), matmul(ctx, places, z));
}

// 1 / |P(i)| for the positives of each row i, else 0.
Tensor positive_weights(const Tensor& labels, const Variable& like) {
  const Tensor host = labels.to(kCpu);
  const auto label = host.values<std::int64_t>();
  const std::int64_t m = host.numel();
  return host_constant({m, m}, like.dtype(), like.device(), [&](std::int64_t i) {
    const auto row = static_cast<std::size_t>(i / m), column = static_cast<std::size_t>(i % m);
    if (row == column || label[row] != label[column]) return 0.0;
    return 1 / static_cast<double>(std::ranges::count(label, label[row]) - 1);
  });
}

}  // namespace

Variable contrastive(Context& ctx, const Variable& z, const Contrast& how) {
  constexpr double kExcluded = -1e30;  // its exponential is 0
  const Variable all = all_rows(ctx, upcast(ctx, z), how);
  const std::int64_t n = z.dim(0), m = all.dim(0);
  const Variable self(host_constant({m, m}, all.dtype(), all.device(),
                                    [m](std::int64_t i) { return i / m == i % m ? 1.0 : 0.0; }));
  const Variable products = matmul(ctx, all, permute(ctx, all, {1, 0}));
  const Variable s =
      where(ctx, self, constant(all, kExcluded), affine(ctx, products, 1 / how.temperature));
  const Variable shifted = sub(ctx, s, detach(max(ctx, s, -1)));
  const Variable log_p = sub(ctx, shifted, log(ctx, sum(ctx, exp(ctx, shifted), -1)));
  const Variable weighted = mul(ctx, log_p, Variable(positive_weights(how.labels, all)));
  const Variable mean_row = reshape(ctx, mean(ctx, sum(ctx, weighted, 1), 0), {1});
  const Variable loss = affine(ctx, mean_row, -how.temperature / how.base_temperature);
  // The value of the loss, and m / n times its gradient.
  const double share = static_cast<double>(m) / static_cast<double>(n);
  return add(ctx, affine(ctx, loss, share), detach(affine(ctx, loss, 1 - share)));
}

}  // namespace reference
}  // namespace dtn::ops
