#include "dtn/ops/self_distillation.h"

#include <optional>

#include "dtn/core/check.h"
#include "self_distillation_cases.h"

namespace dtn::test {
namespace {

constexpr double kTeacherTemp = 0.05;

// Leaves and options of a small loss.
struct SmallLoss {
  SelfDistillationCase sizes{2, 1, 7, 5};
  Variable logits = leaf(0), direction = leaf(1), gain = leaf(2);
  ops::SelfDistillation how = sizes.options(DType::kFloat32, kCpu);

  SmallLoss() { how.teacher_temp = &kTeacherTemp; }
  Variable leaf(std::size_t input) const {
    return Variable(as(sizes.inputs()[input].value, DType::kFloat32).clone(), true);
  }
  ops::SelfDistillationLoss run(Context& ctx) const {
    return ops::self_distillation(ctx, logits, direction, gain, how);
  }
  void run_backward() const {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable loss = run(ctx).loss;
    tape.backward(loss);
  }
};

TEST(SelfDistillation, InvalidInputIsError) {
  const auto expect_error = [](auto&& change) {
    SmallLoss s;
    change(s);
    Context ctx;
    EXPECT_THROW(s.run(ctx), Error);
  };
  Context ctx;
  EXPECT_NO_THROW(SmallLoss().run(ctx));
  expect_error([](SmallLoss& s) { s.how.local_views = 2; });
  expect_error([](SmallLoss& s) { s.how.local_views = -1; });
  expect_error([](SmallLoss& s) { s.how.student_temp = 0; });
  expect_error([](SmallLoss& s) { s.how.teacher_temp = nullptr; });
  expect_error([](SmallLoss& s) { s.how.teacher = s.how.teacher.slice(0, 3); });
  expect_error([](SmallLoss& s) { s.how.teacher = as(s.how.teacher, DType::kBFloat16); });
  expect_error([](SmallLoss& s) { s.how.teacher_scale = Tensor(); });
  expect_error([](SmallLoss& s) { s.how.center = s.how.center.reshape({7}).slice(0, 6); });
  expect_error([](SmallLoss& s) { s.how.next_center = s.how.center; });
  expect_error([](SmallLoss& s) { s.gain = Variable(s.gain.value().slice(0, 6)); });
}

TEST(SelfDistillation, GradientReusesMemoryOfLogitsThatNothingElseHolds) {
  SmallLoss s;
  const Tensor before = s.logits.value().clone();
  s.run_backward();
  EXPECT_TRUE(same_bits(s.logits.value(), before));
  const Tensor want = s.logits.grad();

  std::optional<Variable> logits = s.leaf(0);
  s.logits = Variable();
  const GradSink sink = logits->sink();
  const void* memory = logits->value().raw();
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable loss = ops::self_distillation(ctx, *logits, s.direction, s.gain, s.how).loss;
  logits.reset();
  tape.backward(loss);
  EXPECT_EQ(sink->get().raw(), memory);
  EXPECT_TRUE(same_bits(sink->get(), want));
}

TEST(SelfDistillation, NothingIsKeptWithoutTape) {
  SmallLoss s;
  Context ctx;
  const ops::SelfDistillationLoss r = s.run(ctx);
  EXPECT_FALSE(r.loss.requires_grad());
  EXPECT_TRUE(s.logits.value().unique() && s.direction.value().unique());
}

TEST(SelfDistillation, FrozenParametersGetNoGradient) {
  SmallLoss all, fixed_gain, fixed;
  fixed_gain.gain = Variable(fixed_gain.gain.value());
  fixed.gain = fixed_gain.gain;
  fixed.direction = Variable(fixed.direction.value());
  for (const SmallLoss* s : {&all, &fixed_gain, &fixed}) s->run_backward();
  EXPECT_TRUE(all.gain.grad().defined());
  EXPECT_TRUE(same_bits(fixed_gain.direction.grad(), all.direction.grad()));
  EXPECT_TRUE(same_bits(fixed_gain.logits.grad(), all.logits.grad()));
  EXPECT_TRUE(same_bits(fixed.logits.grad(), all.logits.grad()));
}

// Parts of a batch move the next centre as the whole batch does.
TEST(SelfDistillation, PartsOfBatchShareNextCenter) {
  SmallLoss s;
  s.how.center_share = 0.2;
  s.how.next_center = s.how.center.clone();
  Context ctx;
  s.run(ctx);
  const Doubles want = doubles(s.how.next_center);

  s.how.next_center = s.how.center.clone();
  s.how.center_share = 0.1;
  const Tensor teacher = s.how.teacher;
  s.logits = Variable(s.logits.value().slice(0, 3));
  for (std::int64_t i = 0; i < 2; ++i) {
    s.how.teacher = teacher.slice(2 * i, 2 * i + 2);
    s.run(ctx);
  }
  EXPECT_LE(max_abs_difference(doubles(s.how.next_center), want), 1e-6);
  EXPECT_GT(max_abs_difference(doubles(s.how.center), want), 1e-3);
}

TEST(SelfDistillation, WeightNormScaleOfOnesIsInverseLength) {
  Context ctx;
  const Tensor direction = Tensor::full({3, 4}, DType::kFloat32, 2);
  const Tensor gain = from_doubles({1, -2, 0}, {3, 1}, DType::kFloat32);
  EXPECT_EQ(doubles(ops::weight_norm_scale(ctx, direction, gain)), (Doubles{0.25, -0.5, 0}));
  EXPECT_THROW(ops::weight_norm_scale(ctx, direction, direction), Error);
}

}  // namespace
}  // namespace dtn::test
