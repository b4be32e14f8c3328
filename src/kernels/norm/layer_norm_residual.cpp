// The residual sum and the norm after it. The CPU runs the two kernels one after the other and
// reads the sum again from memory. See layer_norm.h for the contract.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/pointwise/pointwise.h"

namespace dtn::DTN_ISA {

void run(CpuQueue&, const Add&);
void run(CpuQueue&, const ScaleRows&);
void run(CpuQueue&, const LayerNormForward&);

void run(CpuQueue& queue, const ResidualLayerNormForward& args) {
  const std::int64_t count = args.rows * args.channels;
  if (args.row_scale) {
    ScaleRows scale{};
    scale.dtype = args.dtype;
    scale.count = count;
    scale.per_scale = args.rows_per_scale * args.channels;
    scale.scale = args.row_scale;
    scale.x = args.branch;
    scale.residual = args.residual;
    scale.y = args.sum;
    DTN_ISA::run(queue, scale);
  } else {
    DTN_ISA::run(queue, Add{args.dtype, count, args.residual, args.branch, args.sum});
  }
  DTN_ISA::run(queue, LayerNormForward{args.dtype, args.rows, args.channels, args.eps, args.sum,
                                       args.weight, args.bias, args.y, args.mean, args.rstd});
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(ResidualLayerNormForward)
