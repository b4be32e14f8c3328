#include "dtn/ops/attention.h"

#include <cmath>

#include "dtn/ops/primitive.h"
#include "kernels/attention/attention.h"
#include "ops/norm_gradients.h"
#include "ops/relative_offsets.h"

namespace dtn::ops {
namespace {

// Where there is a positional bias: its weights, and the grid.
struct Positions {
  const Variable* weight = nullptr;
  std::int64_t grid_h = 0, grid_w = 0;
};

void check_positions(const Variable& qkv, std::int64_t heads, const Positions& positions) {
  const Variable& weight = *positions.weight;
  DTN_CHECK(positions.grid_h * positions.grid_w == qkv.dim(1), "attention: ", qkv.dim(1),
            " tokens are no grid of ", positions.grid_h, " x ", positions.grid_w);
  DTN_CHECK(weight.shape() == Shape({heads, 3}) && weight.dtype() == accumulator_of(qkv.dtype()),
            "attention: positional weights ", to_string(weight.shape()), " ",
            name_of(weight.dtype()), " are not [", heads, ", 3] ",
            name_of(accumulator_of(qkv.dtype())));
}

Variable fused(Context& ctx, const Variable& qkv, std::int64_t heads, const Positions& positions) {
  std::int64_t batch = qkv.dim(0), tokens = qkv.dim(1), width = qkv.dim(2) / 3;
  DTN_CHECK(qkv.dim(2) == 3 * width && width % heads == 0, "attention: qkv ",
            to_string(qkv.shape()), " does not divide into ", heads, " heads");
  Tensor pos_weight;
  GradSink dpos_weight;
  if (positions.weight) {
    check_positions(qkv, heads, positions);
    pos_weight = positions.weight->value();
    dpos_weight = positions.weight->sink();
  }
  std::int64_t head_dim = width / heads;
  double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  DType acc = accumulator_of(qkv.dtype());
  Tensor out = Tensor::empty({batch, tokens, width}, qkv.dtype(), qkv.device());
  Tensor lse = Tensor::empty({batch, heads, tokens}, acc, qkv.device());
  AttentionForward args{qkv.dtype(),       batch,     tokens,   heads, head_dim, scale,
                        qkv.value().raw(), out.raw(), lse.raw()};
  args.pos_weight = pos_weight.defined() ? pos_weight.raw() : nullptr;
  args.grid_h = positions.grid_h;
  args.grid_w = positions.grid_w;
  run_on(qkv.device(), args);
  return ctx.record("attention", out, {&qkv, positions.weight},
                    [=, qkv = qkv.value(), dqkv = qkv.sink()](const Tensor& dout) {
                      Tensor grad = Tensor::empty_like(qkv);
                      AttentionBackward back{qkv.dtype(), batch,      tokens,    heads,
                                             head_dim,    scale,      qkv.raw(), out.raw(),
                                             lse.raw(),   dout.raw(), grad.raw()};
                      back.pos_weight = pos_weight.defined() ? pos_weight.raw() : nullptr;
                      back.grid_h = args.grid_h;
                      back.grid_w = args.grid_w;
                      back.dpos_weight = buffer_or_null(dpos_weight, {heads, 3}, acc, qkv.device());
                      run_on(qkv.device(), back);
                      if (dqkv) dqkv->accumulate(std::move(grad));
                    });
}

}  // namespace

Variable attention(Context& ctx, const Variable& qkv, std::int64_t heads) {
  return fused(ctx, qkv, heads, {});
}

Variable attention_on_grid(Context& ctx, const Variable& qkv, std::int64_t heads,
                           const Variable& pos_weight, std::int64_t grid_h, std::int64_t grid_w) {
  return fused(ctx, qkv, heads, {&pos_weight, grid_h, grid_w});
}

namespace reference {
using namespace primitive;
namespace {

// `bias` [1, H, T, T], or undefined.
Variable attend(Context& ctx, const Variable& qkv, std::int64_t heads, const Variable& bias) {
  std::int64_t batch = qkv.dim(0), tokens = qkv.dim(1), width = qkv.dim(2) / 3;
  std::int64_t head_dim = width / heads;
  Variable split = permute(ctx, reshape(ctx, widen(ctx, qkv), {batch, tokens, 3, heads, head_dim}),
                           {2, 0, 3, 1, 4});  // [3, B, H, T, D]
  auto part = [&](std::int64_t i) {
    return reshape(ctx, narrow(ctx, split, 0, i, i + 1), {batch, heads, tokens, head_dim});
  };
  Variable q = part(0), k = part(1), v = part(2);
  Variable scores = affine(ctx, matmul(ctx, q, permute(ctx, k, {0, 1, 3, 2})),
                           1 / std::sqrt(static_cast<double>(head_dim)));
  if (bias.defined()) scores = add(ctx, scores, bias);
  Variable out = matmul(ctx, softmax(ctx, scores), v);  // [B, H, T, D]
  Variable joined = reshape(ctx, permute(ctx, out, {0, 2, 1, 3}), {batch, tokens, width});
  return cast(ctx, joined, qkv.dtype());
}

}  // namespace

Variable attention(Context& ctx, const Variable& qkv, std::int64_t heads) {
  return attend(ctx, qkv, heads, {});
}

Variable attention_on_grid(Context& ctx, const Variable& qkv, std::int64_t heads,
                           const Variable& pos_weight, std::int64_t grid_h, std::int64_t grid_w) {
  std::int64_t tokens = qkv.dim(1);
  Variable offsets(relative_offsets(grid_h, grid_w, pos_weight.dtype(), qkv.device()));
  Variable bias = matmul(ctx, offsets, permute(ctx, pos_weight, {1, 0}));  // [T T, H]
  bias = reshape(ctx, permute(ctx, bias, {1, 0}), {1, heads, tokens, tokens});
  return attend(ctx, qkv, heads, bias);
}

}  // namespace reference
}  // namespace dtn::ops
