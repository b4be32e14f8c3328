// Runs the self-distillation loss and its reference on the device.
#include "cuda/twin.h"
#include "self_distillation_cases.h"

namespace dtn::test {
namespace {

// Returns the loss, then the gradients of logits, direction and gain.
std::vector<Doubles> run_self_distillation(SelfDistillationOp op, const SelfDistillationCase& c,
                                           DType dtype) {
  std::vector<Variable> leaves;
  for (const Input& input : c.inputs()) {
    const DType type = input.parameter ? accumulator_of(dtype) : dtype;
    leaves.emplace_back(as(input.value, type).to(kCuda), true);
  }
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Op loss_of = self_distillation_op(op, c, kCuda);
  const Variable loss = loss_of(ctx, leaves);
  std::vector<Doubles> results = {doubles(loss.value().to(kCpu))};
  tape.backward(loss, as(representable(random_tensor({1}, 99)), loss.dtype()).to(kCuda));
  for (const Variable& leaf : leaves) results.push_back(doubles(leaf.grad().to(kCpu)));
  return results;
}

TEST(CudaSelfDistillation, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const SelfDistillationCase& c : kSelfDistillationCases) {
    const SelfDistillationOp reference = ops::reference::self_distillation;
    const auto want = run_op(self_distillation_op(reference, c), c.inputs(), DType::kFloat64);
    const auto figures = self_distillation_figures(reference, c, DType::kFloat64);
    const double bound = 2 * float32_tolerance(c.outputs + 2 * c.samples);
    for (SelfDistillationOp op : {ops::self_distillation, reference}) {
      for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const std::string name = cat(c.name(), op == reference ? ", reference" : "");
        // Only the gradient of the logits is stored in bfloat16.
        expect_close(run_self_distillation(op, c, dtype), want,
                     dtype == DType::kBFloat16 ? bfloat16_tolerance(1) : bound, name);
        const auto got = self_distillation_figures(op, c, dtype, kCuda);
        for (std::size_t i = 0; i < figures.size(); ++i) {
          EXPECT_LE(max_abs_difference(got[i], figures[i]), bound * max_abs(figures[i]))
              << name << " figure " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
