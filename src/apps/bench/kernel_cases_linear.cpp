// Matrix products of a block's linear layers, with the operations that are fused with them.
#include "apps/bench/kernel_case_list.h"
#include "kernels/gemm/linear.h"
#include "kernels/pointwise/gelu_backward.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn {
namespace {

// A linear layer y = x W^T + b, [rows, in] to [rows, out].
struct Layer {
  std::string name;
  std::int64_t rows, in, out;
  bool bias = true;
  bool residual = false;  // the product adds a residual, if the device supports it
  bool gelu = false;      // GELU after the layer, or before its input
};

LinearForward forward_of(KernelTensors& m, const StepShape& s, const Layer& l) {
  const Shape y = {l.rows, l.out};
  LinearForward args{.dtype = s.t,
                     .rows = l.rows,
                     .in = l.in,
                     .out = l.out,
                     .x = m.in({l.rows, l.in}, s.t),
                     .weight = m.in({l.out, l.in}, s.t),
                     .y = m.out(y, s.t)};
  if (l.bias) {
    args.bias = m.in({l.out}, s.acc);
    if (s.device != kCpu) args.bias_as_dtype = m.in({l.out}, s.t);
  }
  args.gelu = l.gelu;
  if (l.gelu) args.preactivation = m.out(y, s.t);
  if (l.residual) {
    args.residual = m.in(y, s.t);
    if (s.drops) args.row_scale = m.positive({s.B}, s.acc);
    args.rows_per_scale = l.rows / s.B;
  }
  return args;
}

LinearBackwardInput input_gradient_of(KernelTensors& m, const StepShape& s, const Layer& l) {
  LinearBackwardInput args{s.t,
                           l.rows,
                           l.in,
                           l.out,
                           m.in({l.rows, l.out}, s.t),
                           m.in({l.out, l.in}, s.t),
                           m.out({l.rows, l.in}, s.t)};
  if (l.gelu) {
    args.preactivation = m.in({l.rows, l.in}, s.t);
    if (s.device == kCpu) {
      // A model overwrites the preactivation with the activation. Repeated runs need the
      // preactivation, so the activation goes to another tensor.
      args.activation = m.out({l.rows, l.in}, s.t);
    } else {
      args.dbias = m.in_out({l.in}, s.acc);  // no activation here: it has been kept
    }
  }
  return args;
}

// Without the bias gradient, for which a device has a separate kernel.
LinearBackwardWeight weight_gradient_of(KernelTensors& m, const StepShape& s, const Layer& l) {
  return {s.t,
          l.rows,
          l.in,
          l.out,
          m.in({l.rows, l.out}, s.t),
          m.in({l.rows, l.in}, s.t),
          m.in_out({l.out, l.in}, s.acc),
          nullptr};
}

void add_products(CaseList& cases, const StepShape& s) {
  const ModelConfig& c = s.config.model;
  const std::int64_t rows = s.B * s.T;
  const auto add = [&](const Layer& l, const char* pass, const auto& arguments) {
    cases.add(l.name + pass, {l.rows, l.out, l.in},
              [=](KernelTensors& m) { return arguments(m, s, l); });
  };
  const std::int64_t patch = std::int64_t{c.channels} * c.patch_size * c.patch_size;
  const Layer embed{"patch_embed", s.B * c.num_patches(), patch, s.C, c.has_patch_bias()};
  add(embed, "_fwd", forward_of);
  add(embed, "_dw", weight_gradient_of);
  for (const Layer& l :
       {Layer{"qkv", rows, s.C, 3 * s.C, c.qkv_bias},
        Layer{"proj", rows, s.C, s.C, true, s.fused_residual}, Layer{"fc1", rows, s.C, s.hidden},
        Layer{"fc2", rows, s.hidden, s.C, true, s.fused_residual}}) {
    add(l, "_fwd", forward_of);
    add(l, "_dx", input_gradient_of);
    add(l, "_dw", weight_gradient_of);
  }
  // As a model calls them, including the kernel that a device runs after the product.
  add({"fc1_gelu", rows, s.C, s.hidden, true, false, true}, "_fwd", forward_of);
  add({"fc2_gelu", rows, s.hidden, s.C, true, false, true}, "_dx", input_gradient_of);
}

// Adds the kernels around the products as separate cases.
void add_parts_of_products(CaseList& cases, const StepShape& s) {
  const std::int64_t rows = s.B * s.T;
  const Shape z = {rows, s.hidden};
  cases.add("gelu_fwd", {rows, s.hidden}, [=](KernelTensors& m) {
    return GeluForward{s.t, z.numel(), m.in(z, s.t), m.out(z, s.t)};
  });
  if (s.device == kCpu) {
    cases.add("gelu_bwd", {rows, s.hidden}, [=](KernelTensors& m) {
      return GeluBackward{s.t, z.numel(), m.in(z, s.t), m.in(z, s.t), m.out(z, s.t)};
    });
  } else {
    cases.add("gelu_bwd", {rows, s.hidden}, [=](KernelTensors& m) {
      return MlpGeluBackward{.dtype = s.t,
                             .rows = rows,
                             .columns = s.hidden,
                             .z = m.in(z, s.t),
                             .dh = m.in(z, s.t),
                             .dz = m.out(z, s.t),
                             .dbias = m.in_out({s.hidden}, s.acc)};
    });
  }
  cases.add("bias_sums", {rows, s.C}, [=](KernelTensors& m) {
    return SumRows{s.t, rows, s.C, m.in({rows, s.C}, s.t), m.in_out({s.C}, s.acc)};
  });
}

}  // namespace

void add_linear_cases(CaseList& cases, const StepShape& s) {
  add_products(cases, s);
  add_parts_of_products(cases, s);
}

}  // namespace dtn
