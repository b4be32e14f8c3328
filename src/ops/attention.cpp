#include "dtn/ops/attention.h"

#include <cmath>

#include "dtn/ops/elementary.h"
#include "kernels/attention.h"

namespace dtn::ops {

Variable attention(Context& ctx, const Variable& qkv, std::int64_t heads) {
  std::int64_t batch = qkv.dim(0), tokens = qkv.dim(1), width = qkv.dim(2) / 3;
  DTN_CHECK(qkv.dim(2) == 3 * width && width % heads == 0, "attention: qkv ",
            to_string(qkv.shape()), " does not divide into ", heads, " heads");
  std::int64_t head_dim = width / heads;
  double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  Tensor out = Tensor::empty({batch, tokens, width}, qkv.dtype(), qkv.device());
  Tensor lse = Tensor::empty({batch, heads, tokens}, accumulator_of(qkv.dtype()), qkv.device());
  run_on(qkv.device(), AttentionForward{qkv.dtype(), batch, tokens, heads, head_dim, scale,
                                        qkv.value().raw(), out.raw(), lse.raw()});
  return ctx.record(
      "attention", out, {&qkv}, [=, qkv = qkv.value(), dqkv = qkv.sink()](const Tensor& dout) {
        Tensor grad = Tensor::empty_like(qkv);
        run_on(qkv.device(),
               AttentionBackward{qkv.dtype(), batch, tokens, heads, head_dim, scale, qkv.raw(),
                                 out.raw(), lse.raw(), dout.raw(), grad.raw()});
        dqkv->accumulate(std::move(grad));
      });
}

namespace reference {
using namespace elementary;

Variable attention(Context& ctx, const Variable& qkv, std::int64_t heads) {
  std::int64_t batch = qkv.dim(0), tokens = qkv.dim(1), width = qkv.dim(2) / 3;
  std::int64_t head_dim = width / heads;
  Variable split = permute(ctx, reshape(ctx, qkv, {batch, tokens, 3, heads, head_dim}),
                           {2, 0, 3, 1, 4});  // [3, B, H, T, D]
  auto part = [&](std::int64_t i) {
    return reshape(ctx, narrow(ctx, split, 0, i, i + 1), {batch, heads, tokens, head_dim});
  };
  Variable q = part(0), k = part(1), v = part(2);
  Variable scores = affine(ctx, matmul(ctx, q, permute(ctx, k, {0, 1, 3, 2})),
                           1 / std::sqrt(static_cast<double>(head_dim)));
  Variable out = matmul(ctx, softmax(ctx, scores), v);  // [B, H, T, D]
  return reshape(ctx, permute(ctx, out, {0, 2, 1, 3}), {batch, tokens, width});
}

}  // namespace reference
}  // namespace dtn::ops
