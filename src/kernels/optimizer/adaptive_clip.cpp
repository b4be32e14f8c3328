#include "kernels/optimizer/adaptive_clip.h"

#include "dtn/core/parallel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/square_sum.h"
#include "kernels/optimizer/optimizer_factors.h"

namespace dtn::DTN_ISA {
namespace {

constexpr std::int64_t kUnitsPerTask = 16;

void clip_unit(const AdaptiveClip& args, GradientUnit unit) {
  const std::int64_t count = unit.end - unit.begin;
  float* grad = args.grad + unit.begin;
  const float* param = args.param + unit.begin;
  SquareSum weights, gradients;
  for_each_vector<float>(count, [&](std::int64_t i, auto lanes) {
    weights.add(load_n(param + i, lanes));
    gradients.add(load_n(grad + i, lanes));
  });
  const float factor = adaptive_factor(args, weights.total(), gradients.total());
  if (factor == 1) return;
  for_each_vector<float>(count, [=](std::int64_t i, auto lanes) {
    store_n(grad + i, load_n(grad + i, lanes) * factor, lanes);
  });
}

}  // namespace

void run(CpuQueue&, const AdaptiveClip& args) {
  parallel_ranges(args.unit_count, kUnitsPerTask, [&](std::int64_t unit, std::int64_t end) {
    for (; unit < end; ++unit) clip_unit(args, args.units[unit]);
  });
}

}  // namespace dtn::DTN_ISA

DTN_DISPATCH(AdaptiveClip)
