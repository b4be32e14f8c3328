#include "kernels/optimizer/muon.h"

#include "kernels/cpu/isa.h"
#include "kernels/optimizer/optimizer_factors.h"
#include "kernels/optimizer/update_vectors.h"

namespace dtn::DTN_ISA {

void run(CpuQueue&, const MuonMomentum& args) {
  const MuonMomentumFactors f = factors_of(args);
  if (!f.apply) return;
  // By reference: with a copy, the compiler makes a loop for each value of `nesterov`, where it
  // fuses other multiplications and additions.
  for_all_vectors(args.count, [=, &args](std::int64_t i, auto count) {
    const VecF g = f.rest * (load_n(args.grad + i, count) * f.grad_scale);
    const VecF m = load_n(args.m + i, count) * f.keep + g;
    store_n(args.m + i, m, count);
    store_n(args.update + i, args.nesterov ? m * f.keep + g : m, count);
  });
}

void run(CpuQueue&, const DivideByNorm& args) {
  const float factor = factors_of(args);
  for_all_vectors(args.count, [=](std::int64_t i, auto count) {
    store_n(args.x + i, load_n(args.x + i, count) * factor, count);
  });
}

void run(CpuQueue&, const AddDiagonal& args) {
  const auto scale = static_cast<float>(args.scale), diagonal = static_cast<float>(args.diagonal);
  parallel_for(args.size, [=, &args](std::int64_t row) {
    const float* x = args.x + row * args.size;
    float* y = args.y + row * args.size;
    for_each_vector<float>(args.size, [=](std::int64_t i, auto count) {
      store_n(y + i, load_n(x + i, count) * scale, count);
    });
    y[row] += diagonal;
  });
}

void run(CpuQueue&, const MuonStep& args) {
  const MuonStepFactors f = factors_of(args);
  if (!f.apply) return;
  for_all_vectors(args.count, [=](std::int64_t i, auto count) {
    const VecF p =
        load_n(args.param + i, count) * f.decay + f.step * load_n(args.update + i, count);
    store_params(args, i, p, count);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(MuonMomentum)
DTN_DISPATCH(DivideByNorm)
DTN_DISPATCH(AddDiagonal)
DTN_DISPATCH(MuonStep)
