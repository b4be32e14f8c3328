// Dynamic Token Normalization (Shao et al., ICLR 2022). The math is in kernels/dtn_norm.h; this
// file holds its parameters, its options and its autograd node.
//
// Parameters, named and laid out as in the released code:
//   weight[C], bias[C], mean_norm_weight[H], var_norm_weight[H] (logits of lambda),
//   pos_proj.weight[H, 3] with columns (x, y, d), pos_proj.bias[H] (inert under the softmax).
#include <cmath>

#include "dtn/ops/elementary.h"
#include "kernels/dtn_norm.h"
#include "kernels/pointwise.h"
#include "norms/rows.h"
#include "ops/dispatch.h"
#include "ops/norm_gradients.h"

namespace dtn {
namespace {

// Eq. 7: head k j + i, with k = floor(sqrt(H)), attends around the offset (j, i) - (k - 1) / 2; the
// heads that are left over draw a truncated normal.
void init_local(Tensor& value, std::uint64_t seed, const std::string& name) {
  std::int64_t heads = value.dim(0);
  fill_truncated_normal(value, 0.02, seed, name);
  auto k = static_cast<std::int64_t>(std::sqrt(static_cast<double>(heads)));
  double centre = static_cast<double>(k - 1) / 2;
  dispatch_real(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t i = 0; i < k; ++i) {
        T* row = value.data<T>() + (k * j + i) * 3;
        row[0] = static_cast<T>(2 * (static_cast<double>(j) - centre));
        row[1] = static_cast<T>(2 * (static_cast<double>(i) - centre));
        row[2] = T(-1);
      }
    }
  });
}

class DynamicTokenNorm : public Normalizer {
 public:
  DynamicTokenNorm(const NormConfig& config, const NormShape& shape, ParameterStore& store,
                   const std::string& prefix)
      : shape_(shape) {
    DTN_CHECK(shape.channels % shape.heads == 0, "dtn: ", shape.channels,
              " channels do not divide into ", shape.heads, " heads");
    variant_ = *config.find<std::string>("variant") == "official" ? DtnVariant::kOfficial
                                                                  : DtnVariant::kPaper;
    if (const double* fixed = config.find<double>("lambda")) fixed_lambda_ = *fixed;
    if (const std::int64_t* fixed = config.find<std::int64_t>("lambda")) {  // `lambda: 1`, from C++
      fixed_lambda_ = static_cast<double>(*fixed);
    }
    weight_ = store.add(prefix + ".weight", {shape.channels}, InitKind::kOnes, Decay::kNo);
    bias_ = store.add(prefix + ".bias", {shape.channels}, InitKind::kZeros, Decay::kNo);
    if (!fixed_lambda_) {
      mean_logit_ =
          store.add(prefix + ".mean_norm_weight", {shape.heads}, InitKind::kZeros, Decay::kNo);
      var_logit_ =
          store.add(prefix + ".var_norm_weight", {shape.heads}, InitKind::kZeros, Decay::kNo);
    }
    std::string position = prefix + ".pos_proj.weight";
    if (*config.find<std::string>("init") == "local") {
      position_ = store.add_custom(position, {shape.heads, 3}, Decay::kYes, init_local);
    } else {
      position_ = store.add(position, {shape.heads, 3}, InitKind::kTruncatedNormal, Decay::kYes);
    }
    store.add(prefix + ".pos_proj.bias", {shape.heads}, InitKind::kZeros, Decay::kNo);
  }

  Variable forward(Context& ctx, const Variable& x, const TokenGrid& grid) override;
  Variable reference(Context& ctx, const Variable& x, const TokenGrid& grid) override;

  // One T x T product per head, as the paper counts; in truth two statistics, two short passes.
  double paper_multiply_adds(const TokenGrid& grid) const override {
    double tokens = static_cast<double>(grid.tokens());
    return tokens * tokens * static_cast<double>(shape_.channels);
  }
  double multiply_adds(const TokenGrid& grid) const override {
    return 2.0 * static_cast<double>((grid.height + grid.width) * grid.tokens() * shape_.channels);
  }

 private:
  // sigmoid(logits), or the fixed value for every head: [H] accumulator type.
  Tensor lambda(const Parameter* logit, DType acc, Device device) const;
  Variable lambda(Context& ctx, const Parameter* logit, DType dtype) const;
  void check(const Variable& x, const TokenGrid& grid) const {
    DTN_CHECK(x.value().rank() == 3 && x.dim(1) == grid.tokens() && x.dim(2) == shape_.channels,
              "dtn: input ", to_string(x.shape()), " is not [B, ", grid.height, " x ", grid.width,
              ", ", shape_.channels, "]");
  }

  NormShape shape_;
  DtnVariant variant_;
  std::optional<double> fixed_lambda_;
  mutable Tensor fixed_lambdas_;  // [H], where it was used last
  Parameter* weight_;
  Parameter* bias_;
  Parameter* mean_logit_ = nullptr;
  Parameter* var_logit_ = nullptr;
  Parameter* position_;
};

Tensor DynamicTokenNorm::lambda(const Parameter* logit, DType acc, Device device) const {
  if (fixed_lambda_) {
    if (!fixed_lambdas_.defined() || fixed_lambdas_.dtype() != acc ||
        !(fixed_lambdas_.device() == device)) {
      fixed_lambdas_ = Tensor::full({shape_.heads}, acc, *fixed_lambda_).to(device);
    }
    return fixed_lambdas_;
  }
  Tensor value = Tensor::empty({shape_.heads}, acc, device);
  run_on(device, Sigmoid{acc, shape_.heads, logit->variable.value().raw(), value.raw()});
  return value;
}

// dlogit += dlambda lambda (1 - lambda)
void add_logit_gradient(const GradSink& sink, const Tensor& dlambda, const Tensor& lambda) {
  if (!sink) return;
  Tensor& dlogit = sink->buffer(lambda.shape(), lambda.dtype(), lambda.device());
  run_on(lambda.device(), SigmoidBackward{lambda.dtype(), lambda.numel(), lambda.raw(),
                                          dlambda.raw(), dlogit.raw()});
}

Variable DynamicTokenNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid) {
  check(x, grid);
  DType acc = accumulator_of(x.dtype());
  std::int64_t batch = x.dim(0), tokens = grid.tokens();
  Device device = x.device();
  Tensor l_mean = lambda(mean_logit_, acc, device), l_var = lambda(var_logit_, acc, device);
  Tensor y = Tensor::empty_like(x.value());
  Tensor token_mean = Tensor::empty({batch, tokens}, acc, device);
  Tensor token_var = Tensor::empty({batch, tokens}, acc, device);
  Tensor pivot = Tensor::empty({batch, shape_.channels}, acc, device);
  Tensor head_rstd;
  if (variant_ == DtnVariant::kOfficial) {
    head_rstd = Tensor::empty({batch, shape_.heads, tokens}, DType::kFloat64, device);
  }
  Tensor weight = weight_->variable.value(), position = position_->variable.value();

  DtnNormForward args{};
  args.dtype = x.dtype();
  args.batch = batch;
  args.grid_h = grid.height;
  args.grid_w = grid.width;
  args.channels = shape_.channels;
  args.heads = shape_.heads;
  args.eps = shape_.eps;
  args.variant = variant_;
  args.x = x.value().raw();
  args.weight = weight.raw();
  args.bias = bias_->variable.value().raw();
  args.lambda_mean = l_mean.raw();
  args.lambda_var = l_var.raw();
  args.pos_weight = position.raw();
  args.y = y.raw();
  args.token_mean = token_mean.raw();
  args.token_var = token_var.raw();
  args.pivot = pivot.raw();
  args.head_rstd = head_rstd.defined() ? head_rstd.raw() : nullptr;
  run_on(device, args);

  const Variable* logits[2] = {mean_logit_ ? &mean_logit_->variable : nullptr,
                               var_logit_ ? &var_logit_->variable : nullptr};
  auto backward = [=, shape = shape_, x = x.value(), dx = x.sink(),
                   dweight = weight_->variable.sink(), dbias = bias_->variable.sink(),
                   dposition = position_->variable.sink(),
                   dmean = logits[0] ? logits[0]->sink() : nullptr,
                   dvar = logits[1] ? logits[1]->sink() : nullptr](const Tensor& dy) {
    Tensor dl_mean = Tensor::zeros({shape.heads}, acc, device);
    Tensor dl_var = Tensor::zeros({shape.heads}, acc, device);
    ops::NormInputGradient input(dx, x);
    DtnNormBackward back{};
    back.dtype = args.dtype;
    back.batch = args.batch;
    back.grid_h = args.grid_h;
    back.grid_w = args.grid_w;
    back.channels = args.channels;
    back.heads = args.heads;
    back.eps = args.eps;
    back.variant = args.variant;
    back.x = x.raw();
    back.weight = weight.raw();
    back.lambda_mean = l_mean.raw();
    back.lambda_var = l_var.raw();
    back.pos_weight = position.raw();
    back.token_mean = token_mean.raw();
    back.token_var = token_var.raw();
    back.pivot = pivot.raw();
    back.head_rstd = head_rstd.defined() ? head_rstd.raw() : nullptr;
    back.dy = dy.raw();
    back.dx_add = input.waiting();
    back.dx = input.destination();
    back.dweight = ops::buffer_or_null(dweight, {shape.channels}, acc, device);
    back.dbias = ops::buffer_or_null(dbias, {shape.channels}, acc, device);
    back.dlambda_mean = dmean ? dl_mean.raw() : nullptr;
    back.dlambda_var = dvar ? dl_var.raw() : nullptr;
    back.dpos_weight = ops::buffer_or_null(dposition, {shape.heads, 3}, acc, device);
    run_on(device, back);
    add_logit_gradient(dmean, dl_mean, l_mean);
    add_logit_gradient(dvar, dl_var, l_var);
    input.deliver();
  };
  return ctx.record(
      "dtn", y,
      {&x, &weight_->variable, &bias_->variable, &position_->variable, logits[0], logits[1]},
      std::move(backward));
}

// --- reference ----------------------------------------------------------------------------------

namespace e = elementary;

Variable DynamicTokenNorm::lambda(Context& ctx, const Parameter* logit, DType dtype) const {
  Variable value = fixed_lambda_ ? Variable(Tensor::full({shape_.heads}, dtype, *fixed_lambda_))
                                 : e::sigmoid(ctx, logit->variable);
  return e::reshape(ctx, value, {1, shape_.heads, 1, 1});
}

// Relative coordinates (dx, dy, dx^2 + dy^2) of every pair of tokens, [T T, 3].
Tensor pair_offsets(const TokenGrid& grid, DType dtype, double sign) {
  std::int64_t tokens = grid.tokens();
  Tensor r = Tensor::empty({tokens * tokens, 3}, dtype);
  dispatch_real(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (std::int64_t j = 0; j < tokens; ++j) {
        T dx = static_cast<T>(sign * static_cast<double>(j % grid.width - i % grid.width));
        T dy = static_cast<T>(sign * static_cast<double>(j / grid.width - i / grid.width));
        T* out = r.data<T>() + (i * tokens + j) * 3;
        out[0] = dx;
        out[1] = dy;
        out[2] = dx * dx + dy * dy;
      }
    }
  });
  return r;
}

Variable DynamicTokenNorm::reference(Context& ctx, const Variable& input, const TokenGrid& grid) {
  check(input, grid);
  bool official = variant_ == DtnVariant::kOfficial;
  std::int64_t batch = input.dim(0), tokens = grid.tokens(), heads = shape_.heads;
  std::int64_t channels = shape_.channels, head_dim = channels / heads;
  DType dtype = input.dtype();

  Variable x = input;
  if (official) {
    Variable split = e::reshape(ctx, x, {batch, tokens, heads, head_dim});
    Variable power = e::mean(ctx, e::mul(ctx, split, split), -1);
    split = e::div(ctx, split, e::sqrt(ctx, e::affine(ctx, power, 1, shape_.eps)));
    x = e::reshape(ctx, split, {batch, tokens, channels});
  }
  // Token statistics over all channels, [B, 1, T, 1].
  Variable mu_ln = e::mean(ctx, x, -1);
  Variable centred = e::sub(ctx, x, mu_ln);
  double divisor = static_cast<double>(official ? channels - 1 : channels);
  Variable var_ln = e::affine(ctx, e::sum(ctx, e::mul(ctx, centred, centred), -1), 1.0 / divisor);
  mu_ln = e::reshape(ctx, mu_ln, {batch, 1, tokens, 1});
  var_ln = e::reshape(ctx, var_ln, {batch, 1, tokens, 1});

  // P, [H, T, T], the same for every image. The inert bias of pos_proj is left out.
  Variable offsets(pair_offsets(grid, dtype, official ? -1 : 1));
  Variable scores =
      e::matmul(ctx, offsets, e::permute(ctx, position_->variable, {1, 0}));  // [T T, H]
  Variable p =
      e::softmax(ctx, e::reshape(ctx, e::permute(ctx, scores, {1, 0}), {heads, tokens, tokens}));

  // Statistics across tokens within each head: the images side by side as columns, [H, T, B D].
  auto to_columns = [&](const Variable& v) {
    return e::reshape(
        ctx, e::permute(ctx, e::reshape(ctx, v, {batch, tokens, heads, head_dim}), {2, 1, 0, 3}),
        {heads, tokens, batch * head_dim});
  };
  auto from_columns = [&](const Variable& v) {  // [B, H, T, D]
    return e::permute(ctx, e::reshape(ctx, v, {heads, tokens, batch, head_dim}), {2, 0, 1, 3});
  };
  // The variance does not feel a shift, so a constant near the mean is taken out before squaring.
  Context plain;
  Variable pivot(e::mean(plain, Variable(x.value()), 1).value());  // [B, 1, C]
  Variable shifted = e::sub(ctx, x, pivot);
  Variable s1 = from_columns(e::matmul(ctx, p, to_columns(shifted)));
  Variable s2 = from_columns(e::matmul(ctx, p, to_columns(e::mul(ctx, shifted, shifted))));
  Variable v1 = e::sub(ctx, s2, e::mul(ctx, s1, s1));
  if (!official) v1 = e::clamp_at_zero(ctx, v1);
  Variable m1 = e::add(
      ctx, s1, e::permute(ctx, e::reshape(ctx, pivot, {batch, 1, heads, head_dim}), {0, 2, 1, 3}));

  auto mix = [&](const Variable& l, const Variable& token, const Variable& across) {
    return e::add(ctx, e::mul(ctx, l, token), e::mul(ctx, e::affine(ctx, l, -1, 1), across));
  };
  Variable mu = mix(lambda(ctx, mean_logit_, dtype), mu_ln, m1);
  Variable var = mix(lambda(ctx, var_logit_, dtype), var_ln, v1);
  Variable xs = e::permute(ctx, e::reshape(ctx, x, {batch, tokens, heads, head_dim}), {0, 2, 1, 3});
  Variable xhat =
      e::div(ctx, e::sub(ctx, xs, mu), e::sqrt(ctx, e::affine(ctx, var, 1, shape_.eps)));
  Variable back = e::reshape(ctx, e::permute(ctx, xhat, {0, 2, 1, 3}), {batch, tokens, channels});
  return e::add(ctx, e::mul(ctx, back, weight_->variable), bias_->variable);
}

std::unique_ptr<Normalizer> make(const NormConfig& config, const NormShape& shape,
                                 ParameterStore& store, const std::string& prefix) {
  return std::make_unique<DynamicTokenNorm>(config, shape, store, prefix);
}

}  // namespace

NormRow dtn_row() {
  NormSchema schema;
  schema.type = "dtn";
  schema.doc = "Dynamic Token Normalization: statistics within and across tokens, mixed per head";
  schema.needs_grid = true;
  schema.options = {
      {"variant",
       OptionKind::kChoice,
       std::string("paper"),
       {"paper", "official"},
       0,
       0,
       "the paper's equations, or what the released code computes"},
      {"lambda",
       OptionKind::kChoiceOrNumber,
       std::string("learnable"),
       {"learnable"},
       0,
       1,
       "weight of the token's own statistics: learned per head, or fixed (1 is LayerNorm)"},
      {"position",
       OptionKind::kChoice,
       std::string("relative"),
       {"relative"},
       0,
       0,
       "how tokens attend to each other in the statistics"},
      {"init",
       OptionKind::kChoice,
       std::string("local"),
       {"local", "trunc_normal"},
       0,
       0,
       "start of the positional weights: Eq. 7, or a truncated normal for all heads"},
  };
  return {std::move(schema), make};
}

}  // namespace dtn
