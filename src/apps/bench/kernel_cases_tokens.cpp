// Norms and attention of a model's blocks.
#include <cmath>
#include <utility>

#include "apps/bench/kernel_case_list.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/query_attention.h"
#include "kernels/dtn/dtn_dense.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/pointwise/pointwise.h"
#include "nn/norms/dtn.h"

namespace dtn {
namespace {

// Sets the scales of drop path, one per sample, for arguments that have them.
void set_drop_path(KernelTensors& m, const StepShape& s, std::int64_t rows, auto& args) {
  args.row_scale = m.positive({s.B}, s.acc);
  args.rows_per_scale = rows / s.B;
}

void add_layer_norm(CaseList& cases, const StepShape& s, std::int64_t tokens) {
  const std::int64_t rows = s.B * tokens;
  const Shape x = {rows, s.C}, of_rows = {rows}, of_channels = {s.C};
  const double eps = s.config.model.eps;
  cases.add("layer_norm_fwd", {rows, s.C}, [=](KernelTensors& m) {
    LayerNormForward args{s.t,
                          rows,
                          s.C,
                          eps,
                          m.in(x, s.t),
                          m.in(of_channels, s.acc),
                          m.in(of_channels, s.acc),
                          m.out(x, s.t),
                          m.out(of_rows, s.acc),
                          m.out(of_rows, s.acc)};
    if (!s.fused_residual) {
      args.residual = std::exchange(args.x, nullptr);
      args.branch = m.in(x, s.t);
      args.sum = m.out(x, s.t);
      set_drop_path(m, s, rows, args);
    }
    return args;
  });
  cases.add("layer_norm_bwd", {rows, s.C}, [=](KernelTensors& m) {
    LayerNormBackward args{s.t,
                           rows,
                           s.C,
                           m.in(x, s.t),
                           m.in(of_channels, s.acc),
                           m.in(of_rows, s.acc),
                           m.positive(of_rows, s.acc),
                           m.in(x, s.t)};
    args.dx_add = args.dx = m.in_out(x, s.t);
    args.dweight = m.in_out(of_channels, s.acc);
    args.dbias = m.in_out(of_channels, s.acc);
    if (!s.fused_residual) {
      args.dbranch = m.out(x, s.t);
      args.dbranch_sums = m.in_out(of_channels, s.acc);
      set_drop_path(m, s, rows, args);
    }
    return args;
  });
}

// Adds the drop-path kernels that no norm includes. If `residual`, the forward kernel adds the
// residual too. Otherwise there is no forward kernel: the product before it does both.
void add_drop_path(CaseList& cases, const StepShape& s, bool residual) {
  const Shape x = {s.B, s.T, s.C};
  const std::int64_t per_scale = s.T * s.C;
  if (residual) {
    cases.add("drop_path_fwd", {s.B, s.T, s.C}, [=](KernelTensors& m) {
      return ScaleRows{s.t,          x.numel(),    per_scale,    m.positive({s.B}, s.acc),
                       m.in(x, s.t), m.in(x, s.t), m.out(x, s.t)};
    });
  }
  cases.add("drop_path_bwd", {s.B, s.T, s.C}, [=](KernelTensors& m) {
    return ScaleRows{s.t,          x.numel(), per_scale,    m.positive({s.B}, s.acc),
                     m.in(x, s.t), nullptr,   m.out(x, s.t)};
  });
}

// True if DTN computes the residual sum in its own kernel.
bool adds_branch(const StepShape& s, const DtnOptions& options) {
  const ModelConfig& model = s.config.model;
  const TokenGrid grid{model.grid_h(), model.grid_w(), options.prefix_ln ? 1 : 0};
  return !s.fused_residual && options.takes_sum(grid, s.device);
}

// Arguments that both passes of DTN share.
template <class Arguments>
Arguments dtn_arguments(KernelTensors& m, const StepShape& s, const DtnOptions& options) {
  const ModelConfig& model = s.config.model;
  const NormConfig& norm = model.norm;
  Arguments args{};
  args.dtype = s.t;
  args.batch = s.B;
  args.grid_h = model.grid_h();
  args.grid_w = model.grid_w();
  args.channels = s.C;
  args.heads = s.H;
  args.eps = norm.eps.value_or(model.eps);
  args.variant = options.variant;
  args.pool = options.pool;
  args.weight = m.in({s.C}, s.acc);
  if (!options.dense(s.device)) args.pos_weight = m.in({s.H, 3}, s.acc);
  return args;
}

DtnNormForward dtn_forward_of(KernelTensors& m, const StepShape& s, const DtnOptions& options) {
  auto args = dtn_arguments<DtnNormForward>(m, s, options);
  const Shape x = {s.B, s.T, s.C};
  if (adds_branch(s, options)) {
    args.sum = {m.in(x, s.t), m.in(x, s.t), m.positive({s.B}, s.acc), m.out(x, s.t)};
    args.x = args.sum.x;
  } else {
    args.x = m.in(x, s.t);
  }
  const auto lambda = [&](bool learnt, const void*& logit, void*& made) -> const void* {
    if (!learnt) return m.positive({s.H}, s.acc);
    logit = m.in({s.H}, s.acc);
    return made = m.out({s.H}, s.acc);
  };
  args.lambda_mean =
      lambda(!options.lambda && !options.only_var, args.logits.mean, args.logits.lambda_mean);
  args.lambda_var = lambda(!options.lambda, args.logits.var, args.logits.lambda_var);
  args.bias = m.in({s.C}, s.acc);
  args.y = m.out({s.B, s.T, s.C}, s.t);
  args.token_mean = m.out({s.B, s.T}, s.acc);
  args.token_var = m.out({s.B, s.T}, s.acc);
  args.pivot = m.out({s.B, s.C}, s.acc);
  if (options.variant == DtnVariant::kOfficial) {
    args.head_rstd = m.out({s.B, s.H, s.T}, DType::kFloat64);
  }
  return args;
}

DtnNormBackward dtn_backward_of(KernelTensors& m, const StepShape& s, const DtnOptions& options) {
  auto args = dtn_arguments<DtnNormBackward>(m, s, options);
  args.x = m.in({s.B, s.T, s.C}, s.t);
  args.lambda_mean = m.positive({s.H}, s.acc);
  args.lambda_var = m.positive({s.H}, s.acc);
  args.token_mean = m.in({s.B, s.T}, s.acc);
  args.token_var = m.positive({s.B, s.T}, s.acc);
  args.pivot = m.in({s.B, s.C}, s.acc);
  if (options.variant == DtnVariant::kOfficial) {
    args.head_rstd = m.positive({s.B, s.H, s.T}, DType::kFloat64);
  }
  args.dy = m.in({s.B, s.T, s.C}, s.t);
  args.dx_add = args.dx = m.in_out({s.B, s.T, s.C}, s.t);
  args.dweight = m.in_out({s.C}, s.acc);
  args.dbias = m.in_out({s.C}, s.acc);
  const bool learns_lambda = !options.lambda;
  if (learns_lambda && !options.only_var) args.dlambda_mean = m.in_out({s.H}, s.acc);
  if (learns_lambda) args.dlambda_var = m.in_out({s.H}, s.acc);
  args.by_logits = learns_lambda;
  if (adds_branch(s, options)) {
    args.dbranch = m.out({s.B, s.T, s.C}, s.t);
    args.dbranch_sums = m.in_out({s.C}, s.acc);
    args.branch_scale = m.positive({s.B}, s.acc);
  }
  if (!options.dense(s.device) && options.learns_positions()) {
    args.dpos_weight = m.in_out({s.H, 3}, s.acc);
  }
  return args;
}

void add_dtn(CaseList& cases, const StepShape& s) {
  const DtnOptions options(s.config.model.norm);
  const std::initializer_list<std::int64_t> sizes = {s.B, s.T, s.C, s.H};
  if (!options.dense(s.device)) {
    cases.add("dtn_fwd", sizes, [=](KernelTensors& m) { return dtn_forward_of(m, s, options); });
    cases.add("dtn_bwd", sizes, [=](KernelTensors& m) { return dtn_backward_of(m, s, options); });
    return;
  }
  const std::int64_t cells = s.T / (options.pool * options.pool);
  const Shape positions = {s.H, cells, cells};
  cases.add("dtn_fwd", sizes, [=](KernelTensors& m) {
    return DtnDenseForward{dtn_forward_of(m, s, options), m.positive(positions, s.acc)};
  });
  cases.add("dtn_bwd", sizes, [=](KernelTensors& m) {
    DtnDenseBackward args{dtn_backward_of(m, s, options), m.positive(positions, s.acc)};
    if (options.learns_positions()) args.dpositions = m.out(positions, s.acc);
    return args;
  });
}

// Adds the LayerNorm and DTN kernels of the model's blocks, and the drop path around them.
void add_norms(CaseList& cases, const StepShape& s) {
  const ModelConfig& c = s.config.model;
  const bool all_layer_norm = c.norm.type == "ln" || c.norm_layers() == 0;
  const bool some_layer_norm = all_layer_norm || c.norm_layers() < c.depth;
  if (some_layer_norm) add_layer_norm(cases, s, all_layer_norm ? s.T : s.T_end);
  const bool dtn = c.norm.type == "dtn" && c.norm_layers() > 0;
  const bool by_norms = all_layer_norm || (dtn && adds_branch(s, DtnOptions(c.norm)));
  if (s.drops && (s.fused_residual || !by_norms)) add_drop_path(cases, s, !s.fused_residual);
  if (dtn) add_dtn(cases, s);
}

void add_attention(CaseList& cases, const StepShape& s) {
  const ModelConfig& c = s.config.model;
  const double scale = 1 / std::sqrt(static_cast<double>(s.D));
  const bool on_grid = c.mhsa_position && c.grid_blocks() > 0;
  const Shape qkv = {s.B, s.T, 3 * s.C}, out = {s.B, s.T, s.C}, lse = {s.B, s.H, s.T};
  const auto set_positions = [=](KernelTensors& m, auto& args) {
    if (!on_grid) return;
    args.pos_weight = m.in({s.H, 3}, s.acc);
    args.grid_h = s.config.model.grid_h();
    args.grid_w = s.config.model.grid_w();
  };
  cases.add("attention_fwd", {s.B, s.T, s.H, s.D}, [=](KernelTensors& m) {
    AttentionForward args{
        s.t, s.B, s.T, s.H, s.D, scale, m.in(qkv, s.t), m.out(out, s.t), m.out(lse, s.acc)};
    set_positions(m, args);
    return args;
  });
  cases.add("attention_bwd", {s.B, s.T, s.H, s.D}, [=](KernelTensors& m) {
    AttentionBackward args{s.t,
                           s.B,
                           s.T,
                           s.H,
                           s.D,
                           scale,
                           m.in(qkv, s.t),
                           m.in(out, s.t),
                           m.in(lse, s.acc),
                           m.in(out, s.t),
                           m.out(qkv, s.t)};
    set_positions(m, args);
    if (on_grid) args.dpos_weight = m.in_out({s.H, 3}, s.acc);
    return args;
  });
}

// Adds the attention of the class token in the last block.
void add_query_attention(CaseList& cases, const StepShape& s) {
  const double scale = 1 / std::sqrt(static_cast<double>(s.D));
  const std::int64_t Q = 1 + s.config.model.distilled;
  const Shape q = {s.B, Q, s.C}, kv = {s.B, s.T_end, 2 * s.C}, lse = {s.B, s.H, Q};
  cases.add("query_attention_fwd", {s.B, s.T_end, s.H, s.D}, [=](KernelTensors& m) {
    return QueryAttentionForward{s.t,
                                 s.B,
                                 Q,
                                 s.T_end,
                                 s.H,
                                 s.D,
                                 scale,
                                 m.in(q, s.t),
                                 m.in(kv, s.t),
                                 m.out(q, s.t),
                                 m.out(lse, s.acc)};
  });
  cases.add("query_attention_bwd", {s.B, s.T_end, s.H, s.D}, [=](KernelTensors& m) {
    return QueryAttentionBackward{s.t,
                                  s.B,
                                  Q,
                                  s.T_end,
                                  s.H,
                                  s.D,
                                  scale,
                                  m.in(q, s.t),
                                  m.in(kv, s.t),
                                  m.in(q, s.t),
                                  m.in(lse, s.acc),
                                  m.in(q, s.t),
                                  m.out(q, s.t),
                                  m.out(kv, s.t)};
  });
}

}  // namespace

void add_token_cases(CaseList& cases, const StepShape& s) {
  const ModelConfig& c = s.config.model;
  add_norms(cases, s);
  add_attention(cases, s);
  const bool last_norm_is_per_token = c.norm.type == "ln" || c.norm_layers() < c.depth;
  if (c.pool == Pooling::kCls && c.grid_blocks() < c.depth && last_norm_is_per_token) {
    add_query_attention(cases, s);
  }
}

}  // namespace dtn
