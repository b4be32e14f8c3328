#include "dtn/ops/linear.h"

#include <cmath>

#include "core/cuda_device.h"
#include "dtn/ops/activation.h"
#include "dtn/ops/primitive.h"
#include "kernels/gemm/linear.h"
#include "kernels/pointwise/activation.h"
#include "ops/pointwise/rows.h"

namespace dtn::ops {
namespace {

// Rows [begin, end) of a parameter.
struct RowRange {
  std::int64_t begin, end;

  static RowRange all(const Variable& parameter) { return {0, parameter.dim(0)}; }
  Tensor of(const Tensor& t) const { return t.defined() ? t.slice(begin, end) : Tensor(); }
};

// Parameters of a linear layer in the type of the activations, and the sinks of their gradients.
// The layer may have only some rows of the weight and the bias.
struct LayerSaved {
  Tensor weight;         // [out, in]
  Tensor bias;           // [out], accumulator type; undefined: none
  Tensor bias_as_dtype;  // [out], for products on a CUDA device
  GradSink dweight;
  std::shared_ptr<RowBias> row_bias;  // null: the bias needs no gradient
  RowRange rows;
  std::int64_t all_rows, out, in;

  LayerSaved(const Variable& w, const Variable& b, DType dtype)
      : LayerSaved(w, b, dtype, RowRange::all(w)) {}
  LayerSaved(const Variable& w, const Variable& b, DType dtype, RowRange range)
      : weight(range.of(w.value_as(dtype))),
        bias(range.of(b.value())),
        bias_as_dtype(b.defined() && b.device() != kCpu ? range.of(b.value_as(dtype)) : Tensor()),
        dweight(w.sink()),
        rows(range),
        all_rows(w.dim(0)),
        out(range.end - range.begin),
        in(w.dim(1)) {
    if (!b.requires_grad()) return;
    row_bias = std::make_shared<RowBias>(
        [dbias = b.sink(), range, all = all_rows, acc = accumulator_of(dtype), at = w.device()] {
          return range.of(dbias->buffer({all}, acc, at));
        });
  }

  // Marks y as the layer's output: the producer of its gradient may add the bias gradient, too.
  Variable output(Variable y) const {
    if (y.requires_grad()) y.sink()->set_row_bias(row_bias);
    return y;
  }

  // dW += dy^T x, db += column sums of dy, unless the sums have been added already.
  void backward_parameters(const Tensor& dy, const Tensor& x) const {
    const bool sums = row_bias && !row_bias->is_summed();
    if (!dweight && !sums) return;
    LinearBackwardWeight args{};
    args.dtype = dy.dtype();
    args.rows = dy.numel() / out;
    args.in = in;
    args.out = out;
    args.dy = dy.raw();
    args.x = x.raw();
    DType acc = accumulator_of(dy.dtype());
    if (dweight) args.dweight = rows.of(dweight->buffer({all_rows, in}, acc, dy.device())).raw();
    if (sums) args.dbias = row_bias->gradient().raw();
    run_on(dy.device(), args);
  }

  // dx = dy W
  LinearBackwardInput input_gradient(const Tensor& dy, Tensor& dx) const {
    LinearBackwardInput args{};
    args.dtype = dy.dtype();
    args.rows = dy.numel() / out;
    args.in = in;
    args.out = out;
    args.dy = dy.raw();
    args.weight = weight.raw();
    args.dx = dx.raw();
    return args;
  }
  Tensor backward_input(const Tensor& dy, const Shape& x_shape) const {
    Tensor dx = Tensor::empty(x_shape, dy.dtype(), dy.device());
    run_on(dy.device(), input_gradient(dy, dx));
    return dx;
  }
};

// Returns the shapes and pointers of every forward product. The caller adds the fused parts.
LinearForward forward_args(const Tensor& x, const LayerSaved& layer, Tensor& y) {
  const Tensor& weight = layer.weight;
  DTN_CHECK(x.dim(-1) == weight.dim(1), "linear: input ", to_string(x.shape()),
            " does not fit weight ", to_string(weight.shape()));
  LinearForward args{};
  args.dtype = x.dtype();
  args.rows = x.numel() / x.dim(-1);
  args.in = weight.dim(1);
  args.out = weight.dim(0);
  args.x = x.raw();
  args.weight = weight.raw();
  args.bias = layer.bias.raw();
  args.bias_as_dtype = layer.bias_as_dtype.raw();
  args.y = y.raw();
  return args;
}

void set_residual(LinearForward& args, const Tensor& residual, const Tensor& row_scale) {
  DTN_CHECK(residual.numel() == args.rows * args.out, "residual ", to_string(residual.shape()),
            " does not fit ", args.rows, " rows of ", args.out);
  args.residual = residual.raw();
  if (row_scale.defined()) {
    args.row_scale = row_scale.raw();
    args.rows_per_scale = args.rows / row_scale.numel();
  }
}

// Returns the gradient of the branch: dy scaled per sample, or dy itself without drop path.
Tensor branch_gradient(const Tensor& dy, const Tensor& row_scale) {
  return row_scale.defined() ? scale_rows(dy, row_scale) : dy;
}

// Returns true if the forward pass keeps the activation of an MLP for the backward pass. Computing
// the activation again is nearly free on the CPU, next to the matrix product. On a GPU it costs a
// pass over memory.
bool keeps_activation(const Tensor& h) {
  return h.device() == kCuda &&
         cuda::has_spare_memory(static_cast<std::size_t>(h.numel()) * size_of(h.dtype()));
}

// The hidden layer of an MLP in the backward pass: the gradient before the activation, and the
// activation. An activation that the forward pass has not kept is computed again, and overwrites z.
struct HiddenGradient {
  Tensor dz, h;
};
HiddenGradient hidden_gradient(const LayerSaved& layer1, const LayerSaved& layer2, const Tensor& dy,
                               const Tensor& z, const Tensor& kept, GeluForm form) {
  HiddenGradient hidden{Tensor::empty_like(z), kept.defined() ? kept : z};
  LinearBackwardInput args = layer2.input_gradient(dy, hidden.dz);
  args.preactivation = z.raw();
  args.gelu_tanh = form == GeluForm::kTanh;
  if (!kept.defined()) args.activation = hidden.h.raw();
  if (layer1.row_bias && dy.device() != kCpu) {  // the GPU kernel that writes dz also sums its rows
    args.dbias = layer1.row_bias->gradient().raw();
    layer1.row_bias->set_summed();
  }
  run_on(dy.device(), args);
  return hidden;
}

// Returns dy gelu'(z).
Tensor gelu_gradient(const Tensor& z, const Tensor& dy, GeluForm form) {
  Tensor dz = Tensor::empty_like(z);
  if (form == GeluForm::kTanh) {
    run_on(z.device(), ActivationBackward{z.dtype(), Activation::kGeluTanh, z.numel(), z.raw(),
                                          dy.raw(), dz.raw()});
  } else {
    run_on(z.device(), GeluBackward{z.dtype(), z.numel(), z.raw(), dy.raw(), dz.raw()});
  }
  return dz;
}

}  // namespace

Variable linear(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias) {
  return linear_rows(ctx, x, weight, bias, 0, weight.dim(0));
}

Variable linear_rows(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                     std::int64_t begin, std::int64_t end) {
  DTN_CHECK(0 <= begin && begin < end && end <= weight.dim(0), "linear: rows [", begin, ", ", end,
            ") are not in weight ", to_string(weight.shape()));
  LayerSaved layer(weight, bias, x.dtype(), {begin, end});
  Tensor y = Tensor::empty(with_last(x.shape(), layer.out), x.dtype(), x.device());
  run_on(x.device(), forward_args(x.value(), layer, y));
  return layer.output(ctx.record("linear", y, {&x, &weight, &bias},
                                 [layer, x = x.value(), dx = x.sink()](const Tensor& dy) {
                                   if (dx) dx->accumulate(layer.backward_input(dy, x.shape()));
                                   layer.backward_parameters(dy, x);
                                 }));
}

Variable linear_gelu(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                     GeluForm form) {
  LayerSaved layer(weight, bias, x.dtype());
  Tensor y = Tensor::empty(with_last(x.shape(), layer.out), x.dtype(), x.device());
  Tensor z = Tensor::empty_like(y);
  LinearForward args = forward_args(x.value(), layer, y);
  args.gelu = true;
  args.gelu_tanh = form == GeluForm::kTanh;
  args.preactivation = z.raw();
  run_on(x.device(), args);
  return ctx.record("linear_gelu", y, {&x, &weight, &bias},
                    [layer, z, form, x = x.value(), dx = x.sink()](const Tensor& dy) {
                      const Tensor dz = gelu_gradient(z, dy, form);
                      if (dx) dx->accumulate(layer.backward_input(dz, x.shape()));
                      layer.backward_parameters(dz, x);
                    });
}

Variable linear_residual(Context& ctx, const Variable& x, const Variable& weight,
                         const Variable& bias, const Variable& residual, const Tensor& row_scale) {
  LayerSaved layer(weight, bias, x.dtype());
  Tensor y = Tensor::empty(with_last(x.shape(), layer.out), x.dtype(), x.device());
  LinearForward args = forward_args(x.value(), layer, y);
  set_residual(args, residual.value(), row_scale);
  run_on(x.device(), args);
  return ctx.record("linear_residual", y, {&x, &weight, &bias, &residual},
                    [layer, row_scale, x = x.value(), dx = x.sink(),
                     dresidual = residual.sink()](const Tensor& dy) {
                      Tensor dbranch = branch_gradient(dy, row_scale);
                      if (dx) dx->accumulate(layer.backward_input(dbranch, x.shape()));
                      layer.backward_parameters(dbranch, x);
                      if (dresidual) dresidual->accumulate(dy);
                    });
}

Variable mlp_residual(Context& ctx, const Variable& x, const Variable& weight1,
                      const Variable& bias1, const Variable& weight2, const Variable& bias2,
                      const Variable& residual, const Tensor& row_scale, GeluForm form) {
  LayerSaved layer1(weight1, bias1, x.dtype()), layer2(weight2, bias2, x.dtype());
  Tensor z = Tensor::empty(with_last(x.shape(), layer1.out), x.dtype(),
                           x.device());  // before the activation
  Tensor y = Tensor::empty(with_last(x.shape(), layer2.out), x.dtype(), x.device());
  Tensor kept;  // after the activation
  {
    Tensor h = Tensor::empty_like(z);
    if (ctx.recording() && keeps_activation(h)) kept = h;
    LinearForward args = forward_args(x.value(), layer1, h);
    args.gelu = true;
    args.gelu_tanh = form == GeluForm::kTanh;
    args.preactivation = ctx.recording() ? z.raw() : nullptr;
    run_on(x.device(), args);
    args = forward_args(h, layer2, y);
    if (residual.defined()) set_residual(args, residual.value(), row_scale);
    run_on(x.device(), args);
  }
  Variable recorded =
      ctx.record("mlp_residual", y, {&x, &weight1, &bias1, &weight2, &bias2, &residual},
                 [layer1, layer2, row_scale, form, x = x.value(), z, kept, dx = x.sink(),
                  dresidual = residual.sink()](const Tensor& dy) {
                   Tensor dbranch = branch_gradient(dy, row_scale);
                   auto [dz, h] = hidden_gradient(layer1, layer2, dbranch, z, kept, form);
                   layer2.backward_parameters(dbranch, h);
                   layer1.backward_parameters(dz, x);
                   if (dx) dx->accumulate(layer1.backward_input(dz, x.shape()));
                   if (dresidual) dresidual->accumulate(dy);
                 });
  return residual.defined() ? recorded : layer2.output(std::move(recorded));
}

Variable gelu(Context& ctx, const Variable& x) {
  Tensor y = Tensor::empty_like(x.value());
  run_on(x.device(), GeluForward{x.dtype(), y.numel(), x.value().raw(), y.raw()});
  return ctx.record("gelu", y, {&x}, [x = x.value(), dx = x.sink()](const Tensor& dy) {
    Tensor grad = Tensor::empty_like(dy);
    run_on(x.device(), GeluBackward{x.dtype(), x.numel(), x.raw(), dy.raw(), grad.raw()});
    dx->accumulate(std::move(grad));
  });
}

namespace reference {
using namespace primitive;

Variable linear(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias) {
  Variable y = matmul(ctx, upcast(ctx, x), permute(ctx, weight, {1, 0}));
  if (bias.defined()) y = add(ctx, y, bias);
  return cast(ctx, y, x.dtype());
}

Variable linear_rows(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                     std::int64_t begin, std::int64_t end) {
  return linear(ctx, x, narrow(ctx, weight, 0, begin, end),
                bias.defined() ? narrow(ctx, bias, 0, begin, end) : Variable());
}

Variable gelu(Context& ctx, const Variable& x) {
  const Variable wide = upcast(ctx, x);
  Variable phi = affine(ctx, erf(ctx, affine(ctx, wide, std::sqrt(0.5))), 0.5, 0.5);
  return cast(ctx, mul(ctx, wide, phi), x.dtype());
}

Variable linear_gelu(Context& ctx, const Variable& x, const Variable& weight, const Variable& bias,
                     GeluForm form) {
  const Variable z = linear(ctx, x, weight, bias);
  return form == GeluForm::kTanh ? reference::gelu_tanh(ctx, z) : reference::gelu(ctx, z);
}

Variable linear_residual(Context& ctx, const Variable& x, const Variable& weight,
                         const Variable& bias, const Variable& residual, const Tensor& row_scale) {
  Variable branch = linear(ctx, x, weight, bias);
  if (row_scale.defined()) {
    branch = mul(ctx, branch, Variable(row_scale.reshape({row_scale.numel(), 1, 1})));
  }
  return cast(ctx, add(ctx, residual, branch), residual.dtype());
}

Variable mlp_residual(Context& ctx, const Variable& x, const Variable& weight1,
                      const Variable& bias1, const Variable& weight2, const Variable& bias2,
                      const Variable& residual, const Tensor& row_scale, GeluForm form) {
  return linear_residual(ctx, reference::linear_gelu(ctx, x, weight1, bias1, form), weight2, bias2,
                         residual, row_scale);
}

}  // namespace reference
}  // namespace dtn::ops
