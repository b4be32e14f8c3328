// Checks the diffusion loss against central differences in float64.
#include "diffusion_cases.h"
#include "dtn/ops/primitive.h"
#include "gradcheck/ops/op_gradients.h"

namespace dtn::test {
namespace {

constexpr DType kWide = DType::kFloat64;

TEST(DiffusionGradients, PredictedNoise) {
  for (const DiffusionCase& c : kDiffusionCases) {
    if (c.learned_variance) continue;
    const auto on = [&](const DiffusionOp& op) {
      return [=](Context& ctx, const Inputs& v) { return op(ctx, v[0], c.batch(kWide, kCpu)); };
    };
    check_both(c.name(), on(fused_diffusion_loss), on(ops::reference::diffusion_loss),
               {c.output().value});
  }
}

// The noise is not an input here, because the bound has no gradient to it.
TEST(DiffusionGradients, Variance) {
  for (const DiffusionCase& c : kDiffusionCases) {
    if (!c.learned_variance) continue;
    Context none;
    const Variable output(c.output().value);
    const Variable noise = primitive::narrow(none, output, 1, 0, c.channels);
    const Variable v = primitive::narrow(none, output, 1, c.channels, 2 * c.channels);
    for (const DiffusionOp& op :
         {DiffusionOp(fused_diffusion_loss), DiffusionOp(ops::reference::diffusion_loss)}) {
      check(c.name(),
            [&](Context& ctx, const Inputs& in) {
              return op(ctx, primitive::concat(ctx, noise, in[0], 1), c.batch(kWide, kCpu));
            },
            {v.value()});
    }
  }
}

}  // namespace
}  // namespace dtn::test
