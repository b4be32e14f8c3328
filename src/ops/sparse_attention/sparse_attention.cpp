#include "dtn/ops/sparse_attention.h"

#include <cmath>

#include "core/queue.h"
#include "dtn/ops/attention.h"
#include "kernels/sparse_attention/block_attention.h"
#include "kernels/sparse_attention/hashed_attention.h"
#include "ops/attention/attention_parts.h"

namespace dtn::ops {
namespace {

BlockAttentionProblem problem_of(const Tensor& qkv, const BlockPattern& pattern,
                                 const Tensor& lengths) {
  const BlockPattern::Options& o = pattern.options;
  const std::int64_t head_dim = qkv.dim(2) / (3 * o.heads);
  return {.dtype = qkv.dtype(),
          .batch = qkv.dim(0),
          .tokens = o.tokens,
          .heads = o.heads,
          .head_dim = head_dim,
          .scale = 1 / std::sqrt(static_cast<double>(head_dim)),
          .block = o.block,
          .blocks = pattern.blocks,
          .seen = pattern.seen.defined()
                      ? static_cast<const std::int64_t*>(pattern.seen_on(qkv.device()).raw())
                      : nullptr,
          .width = o.random + 5,
          .zero_keys = o.variant == SparseVariant::kLra,
          .lengths = raw_lengths(lengths)};
}

void check(const Variable& qkv, const BlockPattern& pattern, const Tensor& lengths) {
  const BlockPattern::Options& o = pattern.options;
  DTN_CHECK(qkv.shape().rank() == 3 && qkv.dim(1) == o.tokens && qkv.dim(2) % (3 * o.heads) == 0,
            "block_attention: qkv ", to_string(qkv.shape()), " does not match ", o.tokens,
            " tokens and ", o.heads, " heads");
  check_lengths("block_attention", lengths, qkv);
}

// Checks the shapes, and returns the sizes that follow from them.
HashedAttentionProblem problem_of(const Variable& qk, const Variable& v, const Tensor& rotations,
                                  const HashedAttention& how, const Tensor& lengths) {
  DTN_CHECK(qk.shape().rank() == 3 && qk.shape() == v.shape() && qk.dtype() == v.dtype() &&
                qk.dim(2) % how.heads == 0,
            "hashed_attention: qk ", to_string(qk.shape()), " and v ", to_string(v.shape()),
            " are not divisible into ", how.heads, " heads");
  const std::int64_t tokens = qk.dim(1), head_dim = qk.dim(2) / how.heads;
  DTN_CHECK(rotations.rank() == 3 && rotations.dim(0) == head_dim && rotations.dim(1) > 0 &&
                rotations.dim(2) > 0 && rotations.dtype() == DType::kFloat32,
            "hashed_attention: rotations ", to_string(rotations.shape()), " ",
            name_of(rotations.dtype()), " are not [", head_dim, ", hashes, buckets / 2] float32");
  check_lengths("hashed_attention", lengths, qk);
  const bool lra = how.variant == SparseVariant::kLra;
  const std::int64_t buckets = 2 * rotations.dim(2), more = lra ? buckets : buckets - 1;
  return {.dtype = qk.dtype(),
          .batch = qk.dim(0),
          .tokens = tokens,
          .heads = how.heads,
          .head_dim = head_dim,
          .positions = (tokens + more) / buckets * buckets,
          .hashes = rotations.dim(1),
          .buckets = buckets,
          .lra = lra,
          .lengths = lra ? nullptr : raw_lengths(lengths)};
}

}  // namespace

Variable block_attention(Context& ctx, const Variable& qkv, const BlockPattern& pattern,
                         const Tensor& lengths) {
  check(qkv, pattern, lengths);
  const BlockPattern::Options& o = pattern.options;
  if (!pattern.seen.defined() && o.variant == SparseVariant::kClean) {
    return attention(ctx, qkv, o.heads, {.lengths = lengths});
  }
  const Device device = qkv.device();
  const DType acc = accumulator_of(qkv.dtype());
  Tensor out = Tensor::empty({qkv.dim(0), o.tokens, qkv.dim(2) / 3}, qkv.dtype(), device);
  Tensor lse = Tensor::empty({qkv.dim(0), o.heads, o.tokens}, acc, device);
  run_on(device, BlockAttentionForward{problem_of(qkv.value(), pattern, lengths), qkv.value().raw(),
                                       out.raw(), lse.raw()});
  return ctx.record("block_attention", out, {&qkv},
                    [=, qkv = qkv.value(), dqkv = qkv.sink()](const Tensor& dout) {
                      Tensor grad = Tensor::empty_like(qkv);
                      run_on(device,
                             BlockAttentionBackward{problem_of(qkv, pattern, lengths), qkv.raw(),
                                                    out.raw(), lse.raw(), dout.raw(), grad.raw()});
                      if (dqkv) dqkv->accumulate(std::move(grad));
                    });
}

Variable hashed_attention(Context& ctx, const Variable& qk, const Variable& v,
                          const Tensor& rotations, const HashedAttention& how,
                          const Tensor& lengths) {
  const HashedAttentionProblem p = problem_of(qk, v, rotations, how, lengths);
  const Device device = qk.device();
  Tensor out = Tensor::empty_like(qk.value());
  Tensor lse = Tensor::empty({p.batch, p.heads, p.positions}, accumulator_of(p.dtype), device);
  Tensor order = Tensor::empty({p.batch, p.heads, p.hashes, p.positions}, DType::kInt64, device);
  run_on(device, HashedAttentionForward{p, qk.value().raw(), v.value().raw(),
                                        static_cast<const float*>(rotations.raw()), out.raw(),
                                        lse.raw(), static_cast<std::int64_t*>(order.raw())});
  return ctx.record(
      "hashed_attention", out, {&qk, &v},
      [=, qk = qk.value(), v = v.value(), to_qk = qk.sink(), to_v = v.sink()](const Tensor& dout) {
        Tensor dqk = Tensor::empty_like(qk), dv = Tensor::empty_like(v);
        HashedAttentionProblem back = p;
        back.lengths = p.lra ? nullptr : raw_lengths(lengths);
        run_on(device, HashedAttentionBackward{back, qk.raw(), v.raw(), out.raw(), lse.raw(),
                                               static_cast<const std::int64_t*>(order.raw()),
                                               dout.raw(), dqk.raw(), dv.raw()});
        if (to_qk) to_qk->accumulate(std::move(dqk));
        if (to_v) to_v->accumulate(std::move(dv));
      });
}

}  // namespace dtn::ops
