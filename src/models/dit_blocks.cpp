#include "models/dit_blocks.h"

#include <cmath>

#include "dtn/ops/drop.h"
#include "dtn/ops/grouped_attention.h"
#include "dtn/ops/linear.h"
#include "dtn/ops/modulation.h"
#include "dtn/ops/primitive.h"

namespace dtn {
namespace {

std::unique_ptr<Normalizer> make_dit_norm(const BlockOptions& o, const Scope& scope) {
  return o.norm ? make_normalizer(*o.norm, o.norm_shape, scope)
                : make_layer_norm(o.norm_shape, scope);
}

// Shows a branch, times its gate if that is defined, to the observer.
void show_branch(Context& ctx, Observer::Branch which, const Variable& branch, const Variable& gate,
                 const TokenGrid& grid) {
  Context aside = unseen(ctx);
  Variable shown = branch;
  if (gate.defined()) {
    const Variable factor = primitive::reshape(aside, gate, {gate.dim(0), 1, gate.dim(1)});
    shown = primitive::cast(aside, primitive::mul(aside, primitive::upcast(aside, branch), factor),
                            branch.dtype());
  }
  ctx.observer->branch(which, shown.value(), grid);
}

// Shows norm(x), which a modulation may follow, to the observer.
void show_norm(Context& ctx, Normalizer& norm, const Variable& x, const TokenGrid& grid) {
  Context aside = unseen(ctx);
  aside.mode.recompute = true;  // running statistics move once
  const Variable y = norm.forward(aside, Variable(x.value()), grid);
  ctx.observer->normalized(norm, x.value(), y.value(), grid);
}

LayerInfo layer_info(const std::string& path, std::int64_t heads,
                     std::initializer_list<std::pair<const char*, const Normalizer*>> norms,
                     std::vector<std::string> attention) {
  LayerInfo info{.paths = {path}, .heads = heads, .norms = {}};
  for (const auto& [name, norm] : norms) info.norms.push_back({path + name, heads, norm});
  info.attention = std::move(attention);
  info.mlp = {path + ".mlp"};
  return info;
}

}  // namespace

const Variable& GatedStream::sum(Context& ctx) {
  if (branch_.defined()) set(ops::gated_add(ctx, x_, gate_, branch_));
  return x_;
}

Variable GatedStream::modulated(Context& ctx, Normalizer& norm, const Variable& modulation,
                                const TokenGrid& grid) {
  if (!branch_.defined()) return norm.forward_modulated(ctx, x_, modulation, grid);
  Variable sum;
  Variable y = norm.forward_gated_modulated(ctx, x_, gate_, branch_, modulation, grid, sum);
  set(std::move(sum));
  return y;
}

void GatedStream::add(Context& ctx, Variable branch, Variable gate) {
  if (!gate.defined()) return set(ops::residual_add(ctx, sum(ctx), branch, {}));
  sum(ctx);
  branch_ = std::move(branch);
  gate_ = std::move(gate);
}

void GatedStream::set(Variable sum) {
  x_ = std::move(sum);
  branch_ = gate_ = Variable();
}

AdaptiveBlock::AdaptiveBlock(const Scope& scope, const BlockOptions& o)
    : path_(scope.path),
      heads_(o.attention.heads),
      norm1_(make_dit_norm(o, scope / "norm1")),
      attention_(scope / "attn", o.attention),
      norm2_(make_dit_norm(o, scope / "norm2")),
      mlp_(scope / "mlp", o.mlp) {}

void AdaptiveBlock::forward(Context& ctx, GatedStream& stream, const DitModulation& m,
                            const TokenGrid& grid) const {
  if (ctx.observer) ctx.observer->begin_layer(stream.sum(ctx).value(), grid);
  attention_branch(ctx, stream, m, grid);
  mlp_branch(ctx, stream, m, grid);
  if (ctx.observer) ctx.observer->end_layer(stream.sum(ctx).value(), grid);
}

void AdaptiveBlock::attention_branch(Context& ctx, GatedStream& stream, const DitModulation& m,
                                     const TokenGrid& grid) const {
  const Variable normed = modulated(ctx, stream, *norm1_, m.attention, grid);
  const Variable mixed = attention_.mix(ctx, normed, grid);
  const Linear& projection = *attention_.projection();
  if (ctx.observer) {
    Context aside = unseen(ctx);
    show_branch(ctx, Observer::Branch::kAttention, projection.forward(aside, mixed),
                m.attention_gate, grid);
  }
  if (m.attention_gate.defined()) {
    stream.add(ctx, projection.forward(ctx, mixed), m.attention_gate);
  } else {
    stream.set(
        ops::linear_residual(ctx, mixed, projection.w(), projection.b(), stream.sum(ctx), {}));
  }
}

void AdaptiveBlock::mlp_branch(Context& ctx, GatedStream& stream, const DitModulation& m,
                               const TokenGrid& grid) const {
  const Variable branch = mlp_.forward(ctx, modulated(ctx, stream, *norm2_, m.mlp, grid));
  if (ctx.observer) show_branch(ctx, Observer::Branch::kMlp, branch, m.mlp_gate, grid);
  stream.add(ctx, branch, m.mlp_gate);
}

Variable AdaptiveBlock::modulated(Context& ctx, GatedStream& stream, Normalizer& norm,
                                  const Variable& modulation, const TokenGrid& grid) const {
  Variable y = stream.modulated(ctx, norm, modulation, grid);
  if (ctx.observer) show_norm(ctx, norm, stream.sum(ctx), grid);
  return y;
}

LayerInfo AdaptiveBlock::info() const {
  return layer_info(path_, heads_, {{".norm1", norm1_.get()}, {".norm2", norm2_.get()}},
                    {path_ + ".attn"});
}

CrossAttention::CrossAttention(const Scope& scope, std::int64_t channels, std::int64_t heads)
    : heads_(heads),
      q_(scope / "q", channels, channels),
      kv_(scope / "kv", channels, 2 * channels),
      proj_(scope / "proj", channels, channels) {}

Variable CrossAttention::forward_add(Context& ctx, const Variable& x, const Variable& condition,
                                     const Variable& residual) const {
  const std::int64_t channels = x.dim(2), width = channels / heads_;
  const ops::GroupedAttention how{.heads = heads_,
                                  .q = {0, width, width},
                                  .k = {0, width, width},
                                  .v = {channels, width, width},
                                  .scale = 1 / std::sqrt(static_cast<double>(width)),
                                  .groups = nullptr};
  const Variable mixed =
      ops::grouped_attention(ctx, q_.forward(ctx, x), kv_.forward(ctx, condition), {}, how);
  return ops::linear_residual(ctx, mixed, proj_.w(), proj_.b(), residual, {});
}

CrossBlock::CrossBlock(const Scope& scope, const BlockOptions& o)
    : path_(scope.path),
      heads_(o.attention.heads),
      norm1_(make_dit_norm(o, scope / "norm1")),
      attention_(scope / "attn", o.attention),
      norm_cross_(make_dit_norm(o, scope / "norm_cross")),
      cross_(scope / "cross_attn", o.attention.channels, o.attention.heads),
      norm2_(make_dit_norm(o, scope / "norm2")),
      mlp_(scope / "mlp", o.mlp) {}

Variable CrossBlock::forward(Context& ctx, const Variable& x, const Variable& condition,
                             const TokenGrid& grid) const {
  if (ctx.observer) ctx.observer->begin_layer(x.value(), grid);
  const Linear& projection = *attention_.projection();
  const Variable mixed = attention_.mix(ctx, normalized(ctx, x, *norm1_, grid), grid);
  if (ctx.observer) {
    Context aside = unseen(ctx);
    show_branch(ctx, Observer::Branch::kAttention, projection.forward(aside, mixed), {}, grid);
  }
  Variable h = ops::linear_residual(ctx, mixed, projection.w(), projection.b(), x, {});
  h = cross_.forward_add(ctx, normalized(ctx, h, *norm_cross_, grid), condition, h);
  const Variable branch = mlp_.forward(ctx, normalized(ctx, h, *norm2_, grid));
  if (ctx.observer) show_branch(ctx, Observer::Branch::kMlp, branch, {}, grid);
  h = ops::residual_add(ctx, h, branch, {});
  if (ctx.observer) ctx.observer->end_layer(h.value(), grid);
  return h;
}

Variable CrossBlock::normalized(Context& ctx, const Variable& x, Normalizer& norm,
                                const TokenGrid& grid) const {
  Variable y = norm.forward(ctx, x, grid);
  if (ctx.observer) ctx.observer->normalized(norm, x.value(), y.value(), grid);
  return y;
}

LayerInfo CrossBlock::info() const {
  return layer_info(
      path_, heads_,
      {{".norm1", norm1_.get()}, {".norm_cross", norm_cross_.get()}, {".norm2", norm2_.get()}},
      {path_ + ".attn", path_ + ".cross_attn"});
}

}  // namespace dtn
