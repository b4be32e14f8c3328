// Compares the self-distillation loss and its reference in float32 and bfloat16, forward and
// backward, with the reference in float64.
#include "self_distillation_cases.h"

namespace dtn::test {
namespace {

constexpr SelfDistillationOp kFused = ops::self_distillation;
constexpr SelfDistillationOp kReference = ops::reference::self_distillation;

// The softmax turns a rounding error of its argument into a relative error. The arguments here are
// below 2 / 0.3.
double float32_bound(const SelfDistillationCase& c) {
  return 2 * float32_tolerance(c.outputs + 2 * c.samples);
}

TEST(SelfDistillationParity, LossAndGradients) {
  for (const SelfDistillationCase& c : kSelfDistillationCases) {
    const auto want = run_op(self_distillation_op(kReference, c), c.inputs(), DType::kFloat64);
    for (SelfDistillationOp op : {kFused, kReference}) {
      const std::string name = c.name() + (op == kFused ? "" : ", reference");
      expect_close(run_op(self_distillation_op(op, c), c.inputs(), DType::kFloat32), want,
                   float32_bound(c), name);
      // Only the gradient of the logits is stored in bfloat16.
      expect_close(run_op(self_distillation_op(op, c), c.inputs(), DType::kBFloat16), want,
                   bfloat16_tolerance(1), name + ", bfloat16");
    }
  }
}

TEST(SelfDistillationParity, FiguresAndNextCenter) {
  for (const SelfDistillationCase& c : kSelfDistillationCases) {
    const auto want = self_distillation_figures(kReference, c, DType::kFloat64);
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      for (SelfDistillationOp op : {kFused, kReference}) {
        const auto got = self_distillation_figures(op, c, dtype);
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_LE(max_abs_difference(got[i], want[i]), float32_bound(c) * max_abs(want[i]))
              << c.name() << " " << name_of(dtype) << " figure " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
