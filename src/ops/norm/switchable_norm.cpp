#include "ops/norm/switchable_norm.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "dtn/ops/padding.h"
#include "dtn/ops/primitive.h"
#include "kernels/norm/switchable_norm.h"
#include "ops/host_constant.h"
#include "ops/norm/norm_gradients.h"

namespace dtn::ops {
namespace {

// Tensors that the kernel arguments point to, kept for the backward pass.
struct SwitchableSaved {
  Tensor x, weight, mean_weight, var_weight;
  Tensor token_mean, token_var, image_mean, image_var, batch_mean, batch_var;
  Tensor running_mean, running_var;  // in evaluation, instead of batch_mean and batch_var
  double eps;
  Tensor lengths;                             // of padded samples, on the device of x
  std::int64_t longest = 0, rows = 0;         // longest sample; valid tokens of all samples
  std::shared_ptr<const SharedBatch> shared;  // null: x is the whole batch

  SwitchableSaved(const Tensor& input, const SwitchableNormInputs& in)
      : x(input),
        weight(in.weight.value()),
        mean_weight(in.mean_weight.value()),
        var_weight(in.var_weight.value()),
        eps(in.eps) {
    rows = batch() * tokens();
    if (!in.lengths.defined()) return;
    lengths = in.lengths.to(x.device());
    rows = std::reduce(in.counts.begin(), in.counts.end());
    if (!in.counts.empty()) longest = std::ranges::max(in.counts);
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
    auto raw = [](Tensor t) { return t.raw(); };
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

struct SwitchableSinks {
  GradSink x, weight, bias, mean_weight, var_weight;
};

void backward(const SwitchableSaved& saved, const SwitchableSinks& sinks, const Tensor& dy) {
  const DType acc = accumulator_of(saved.x.dtype());
  const Device device = saved.x.device();
  const Shape per_token = {saved.batch(), saved.tokens()};
  const Shape per_image = {saved.batch(), saved.channels()}, per_channel = {saved.channels()};
  Tensor token_dmean = saved.make(per_token, acc), token_dvar = saved.make(per_token, acc);
  Tensor image_dmean = saved.make(per_image, acc), image_dvar = saved.make(per_image, acc);
  Tensor of_batch = Tensor::zeros({2, saved.channels()}, acc, device);  // stays 0 without tokens
  Tensor batch_dmean = of_batch.slice(0, 1), batch_dvar = of_batch.slice(1, 2);

  const SwitchableGradients gradients{saved.terms(),     saved.weight.raw(), dy.raw(),
                                      token_dmean.raw(), token_dvar.raw(),   image_dmean.raw(),
                                      image_dvar.raw(),  batch_dmean.raw(),  batch_dvar.raw()};
  SwitchableNormBackwardSums sums{gradients};
  sums.dweight = buffer_or_null(sinks.weight, per_channel, acc, device);
  sums.dbias = buffer_or_null(sinks.bias, per_channel, acc, device);
  sums.dmean_weight = buffer_or_null(sinks.mean_weight, {3}, acc, device);
  sums.dvar_weight = buffer_or_null(sinks.var_weight, {3}, acc, device);
  run_on(device, sums);
  if (!sinks.x) return;
  if (saved.shared) saved.shared->add_up(of_batch);

  NormInputGradient input(sinks.x, saved.x);
  const std::int64_t positions = saved.shared ? saved.shared->rows() : saved.rows;
  run_on(device,
         SwitchableNormBackward{gradients, positions, input.waiting(), input.destination()});
  input.deliver();
}

}  // namespace

Variable switchable_norm(Context& ctx, const Variable& x, const SwitchableNormInputs& in,
                         std::shared_ptr<const SharedBatch> batch) {
  SwitchableSaved saved(x.value(), in);
  saved.make_statistics(ctx.training());
  if (!ctx.training()) {
    saved.running_mean = in.running_mean;
    saved.running_var = in.running_var;
  }
  run_on(x.device(), SwitchableNormStatistics{saved.terms()});
  saved.shared = std::move(batch);
  if (saved.shared) saved.shared->combine({saved.batch_mean, {}, saved.batch_var});

  Tensor y = Tensor::empty_like(x.value());
  Tensor bias = in.bias.value(), next_mean = in.next_mean, next_var = in.next_var;
  SwitchableNormForward args{};
  args.terms = saved.terms();
  args.weight = saved.weight.raw();
  args.bias = bias.raw();
  args.y = y.raw();
  args.momentum = in.momentum;
  if (ctx.training() && !ctx.mode.recompute) {
    args.next_mean = next_mean.raw();
    args.next_var = next_var.raw();
  }
  run_on(x.device(), args);

  const SwitchableSinks sinks{x.sink(), in.weight.sink(), in.bias.sink(), in.mean_weight.sink(),
                              in.var_weight.sink()};
  return ctx.record("sn", y, {&x, &in.weight, &in.bias, &in.mean_weight, &in.var_weight},
                    [saved, sinks](const Tensor& dy) { backward(saved, sinks, dy); });
}

namespace reference {
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
    means =
        Variable(host_constant({samples, count}, rows.dtype(), rows.device(), [&](std::int64_t i) {
          const std::int64_t b = i / count;
          const double share = 1 / static_cast<double>(lengths[static_cast<std::size_t>(b)]);
          return owner_of(i % count) == b ? share : 0.0;
        }));
    spread =
        Variable(host_constant({count, samples}, rows.dtype(), rows.device(), [&](std::int64_t i) {
          return owner_of(i / samples) == i % samples ? 1.0 : 0.0;
        }));
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

// Returns the moments of the rows of x in training, or the running ones in evaluation.
Moments batch_moments(Context& ctx, const Variable& x, const e::Dims& rows,
                      const SwitchableNormInputs& in) {
  if (ctx.training()) return Moments(ctx, x, rows);
  Moments running;
  running.mean = Variable(in.running_mean);
  running.var = Variable(in.running_var);
  return running;
}

// Normalizes x (3 or 2 dimensions, channels last) with these moments of its samples and the batch.
Variable mixed(Context& ctx, const Variable& x, const Moments& image, const Moments& batch,
               const SwitchableNormInputs& in) {
  const Moments token(ctx, x, {-1});
  auto mix = [&](const Variable& logits, const Variable& of_image, const Variable& of_token,
                 const Variable& of_batch) {
    Variable shares = e::softmax(ctx, logits);
    auto part = [&](std::int64_t k, const Variable& v) {
      return e::mul(ctx, e::narrow(ctx, shares, 0, k, k + 1), v);
    };
    return e::add(ctx, e::add(ctx, part(0, of_image), part(1, of_token)), part(2, of_batch));
  };
  Variable mu = mix(in.mean_weight, image.mean, token.mean, batch.mean);
  Variable var = mix(in.var_weight, image.var, token.var, batch.var);
  Variable xhat = e::div(ctx, e::sub(ctx, x, mu), e::sqrt(ctx, e::affine(ctx, var, 1, in.eps)));
  return e::add(ctx, e::mul(ctx, xhat, in.weight), in.bias);
}

}  // namespace

Variable switchable_norm(Context& ctx, const Variable& input, const SwitchableNormInputs& in) {
  if (!in.lengths.defined()) {
    const Variable x = e::upcast(ctx, input);
    const Variable y = mixed(ctx, x, Moments(ctx, x, {1}), batch_moments(ctx, x, {0, 1}, in), in);
    return e::cast(ctx, y, input.dtype());
  }
  const Variable rows = pack_tokens(ctx, input, in.counts);
  const Variable x = e::upcast(ctx, rows);
  const Moments batch = batch_moments(ctx, x, {0}, in);
  const Moments image = sample_moments(ctx, x, Membership(in.counts, x));
  const Variable y = e::cast(ctx, mixed(ctx, x, image, batch, in), rows.dtype());
  return unpack_tokens(ctx, y, in.counts, input.dim(1));
}

}  // namespace reference
}  // namespace dtn::ops
