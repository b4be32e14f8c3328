#include "dtn/ops/attention.h"

#include <cmath>

#include "dtn/ops/primitive.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/query_attention.h"
#include "ops/attention/attention_parts.h"
#include "ops/norm/norm_gradients.h"

namespace dtn::ops {
namespace {

// Weights of a positional bias, and the grid; no bias if `weight` is null.
struct Positions {
  const Variable* weight = nullptr;
  std::int64_t grid_h = 0, grid_w = 0;
};

void check_positions(const Variable& qkv, std::int64_t heads, const Positions& positions) {
  const Variable& weight = *positions.weight;
  DTN_CHECK(positions.grid_h * positions.grid_w == qkv.dim(1), "attention: ", qkv.dim(1),
            " tokens are not a grid of ", positions.grid_h, " x ", positions.grid_w);
  DTN_CHECK(weight.shape() == Shape({heads, 3}) && weight.dtype() == accumulator_of(qkv.dtype()),
            "attention: positional weights ", to_string(weight.shape()), " ",
            name_of(weight.dtype()), " are not [", heads, ", 3] ",
            name_of(accumulator_of(qkv.dtype())));
}

Variable fused(Context& ctx, const Variable& qkv, std::int64_t heads, const Positions& positions,
               const AttentionOptions& options) {
  std::int64_t batch = qkv.dim(0), tokens = qkv.dim(1), width = qkv.dim(2) / 3;
  DTN_CHECK(qkv.dim(2) == 3 * width && width % heads == 0, "attention: qkv ",
            to_string(qkv.shape()), " is not divisible into ", heads, " heads");
  check_lengths("attention", options.lengths, qkv);
  const AttentionDropout dropout = attention_dropout(ctx, options.dropout, options.stream);
  DTN_CHECK(!dropout || tokens <= kMaxDropoutTokens, "attention: dropout takes at most ",
            kMaxDropoutTokens, " tokens, not ", tokens);
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
  args.pos_weight = pos_weight.raw();
  args.grid_h = positions.grid_h;
  args.grid_w = positions.grid_w;
  args.lengths = raw_lengths(options.lengths);
  args.dropout = dropout;
  run_on(qkv.device(), args);
  return ctx.record(
      "attention", out, {&qkv, positions.weight},
      [=, lengths = options.lengths, qkv = qkv.value(), dqkv = qkv.sink()](const Tensor& dout) {
        Tensor grad = Tensor::empty_like(qkv);
        AttentionBackward back{qkv.dtype(), batch,     tokens,    heads,      head_dim,  scale,
                               qkv.raw(),   out.raw(), lse.raw(), dout.raw(), grad.raw()};
        back.pos_weight = pos_weight.raw();
        back.grid_h = args.grid_h;
        back.grid_w = args.grid_w;
        back.dpos_weight = buffer_or_null(dpos_weight, {heads, 3}, acc, qkv.device());
        back.lengths = raw_lengths(lengths);
        back.dropout = dropout;
        run_on(qkv.device(), back);
        if (dqkv) dqkv->accumulate(std::move(grad));
      });
}

}  // namespace

Variable attention(Context& ctx, const Variable& qkv, std::int64_t heads,
                   const AttentionOptions& options) {
  return fused(ctx, qkv, heads, {}, options);
}

Variable attention_on_grid(Context& ctx, const Variable& qkv, std::int64_t heads,
                           const Variable& pos_weight, std::int64_t grid_h, std::int64_t grid_w) {
  return fused(ctx, qkv, heads, {&pos_weight, grid_h, grid_w}, {});
}

Variable query_attention(Context& ctx, const Variable& q, const Variable& kv, std::int64_t heads) {
  std::int64_t batch = q.dim(0), queries = q.dim(1), tokens = kv.dim(1), width = q.dim(2);
  DTN_CHECK(kv.dim(0) == batch && kv.dim(2) == 2 * width && width % heads == 0 && tokens > 0,
            "query_attention: q ", to_string(q.shape()), " and kv ", to_string(kv.shape()),
            " are not divisible into ", heads, " heads");
  DTN_CHECK(q.dtype() == kv.dtype(), "query_attention: q is ", name_of(q.dtype()), ", kv is ",
            name_of(kv.dtype()));
  std::int64_t head_dim = width / heads;
  double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  Tensor out = Tensor::empty_like(q.value());
  Tensor lse = Tensor::empty({batch, heads, queries}, accumulator_of(q.dtype()), q.device());
  run_on(q.device(),
         QueryAttentionForward{q.dtype(), batch, queries, tokens, heads, head_dim, scale,
                               q.value().raw(), kv.value().raw(), out.raw(), lse.raw()});
  return ctx.record("query_attention", out, {&q, &kv},
                    [=, q = q.value(), kv = kv.value(), dq_sink = q.sink(),
                     dkv_sink = kv.sink()](const Tensor& dout) {
                      Tensor dq = Tensor::empty_like(q), dkv = Tensor::empty_like(kv);
                      run_on(q.device(),
                             QueryAttentionBackward{q.dtype(), batch, queries, tokens, heads,
                                                    head_dim, scale, q.raw(), kv.raw(), out.raw(),
                                                    lse.raw(), dout.raw(), dq.raw(), dkv.raw()});
                      if (dq_sink) dq_sink->accumulate(std::move(dq));
                      if (dkv_sink) dkv_sink->accumulate(std::move(dkv));
                    });
}

namespace reference {
using namespace primitive;
namespace {

// softmax(q k^T / sqrt(D) + bias); q, k [B, H, T, D], where T is the number of queries or of keys;
// an undefined bias is 0.
Variable weights_of(Context& ctx, const Variable& q, const Variable& k, const Variable& bias) {
  Variable scores = affine(ctx, matmul(ctx, q, permute(ctx, k, {0, 1, 3, 2})),
                           1 / std::sqrt(static_cast<double>(q.dim(3))));
  if (bias.defined()) scores = add(ctx, scores, bias);
  return softmax(ctx, scores);
}

// a_d (dx^2 + dy^2) + a_x dx + a_y dy, [1, H, T, T]
Variable bias_of(Context& ctx, const Variable& pos_weight, std::int64_t heads, std::int64_t grid_h,
                 std::int64_t grid_w) {
  const std::int64_t tokens = grid_h * grid_w;
  const Variable offsets =
      relative_offsets(grid_h, grid_w, pos_weight.dtype(), pos_weight.device());
  Variable bias = matmul(ctx, offsets, permute(ctx, pos_weight, {1, 0}));  // [T T, H]
  return reshape(ctx, permute(ctx, bias, {1, 0}), {1, heads, tokens, tokens});
}

}  // namespace

Variable attention(Context& ctx, const Variable& qkv, std::int64_t heads,
                   const AttentionOptions& options) {
  const Tensor& lengths = options.lengths;
  const Variable x = without_pads(ctx, qkv, lengths);
  const Variable q = heads_of(ctx, x, heads, 3, 0), k = heads_of(ctx, x, heads, 3, 1);
  Variable penalty;
  if (lengths.defined()) penalty = penalty_of_pads(lengths, x.dim(1), q.dtype(), x.device());
  Variable weights = weights_of(ctx, q, k, penalty);
  if (const auto dropout = attention_dropout(ctx, options.dropout, options.stream)) {
    weights =
        mul(ctx, weights, dropout_factors(dropout, weights.shape(), weights.dtype(), x.device()));
  }
  const Variable out = weighted(ctx, weights, heads_of(ctx, x, heads, 3, 2));
  return without_pads(ctx, cast(ctx, out, qkv.dtype()), lengths);
}

Variable attention_on_grid(Context& ctx, const Variable& qkv, std::int64_t heads,
                           const Variable& pos_weight, std::int64_t grid_h, std::int64_t grid_w) {
  const Variable q = heads_of(ctx, qkv, heads, 3, 0), k = heads_of(ctx, qkv, heads, 3, 1);
  const Variable weights = weights_of(ctx, q, k, bias_of(ctx, pos_weight, heads, grid_h, grid_w));
  return cast(ctx, weighted(ctx, weights, heads_of(ctx, qkv, heads, 3, 2)), qkv.dtype());
}

Variable query_attention(Context& ctx, const Variable& q, const Variable& kv, std::int64_t heads) {
  Variable queries = heads_of(ctx, q, heads, 1, 0);
  Variable keys = heads_of(ctx, kv, heads, 2, 0), values = heads_of(ctx, kv, heads, 2, 1);
  return cast(ctx, weighted(ctx, weights_of(ctx, queries, keys, {}), values), q.dtype());
}

}  // namespace reference
}  // namespace dtn::ops
