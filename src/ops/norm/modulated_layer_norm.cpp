// LayerNorm with a gain and a shift for each sample, alone or after a gated residual sum.
#include <memory>

#include "dtn/ops/modulation.h"
#include "dtn/ops/primitive.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/pointwise/modulate.h"
#include "ops/norm/norm_gradients.h"
#include "ops/pointwise/modulation_parts.h"

namespace dtn::ops {
namespace {

// Gradients of a gated branch: the backward pass of the norm, which is the last to add to the
// gradient of the sum, may leave them here for the node of the sum.
struct GateGradients {
  Tensor dbranch, dgate;
};

// The sum residual + gate_b branch, which the kernel of the norm computes. It has a separate node
// on the tape.
struct GatedSum {
  Tensor residual, gate, branch;
  GradSink to_gate, to_branch;
  std::shared_ptr<GateGradients> made = std::make_shared<GateGradients>();
  Variable sum;  // not yet written

  GatedSum(Context& ctx, const Variable& of_residual, const Variable& of_gate,
           const Variable& of_branch)
      : residual(of_residual.value()),
        gate(of_gate.value()),
        branch(of_branch.value()),
        to_gate(of_gate.sink()),
        to_branch(of_branch.sink()) {
    sum = ctx.record("gated_add", Tensor::empty_like(branch), {&of_residual, &of_gate, &of_branch},
                     [gate = gate, branch = branch, to_residual = of_residual.sink(),
                      to_gate = to_gate, to_branch = to_branch, made = made](const Tensor& dsum) {
                       if (!made->dbranch.defined()) {
                         *made = gradients(gate, branch, to_gate, to_branch, dsum);
                       }
                       deliver(to_branch, std::move(made->dbranch));
                       deliver(to_gate, std::move(made->dgate));
                       deliver(to_residual, dsum);
                       *made = {};
                     });
  }

  static GateGradients gradients(const Tensor& gate, const Tensor& branch, const GradSink& to_gate,
                                 const GradSink& to_branch, const Tensor& dsum) {
    GateGradients made{empty_if(to_branch, branch.shape(), branch.dtype(), branch.device()),
                       empty_if(to_gate, gate.shape(), gate.dtype(), gate.device())};
    run_on(dsum.device(), GateBackward{branch.dtype(), branch.dim(0), branch.dim(1), branch.dim(2),
                                       branch.raw(), gate.raw(), dsum.raw(),
                                       raw_or_null(made.dbranch), raw_or_null(made.dgate)});
    return made;
  }

  void fill(LayerNormForward& args) const {
    Tensor value = sum.value();
    args.residual = residual.raw();
    args.branch = branch.raw();
    args.gate = gate.raw();
    args.sum = value.raw();
  }
};

// Inputs of both passes of the norm.
struct ModulatedNorm {
  Tensor x, modulation, mean, rstd;
  ParameterSets sets;
  double eps;
  GradSink to_x, to_modulation;
  // Unset, or undefined: no gated branch needs gradients from the pass.
  Tensor gate{}, branch{};
  std::shared_ptr<GateGradients> made{};

  ModulatedNorm(const char* op, const Variable& input, const Variable& parts, double of_eps,
                GainForm form)
      : x(input.value()),
        modulation(parts.value()),
        eps(of_eps),
        to_x(input.sink()),
        to_modulation(parts.sink()) {
    DTN_CHECK(x.rank() == 3, op, ": input ", to_string(x.shape()), " is not [B, T, C]");
    const DType acc = accumulator_of(x.dtype());
    check_like(op, "modulation", parts, {x.dim(0), 2 * channels()}, acc);
    sets = {x.dim(1), 2 * channels(), form == GainForm::kScales};
    mean = Tensor::empty({rows()}, acc, x.device());
    rstd = Tensor::empty_like(mean);
  }

  std::int64_t channels() const { return x.dim(2); }
  std::int64_t rows() const { return x.dim(0) * x.dim(1); }

  Tensor forward(const GatedSum* sum) {
    Tensor y = Tensor::empty_like(x);
    LayerNormForward args{};
    args.dtype = x.dtype();
    args.rows = rows();
    args.channels = channels();
    args.eps = eps;
    args.x = x.raw();
    args.weight = at(std::as_const(modulation), channels());
    args.bias = modulation.raw();
    args.y = y.raw();
    args.mean = mean.raw();
    args.rstd = rstd.raw();
    args.sets = sets;
    if (sum) {
      sum->fill(args);
      if (sum->to_gate && sum->to_branch) {
        gate = sum->gate;
        branch = sum->branch;
        made = sum->made;
      }
    }
    run_on(x.device(), args);
    return y;
  }

  void backward(const Tensor& dy) const {
    Tensor dmodulation;
    if (to_modulation) {
      dmodulation = Tensor::zeros(modulation.shape(), modulation.dtype(), x.device());
    }
    NormInputGradient input(to_x, x);
    LayerNormBackward back{};
    back.dtype = x.dtype();
    back.rows = rows();
    back.channels = channels();
    back.x = x.raw();
    back.weight = at(modulation, channels());
    back.mean = mean.raw();
    back.rstd = rstd.raw();
    back.dy = dy.raw();
    back.dx_add = input.waiting();
    back.dx = input.destination();
    back.dweight = to_modulation ? at(dmodulation, channels()) : nullptr;
    back.dbias = raw_or_null(dmodulation);
    back.sets = sets;
    if (made && back.dx) {
      *made = {Tensor::empty_like(branch), Tensor::empty_like(gate)};
      back.branch = branch.raw();
      back.gate = gate.raw();
      back.dbranch = made->dbranch.raw();
      back.dgate = made->dgate.raw();
    }
    run_on(x.device(), back);
    input.deliver();
    deliver(to_modulation, std::move(dmodulation));
  }
};

Variable norm_of(Context& ctx, const char* op, const Variable& x, const Variable& modulation,
                 double eps, GainForm form, const GatedSum* sum) {
  ModulatedNorm norm(op, x, modulation, eps, form);
  const Tensor y = norm.forward(sum);
  return ctx.record(op, y, {&x, &modulation}, [norm](const Tensor& dy) { norm.backward(dy); });
}

}  // namespace

Variable modulated_layer_norm(Context& ctx, const Variable& x, const Variable& modulation,
                              double eps, GainForm form) {
  return norm_of(ctx, "modulated_layer_norm", x, modulation, eps, form, nullptr);
}

SumAndNorm gated_modulated_layer_norm(Context& ctx, const Variable& residual, const Variable& gate,
                                      const Variable& branch, const Variable& modulation,
                                      double eps, GainForm form) {
  constexpr const char* kOp = "gated_modulated_layer_norm";
  DTN_CHECK(branch.value().rank() == 3, kOp, ": branch ", to_string(branch.shape()),
            " is not [B, T, C]");
  check_like(kOp, "residual", residual, branch.shape(), branch.dtype());
  check_like(kOp, "gate", gate, {branch.dim(0), branch.dim(2)}, accumulator_of(branch.dtype()));
  const GatedSum fused(ctx, residual, gate, branch);
  return {fused.sum, norm_of(ctx, kOp, fused.sum, modulation, eps, form, &fused)};
}

namespace reference {
using namespace primitive;

Variable modulated_layer_norm(Context& ctx, const Variable& x, const Variable& modulation,
                              double eps, GainForm form) {
  const std::int64_t batch = x.dim(0), channels = x.dim(2);
  Variable parts = reshape(ctx, modulation, {batch, 1, 2 * channels});
  Variable shift = narrow(ctx, parts, 2, 0, channels);
  Variable gain = narrow(ctx, parts, 2, channels, 2 * channels);
  if (form == GainForm::kScales) gain = affine(ctx, gain, 1, 1);
  Variable normal = standardize_tokens(ctx, upcast(ctx, x), eps).y;
  return cast(ctx, add(ctx, mul(ctx, normal, gain), shift), x.dtype());
}

SumAndNorm gated_modulated_layer_norm(Context& ctx, const Variable& residual, const Variable& gate,
                                      const Variable& branch, const Variable& modulation,
                                      double eps, GainForm form) {
  const Variable sum = gated_add(ctx, residual, gate, branch);
  return {sum, reference::modulated_layer_norm(ctx, sum, modulation, eps, form)};
}

}  // namespace reference
}  // namespace dtn::ops
