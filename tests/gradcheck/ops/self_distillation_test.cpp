// Checks the self-distillation loss against central differences in float64.
#include "dtn/ops/linear.h"
#include "dtn/ops/primitive.h"
#include "gradcheck/ops/op_gradients.h"
#include "self_distillation_cases.h"

namespace dtn::test {
namespace {

constexpr double kTeacherTemp = 0.3;

// The loss of some logits of case `c`.
Variable loss_of(SelfDistillationOp op, const SelfDistillationCase& c, Context& ctx,
                 const Variable& logits, const Variable& direction, const Variable& gain) {
  ops::SelfDistillation how = c.options(DType::kFloat64, kCpu);
  how.teacher_temp = &kTeacherTemp;
  return op(ctx, logits, direction, gain, how).loss;
}

std::vector<Tensor> values_of(const std::vector<Input>& inputs) {
  std::vector<Tensor> values;
  for (const Input& input : inputs) values.push_back(input.value);
  return values;
}

TEST(SelfDistillationGradients, TrainedGain) {
  for (const SelfDistillationCase& c : kSelfDistillationCases) {
    const auto on = [&](SelfDistillationOp op) {
      return [=](Context& ctx, const Inputs& v) { return loss_of(op, c, ctx, v[0], v[1], v[2]); };
    };
    check_both(c.name(), on(ops::self_distillation), on(ops::reference::self_distillation),
               values_of(c.inputs()));
  }
}

TEST(SelfDistillationGradients, FrozenGain) {
  for (const SelfDistillationCase& c : kSelfDistillationCases) {
    std::vector<Tensor> inputs = values_of(c.inputs());
    const Variable gain(inputs[2]);
    inputs.pop_back();
    const auto on = [&](SelfDistillationOp op) {
      return [=](Context& ctx, const Inputs& v) { return loss_of(op, c, ctx, v[0], v[1], gain); };
    };
    check_both(c.name(), on(ops::self_distillation), on(ops::reference::self_distillation), inputs);
  }
}

// The direction gets gradients from the product and from its length.
TEST(SelfDistillationGradients, LastLayer) {
  for (const SelfDistillationCase& c : kSelfDistillationCases) {
    std::vector<Tensor> inputs = values_of(c.inputs());
    inputs[0] = random_tensor({(2 + c.local_views) * c.samples, c.width}, 7);
    for (SelfDistillationOp op : {ops::self_distillation, ops::reference::self_distillation}) {
      check(
          c.name(),
          [&](Context& ctx, const Inputs& v) {
            return loss_of(op, c, ctx, ops::linear(ctx, v[0], v[1], {}), v[1], v[2]);
          },
          inputs);
    }
  }
}

}  // namespace
}  // namespace dtn::test
