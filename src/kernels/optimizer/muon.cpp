#include "kernels/optimizer/muon.h"

#include "dtn/core/parallel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "kernels/optimizer/muon_factors.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kChunk = 1 << 16;  // elements; does not affect results

// Calls f(i, count) for the vectors of all elements, in parallel.
template <class F>
void for_all_vectors(std::int64_t count, F&& f) {
  parallel_ranges(count, kChunk, [&](std::int64_t begin, std::int64_t end) {
    for_each_vector<float>(end - begin, [&](std::int64_t i, auto lanes) { f(begin + i, lanes); });
  });
}

}  // namespace

void run(CpuQueue&, const MuonMomentum& args) {
  const MuonMomentumFactors f = momentum_factors(args);
  if (!f.apply) return;
  for_all_vectors(args.count, [=, &args](std::int64_t i, auto count) {
    const VecF g = f.rest * (load_n(args.grad + i, count) * f.grad_scale);
    const VecF m = load_n(args.m + i, count) * f.keep + g;
    store_n(args.m + i, m, count);
    store_n(args.update + i, args.nesterov ? m * f.keep + g : m, count);
  });
}

void run(CpuQueue&, const DivideByNorm& args) {
  const float factor = norm_factor(args);
  for_all_vectors(args.count, [=, &args](std::int64_t i, auto count) {
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
  const MuonStepFactors f = muon_factors(args);
  if (!f.apply) return;
  for_all_vectors(args.count, [=, &args](std::int64_t i, auto count) {
    const VecF p =
        load_n(args.param + i, count) * f.decay + f.step * load_n(args.update + i, count);
    store_n(args.param + i, p, count);
    if (args.param_bf16) store_n(args.param_bf16 + i, p, count);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(MuonMomentum)
DTN_DISPATCH(DivideByNorm)
DTN_DISPATCH(AddDiagonal)
DTN_DISPATCH(MuonStep)
