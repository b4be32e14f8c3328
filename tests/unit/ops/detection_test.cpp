#include "dtn/ops/detection.h"

#include <optional>

#include "detection_cases.h"
#include "dtn/core/check.h"

namespace dtn::test {
namespace {

Variable leaf(const Input& input, DType dtype) {
  return Variable(as(input.value, dtype).clone(), true);
}

// Compares a fused operation with its reference in float64.
void check(const std::string& name, const Op& fused, const Op& reference,
           const std::vector<Input>& inputs, std::int64_t terms) {
  const auto want = run_op(reference, inputs, DType::kFloat64);
  expect_close(run_op(fused, inputs, DType::kFloat64), want, 1e-12, name);
  expect_close(run_op(fused, inputs, DType::kFloat32), want, 2 * float32_tolerance(terms), name);
  expect_close(run_op(fused, inputs, DType::kBFloat16), want, bfloat16_tolerance(1), name);
}

TEST(Detection, RoiAlignMatchesReference) {
  for (const RoiOpCase& c : kRoiCases) {
    check(c.name(), roi_op(ops::roi_align, c), roi_op(ops::reference::roi_align, c), c.inputs(),
          50);
  }
}

TEST(Detection, FocalLossMatchesReference) {
  for (const AnchorCase& c : kAnchorCases) {
    for (const ops::FocalOptions& options : {ops::FocalOptions{}, ops::FocalOptions{0.5, 1.5}}) {
      check(c.name(), anchor_op(focal_op(ops::focal_loss, options), c),
            anchor_op(focal_op(ops::reference::focal_loss, options), c), {c.logits()},
            c.batch * c.anchors * c.classes);
    }
  }
}

TEST(Detection, BoxLossMatchesReference) {
  for (const AnchorCase& c : kAnchorCases) {
    check(c.name(), anchor_op(ops::box_loss, c), anchor_op(ops::reference::box_loss, c),
          {c.deltas()}, c.batch * c.anchors * 4);
  }
}

TEST(Detection, SameBitsForAnyNumberOfThreads) {
  const RoiOpCase& roi = kRoiCases[1];
  std::optional<std::vector<Doubles>> first;
  for (int threads : kThreadCounts) {
    Threads scope(threads);
    const auto got = run_op(roi_op(ops::roi_align, roi), roi.inputs(), DType::kFloat32);
    if (!first) first = got;
    EXPECT_EQ(got, *first) << threads;
  }
}

// Frozen levels get no gradient.
TEST(Detection, RoiAlignOfConstantLevels) {
  const RoiOpCase& c = kRoiCases[0];
  const std::vector<Input> inputs = c.inputs();
  const std::vector<Variable> features = {
      Variable(inputs[0].value), leaf(inputs[1], DType::kFloat64), Variable(inputs[2].value)};
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable y =
      ops::roi_align(ctx, RoiOpCase::levels(features), RoiOpCase::rois(kCpu), c.size);
  EXPECT_EQ(y.shape(), (Shape{7, c.size * c.size, c.channels}));
  const Tensor seed = as(representable(random_tensor(y.shape(), 99)), DType::kFloat64);
  tape.backward(y, seed);
  const auto want = run_op(roi_op(ops::roi_align, c), inputs, DType::kFloat64);
  EXPECT_EQ(doubles(features[1].grad()), want[2]);
  EXPECT_FALSE(features[0].grad().defined());
}

TEST(Detection, GradientReplacesOutputsThatNothingUses) {
  const AnchorCase& c = kAnchorCases[2];
  const ops::AnchorTargets targets = c.targets(DType::kFloat32, kCpu);
  const Tensor scale = c.scale(DType::kFloat32, kCpu);
  const auto check_op = [&](const AnchorOp& op, const Input& input) {
    std::optional<Variable> output = leaf(input, DType::kFloat32);
    const GradSink sink = output->sink();
    const void* memory = output->value().raw();
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable loss = op(ctx, *output, targets, scale);
    output.reset();
    tape.backward(loss);
    EXPECT_EQ(sink->get().raw(), memory);
    const Variable kept = leaf(input, DType::kFloat32);
    const Tensor before = kept.value().clone();
    Tape other;
    ctx.tape = &other;
    other.backward(op(ctx, kept, targets, scale));
    EXPECT_TRUE(same_bits(sink->get(), kept.grad()));
    EXPECT_TRUE(same_bits(kept.value(), before));
  };
  check_op(focal_op(ops::focal_loss, {}), c.logits());
  check_op(ops::box_loss, c.deltas());
}

TEST(Detection, InvalidInputIsError) {
  Context ctx;
  const AnchorCase& c = kAnchorCases[1];
  const Variable logits = leaf(c.logits(), DType::kFloat32),
                 deltas = leaf(c.deltas(), DType::kFloat32);
  const ops::AnchorTargets targets = c.targets(DType::kFloat32, kCpu);
  const Tensor scale = c.scale(DType::kFloat32, kCpu);
  for (std::int64_t label : {std::int64_t{-3}, c.classes}) {
    ops::AnchorTargets wrong = targets;
    wrong.labels = targets.labels.clone();
    wrong.labels.data<std::int64_t>()[targets.first] = label;
    EXPECT_THROW(ops::focal_loss(ctx, logits, wrong, scale), Error);
    wrong.labels = targets.labels.clone();
    wrong.labels.data<std::int64_t>()[0] = label;  // of another level
    EXPECT_NO_THROW(ops::focal_loss(ctx, logits, wrong, scale));
  }
  ops::AnchorTargets late = targets;
  late.first = targets.labels.dim(1) - c.anchors + 1;
  EXPECT_THROW(ops::focal_loss(ctx, logits, late, scale), Error);
  EXPECT_THROW(ops::box_loss(ctx, deltas, late, scale), Error);
  EXPECT_THROW(ops::focal_loss(ctx, logits, targets, scale, {0.25, -1}), Error);
  EXPECT_THROW(ops::focal_loss(ctx, logits, targets, Tensor::zeros({2}, DType::kFloat32)), Error);
  EXPECT_THROW(ops::box_loss(ctx, logits, targets, scale), Error) << "3 classes are no deltas";
  EXPECT_THROW(ops::box_loss(ctx, deltas, {targets.labels, {}, targets.first}, scale), Error);

  const auto levels = RoiOpCase::levels({leaf(kRoiCases[0].inputs()[0], DType::kFloat32)});
  const ops::Rois all = RoiOpCase::rois(kCpu);
  EXPECT_THROW(ops::roi_align(ctx, levels, all, 7), Error) << "level 1 is missing";
  const ops::Rois one{all.image.slice(0, 1), all.level.slice(0, 1), all.boxes.slice(0, 1)};
  EXPECT_NO_THROW(ops::roi_align(ctx, levels, one, 7));
  EXPECT_THROW(ops::roi_align(ctx, levels, one, 0), Error);
  EXPECT_THROW(ops::roi_align(ctx, {}, one, 7), Error);
  EXPECT_THROW(ops::roi_align(ctx, levels, {all.image, one.level, one.boxes}, 7), Error);
  auto wrong_grid = levels;
  wrong_grid[0].grid_h += 1;
  EXPECT_THROW(ops::roi_align(ctx, wrong_grid, one, 7), Error);
}

}  // namespace
}  // namespace dtn::test
