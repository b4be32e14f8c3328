// Switchable normalization (Luo et al., "Differentiable learning-to-normalize via switchable
// normalization", ICLR 2019). The math is in kernels/norm/switchable_norm.h; this file holds the
// parameters, the options and the autograd node.
//
// Parameters and buffers, named as in the released code (there per-channel tensors are
// [1, C, 1, 1]):
//    weight[C], bias[C], mean_weight[3], var_weight[3], running_mean[C], running_var[C]
// As in the released code, the mixture weights start equal. The running statistics start at zero,
// move with momentum 0.1 (0.9 in that code's definition), and collect the variance that normalizes
// the batch, without a correction for its size. Differences: all variances are biased, so an image
// of one token needs no exception; the released code has an unbiased variance over the pixels of an
// image. The layer statistics belong to each token, as in LayerNorm.
#include "kernels/norm/switchable_norm.h"

#include <algorithm>
#include <numeric>

#include "dtn/ops/primitive.h"
#include "nn/norms/batch_statistics.h"
#include "nn/norms/rows.h"
#include "nn/norms/shared_batch.h"
#include "nn/norms/valid_tokens.h"
#include "nn/norms/view_means.h"
#include "ops/host_constant.h"
#include "ops/norm/norm_gradients.h"

namespace dtn {
namespace {

namespace e = primitive;

// Mean and variance over the given dimensions, which stay with extent 1.
struct Moments {
  Variable mean, var;
  Moments() = default;
  Moments(Context& ctx, const Variable& x, const e::Dims& dims) : mean(e::mean(ctx, x, dims)) {
    Variable centred = e::sub(ctx, x, mean);
    var = e::mean(ctx, e::mul(ctx, centred, centred), dims);
  }
};

class SwitchableNorm : public Normalizer {
 public:
  SwitchableNorm(const NormConfig& config, const NormShape& shape, const Scope& scope)
      : shape_(shape),
        momentum_(config.number("momentum").value()),
        sync_(*config.find<bool>("sync")) {
    weight_ = scope.weight("weight", {shape.channels}, InitKind::kOnes, Decay::kNo);
    bias_ = scope.weight("bias", {shape.channels}, InitKind::kZeros, Decay::kNo);
    mean_weight_ = scope.weight("mean_weight", {3}, InitKind::kOnes, Decay::kNo);
    var_weight_ = scope.weight("var_weight", {3}, InitKind::kOnes, Decay::kNo);
    running_mean_ = scope.buffer("running_mean", {shape.channels}, InitKind::kZeros);
    running_var_ = scope.buffer("running_var", {shape.channels}, InitKind::kZeros);
  }

  Variable forward(Context& ctx, const Variable& x, const TokenGrid&) override;
  Variable reference(Context& ctx, const Variable& x, const TokenGrid&) override;
  NormView view(const Tensor& x, const TokenGrid&) const override;
  bool takes_lengths() const override { return true; }
  bool needs_host_lengths() const override { return true; }

 private:
  Variable mixed(Context&, const Variable& x, const Moments& image, const Moments& batch) const;
  Moments batch_moments(Context&, const Variable& x, const e::Dims& rows) const;
  Variable reference_of_padded(Context&, const Variable& input, const TokenGrid& grid) const;
  void check(const Variable& x) const {
    DTN_CHECK(x.value().rank() == 3 && x.dim(2) == shape_.channels, "sn: input ",
              to_string(x.shape()), " is not [B, T, ", shape_.channels, "]");
  }

  NormShape shape_;
  double momentum_;
  bool sync_;
  Parameter* weight_;
  Parameter* bias_;
  Parameter* mean_weight_;
  Parameter* var_weight_;
  Buffer* running_mean_;
  Buffer* running_var_;
};

// Tensors that the kernel arguments point to, kept for the backward pass.
struct Saved {
  Tensor x, weight, mean_weight, var_weight;
  Tensor token_mean, token_var, image_mean, image_var, batch_mean, batch_var;
  Tensor running_mean, running_var;  // in evaluation, instead of batch_mean and batch_var
  double eps;
  Tensor lengths;                                  // of padded samples, on the device of x
  std::int64_t longest = 0, rows = 0;              // longest sample; valid tokens of all samples
  std::shared_ptr<const ops::SharedBatch> shared;  // null: x is the whole batch

  Saved(const Tensor& input, const TokenGrid& grid) : x(input) {
    rows = batch() * tokens();
    if (!grid.padded()) return;
    const std::vector<std::int64_t> counts = ops::host_lengths(grid.lengths, batch(), tokens());
    lengths = grid.lengths.to(x.device());
    rows = std::reduce(counts.begin(), counts.end());
    if (!counts.empty()) longest = std::ranges::max(counts);
  }

  std::int64_t batch() const { return x.dim(0); }
  std::int64_t tokens() const { return x.dim(1); }
  std::int64_t channels() const { return x.dim(2); }
  Tensor make(const Shape& shape, DType dtype) const {
    return Tensor::empty(shape, dtype, x.device());
  }

  void make_statistics(bool of_batch) {
    const DType acc = accumulator_of(x.dtype());
    token_mean = make({batch(), tokens()}, DType::kFloat64);
    token_var = make({batch(), tokens()}, acc);
    image_mean = make({batch(), channels()}, DType::kFloat64);
    image_var = make({batch(), channels()}, acc);
    if (!of_batch) return;
    batch_mean = make({channels()}, DType::kFloat64);
    batch_var = make({channels()}, acc);
  }

  SwitchableTerms terms() const {
    auto raw = [](Tensor t) { return t.defined() ? t.raw() : nullptr; };
    SwitchableTerms terms{};
    terms.dtype = x.dtype();
    terms.batch = batch();
    terms.tokens = tokens();
    terms.channels = channels();
    terms.eps = eps;
    terms.x = x.raw();
    terms.mean_weight = mean_weight.raw();
    terms.var_weight = var_weight.raw();
    terms.token_mean = raw(token_mean);
    terms.token_var = raw(token_var);
    terms.image_mean = raw(image_mean);
    terms.image_var = raw(image_var);
    terms.batch_mean = raw(batch_mean);
    terms.batch_var = raw(batch_var);
    terms.running_mean = raw(running_mean);
    terms.running_var = raw(running_var);
    if (!lengths.defined()) return terms;
    terms.lengths = static_cast<const std::int64_t*>(raw(lengths));
    terms.longest = longest;
    terms.valid = rows;
    return terms;
  }
};

struct Sinks {
  GradSink x, weight, bias, mean_weight, var_weight;
};

void backward(const Saved& saved, const Sinks& sinks, const Tensor& dy) {
  const DType acc = accumulator_of(saved.x.dtype());
  const Device device = saved.x.device();
  const Shape per_token = {saved.batch(), saved.tokens()};
  const Shape per_image = {saved.batch(), saved.channels()}, per_channel = {saved.channels()};
  Tensor token_dmean = saved.make(per_token, acc), token_dvar = saved.make(per_token, acc);
  Tensor image_dmean = saved.make(per_image, acc), image_dvar = saved.make(per_image, acc);
  Tensor of_batch = Tensor::zeros({2, saved.channels()}, acc, device);  // stays 0 without tokens
  Tensor batch_dmean = of_batch.slice(0, 1), batch_dvar = of_batch.slice(1, 2);

  SwitchableNormBackwardSums sums{};
  sums.terms = saved.terms();
  sums.weight = saved.weight.raw();
  sums.dy = dy.raw();
  sums.token_dmean = token_dmean.raw();
  sums.token_dvar = token_dvar.raw();
  sums.image_dmean = image_dmean.raw();
  sums.image_dvar = image_dvar.raw();
  sums.batch_dmean = batch_dmean.raw();
  sums.batch_dvar = batch_dvar.raw();
  sums.dweight = ops::buffer_or_null(sinks.weight, per_channel, acc, device);
  sums.dbias = ops::buffer_or_null(sinks.bias, per_channel, acc, device);
  sums.dmean_weight = ops::buffer_or_null(sinks.mean_weight, {3}, acc, device);
  sums.dvar_weight = ops::buffer_or_null(sinks.var_weight, {3}, acc, device);
  run_on(device, sums);
  if (!sinks.x) return;
  if (saved.shared) saved.shared->add_up(of_batch);

  ops::NormInputGradient input(sinks.x, saved.x);
  SwitchableNormBackward back{};
  back.terms = sums.terms;
  back.weight = sums.weight;
  back.dy = dy.raw();
  back.token_dmean = sums.token_dmean;
  back.token_dvar = sums.token_dvar;
  back.image_dmean = sums.image_dmean;
  back.image_dvar = sums.image_dvar;
  back.batch_dmean = sums.batch_dmean;
  back.batch_dvar = sums.batch_dvar;
  back.positions = saved.shared ? saved.shared->rows() : saved.rows;
  back.dx_add = input.waiting();
  back.dx = input.destination();
  run_on(device, back);
  input.deliver();
}

Variable SwitchableNorm::forward(Context& ctx, const Variable& x, const TokenGrid& grid) {
  check(x);
  Saved saved(x.value(), grid);
  saved.weight = weight_->variable.value();
  saved.mean_weight = mean_weight_->variable.value();
  saved.var_weight = var_weight_->variable.value();
  saved.eps = shape_.eps;
  saved.make_statistics(ctx.training());
  if (!ctx.training()) {
    saved.running_mean = running_mean_->value;
    saved.running_var = running_var_->value;
  }
  run_on(x.device(), SwitchableNormStatistics{saved.terms()});
  saved.shared =
      grid.padded() ? shared_rows(ctx, sync_, saved.rows) : shared_batch(ctx, sync_, saved.x);
  if (saved.shared) saved.shared->combine({saved.batch_mean, {}, saved.batch_var});

  Tensor y = Tensor::empty_like(x.value());
  SwitchableNormForward args{};
  args.terms = saved.terms();
  args.weight = saved.weight.raw();
  Tensor bias = bias_->variable.value();
  args.bias = bias.raw();
  args.y = y.raw();
  args.momentum = momentum_;
  if (ctx.training() && !ctx.mode.recompute) {
    args.next_mean = running_mean_->next.raw();
    args.next_var = running_var_->next.raw();
  }
  run_on(x.device(), args);

  const Variable &weight = weight_->variable, &mean_weight = mean_weight_->variable;
  const Variable& var_weight = var_weight_->variable;
  const Sinks sinks{x.sink(), weight.sink(), bias_->variable.sink(), mean_weight.sink(),
                    var_weight.sink()};
  return ctx.record("sn", y, {&x, &weight, &bias_->variable, &mean_weight, &var_weight},
                    [saved, sinks](const Tensor& dy) { backward(saved, sinks, dy); });
}

// Matrices between samples and rows. If row n belongs to sample b, `means` [B, N] has 1 / length
// there and `spread` [N, B] has 1; all other elements are 0.
struct Membership {
  Variable means, spread;
  Membership(const std::vector<std::int64_t>& lengths, const Variable& rows) {
    const auto samples = static_cast<std::int64_t>(lengths.size());
    std::vector<std::int64_t> owner;
    for (std::int64_t b = 0; b < samples; ++b) {
      owner.insert(owner.end(), static_cast<std::size_t>(lengths[static_cast<std::size_t>(b)]), b);
    }
    const auto count = std::ssize(owner);
    const auto owner_of = [&](std::int64_t row) { return owner[static_cast<std::size_t>(row)]; };
    means = Variable(
        ops::host_constant({samples, count}, rows.dtype(), rows.device(), [&](std::int64_t i) {
          const std::int64_t b = i / count;
          const double share = 1 / static_cast<double>(lengths[static_cast<std::size_t>(b)]);
          return owner_of(i % count) == b ? share : 0.0;
        }));
    spread = Variable(ops::host_constant(
        {count, samples}, rows.dtype(), rows.device(),
        [&](std::int64_t i) { return owner_of(i / samples) == i % samples ? 1.0 : 0.0; }));
  }
};

// Returns the mean and the variance of each sample, repeated for all of its rows.
Moments sample_moments(Context& ctx, const Variable& x, const Membership& samples) {
  const auto mean_of = [&](const Variable& rows) {
    return e::matmul(ctx, samples.spread, e::matmul(ctx, samples.means, rows));
  };
  Moments m;
  m.mean = mean_of(x);
  const Variable centred = e::sub(ctx, x, m.mean);
  m.var = mean_of(e::mul(ctx, centred, centred));
  return m;
}

Variable SwitchableNorm::reference(Context& ctx, const Variable& input, const TokenGrid& grid) {
  check(input);
  if (grid.padded()) return reference_of_padded(ctx, input, grid);
  const Variable x = e::upcast(ctx, input);
  return e::cast(ctx, mixed(ctx, x, Moments(ctx, x, {1}), batch_moments(ctx, x, {0, 1})),
                 input.dtype());
}

// Normalizes x (3 or 2 dimensions, channels last) with these moments of its samples and the batch.
Variable SwitchableNorm::mixed(Context& ctx, const Variable& x, const Moments& image,
                               const Moments& batch) const {
  const Moments token(ctx, x, {-1});
  auto mix = [&](const Parameter* logits, const Variable& in, const Variable& ln,
                 const Variable& bn) {
    Variable shares = e::softmax(ctx, logits->variable);
    auto part = [&](std::int64_t k, const Variable& v) {
      return e::mul(ctx, e::narrow(ctx, shares, 0, k, k + 1), v);
    };
    return e::add(ctx, e::add(ctx, part(0, in), part(1, ln)), part(2, bn));
  };
  Variable mu = mix(mean_weight_, image.mean, token.mean, batch.mean);
  Variable var = mix(var_weight_, image.var, token.var, batch.var);
  Variable xhat = e::div(ctx, e::sub(ctx, x, mu), e::sqrt(ctx, e::affine(ctx, var, 1, shape_.eps)));
  return e::add(ctx, e::mul(ctx, xhat, weight_->variable), bias_->variable);
}

// Returns the moments of the rows of x in training, or the running ones in evaluation.
Moments SwitchableNorm::batch_moments(Context& ctx, const Variable& x, const e::Dims& rows) const {
  if (ctx.training()) return Moments(ctx, x, rows);
  Moments running;
  running.mean = Variable(running_mean_->value);
  running.var = Variable(running_var_->value);
  return running;
}

Variable SwitchableNorm::reference_of_padded(Context& ctx, const Variable& input,
                                             const TokenGrid& grid) const {
  const auto normalize = [&](const Variable& rows, const std::vector<std::int64_t>& lengths) {
    const Variable x = e::upcast(ctx, rows);
    const Moments batch = batch_moments(ctx, x, {0});
    const Moments image = sample_moments(ctx, x, Membership(lengths, x));
    return e::cast(ctx, mixed(ctx, x, image, batch), rows.dtype());
  };
  return of_valid_tokens(ctx, input, grid, normalize);
}

NormView SwitchableNorm::view(const Tensor& x, const TokenGrid&) const {
  Context plain;
  const Tensor logits = in_float64(mean_weight_->variable.value());
  const Tensor shares = e::softmax(plain, Variable(logits)).value();
  const double* of = shares.data<double>();
  Tensor mean = means_of_groups(x, shape_.channels);
  const Tensor token = means_of_tokens(x), batch = means_of_channels(x, running_mean_->value);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    mean.data<double>()[i] = of[0] * mean.data<double>()[i] + of[1] * token.data<double>()[i] +
                             of[2] * batch.data<double>()[i];
  }
  return {x, mean};
}

std::unique_ptr<Normalizer> make_switchable(const NormConfig& config, const NormShape& shape,
                                            const Scope& scope) {
  return std::make_unique<SwitchableNorm>(config, shape, scope);
}

}  // namespace

NormRow switchable_norm_row() {
  NormSchema schema;
  schema.type = "sn";
  schema.doc = "Switchable normalization: instance, layer and batch statistics, mixed by learning";
  schema.running_statistics = true;
  schema.options = {momentum_option(), sync_option()};
  return {std::move(schema), make_switchable};
}

}  // namespace dtn
