// RMSNorm (Zhang & Sennrich, "Root mean square layer normalization", NeurIPS 2019) and ScaleNorm
// (Nguyen & Salazar, "Transformers without tears", IWSLT 2019). ScaleNorm has a weight per channel
// that starts at sqrt(C), as in the code of the DTN paper. Neither has a bias. The math is in
// kernels/norm/rms_norm.h.
#include "kernels/norm/rms_norm.h"

#include <cmath>

#include "dtn/ops/primitive.h"
#include "nn/norms/rows.h"
#include "ops/norm/norm_gradients.h"

namespace dtn {
namespace {

void init_sqrt_channels(Tensor& value, std::uint64_t, const std::string&) {
  const double start = std::sqrt(static_cast<double>(value.numel()));
  value.copy_from(Tensor::full(value.shape(), value.dtype(), start));
}

class RmsNorm : public Normalizer {
 public:
  RmsNorm(RmsNormKind kind, const NormShape& shape, const Scope& scope)
      : kind_(kind), shape_(shape) {
    weight_ = kind == RmsNormKind::kRms
                  ? scope.weight("weight", {shape.channels}, InitKind::kOnes)
                  : scope.weight("weight", {shape.channels}, init_sqrt_channels);
  }

  Variable forward(Context& ctx, const Variable& x, const TokenGrid&) override;
  Variable reference(Context& ctx, const Variable& x, const TokenGrid&) override;
  bool is_per_token() const override { return true; }

 private:
  RmsNormKind kind_;
  NormShape shape_;
  Parameter* weight_;
};

Variable RmsNorm::forward(Context& ctx, const Variable& x, const TokenGrid&) {
  const std::int64_t channels = shape_.channels;
  DTN_CHECK(x.dim(-1) == channels, "rms norm: input ", to_string(x.shape()), " does not end in ",
            channels, " channels");
  const std::int64_t rows = x.value().numel() / channels;
  const DType acc = accumulator_of(x.dtype());
  Tensor weight = weight_->variable.value_as(acc);
  Tensor y = Tensor::empty_like(x.value());
  Tensor factor = Tensor::empty({rows}, acc, x.device());
  run_on(x.device(), RmsNormForward{x.dtype(), kind_, rows, channels, shape_.eps, x.value().raw(),
                                    weight.raw(), y.raw(), factor.raw()});
  return ctx.record("rms_norm", y, {&x, &weight_->variable},
                    [=, kind = kind_, eps = shape_.eps, x = x.value(), sink = x.sink(),
                     dweight = weight_->variable.sink()](const Tensor& dy) {
                      ops::NormInputGradient input(sink, x);
                      RmsNormBackward back{};
                      back.dtype = x.dtype();
                      back.kind = kind;
                      back.rows = rows;
                      back.channels = channels;
                      back.eps = eps;
                      back.x = x.raw();
                      back.weight = weight.raw();
                      back.factor = factor.raw();
                      back.dy = dy.raw();
                      back.dx_add = input.waiting();
                      back.dx = input.destination();
                      back.dweight = ops::buffer_or_null(dweight, {channels}, acc, x.device());
                      run_on(x.device(), back);
                      input.deliver();
                    });
}

Variable RmsNorm::reference(Context& ctx, const Variable& x, const TokenGrid&) {
  namespace e = primitive;
  const double eps = shape_.eps;
  const Variable wide = e::upcast(ctx, x), squares = e::mul(ctx, wide, wide);
  // ScaleNorm takes the maximum of |x|^2 and eps^2 before the root, whose slope at 0 is infinite.
  const Variable under_root =
      kind_ == RmsNormKind::kRms
          ? e::affine(ctx, e::mean(ctx, squares, -1), 1, eps)
          : e::affine(ctx, e::relu(ctx, e::affine(ctx, e::sum(ctx, squares, -1), 1, -eps * eps)), 1,
                      eps * eps);
  const Variable normal = e::div(ctx, wide, e::sqrt(ctx, under_root));
  return e::cast(ctx, e::mul(ctx, normal, weight_->variable), x.dtype());
}

template <RmsNormKind kKind>
std::unique_ptr<Normalizer> make_rms(const NormConfig&, const NormShape& shape,
                                     const Scope& scope) {
  return std::make_unique<RmsNorm>(kKind, shape, scope);
}

}  // namespace

NormRow rms_norm_row() {
  NormSchema schema;
  schema.type = "rms";
  schema.doc = "RMSNorm: each token over its root mean square, no mean, no bias";
  return {std::move(schema), make_rms<RmsNormKind::kRms>};
}

NormRow scale_norm_row() {
  NormSchema schema;
  schema.type = "scale";
  schema.doc = "ScaleNorm: each token over its length, times a weight per channel from sqrt(C) on";
  return {std::move(schema), make_rms<RmsNormKind::kScale>};
}

}  // namespace dtn
