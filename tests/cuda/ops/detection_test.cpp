// Runs RoIAlign and the losses of detectors on the device.
#include "cuda/twin.h"
#include "detection_cases.h"

namespace dtn::test {
namespace {

// Returns the output, then the gradient of each input.
std::vector<Tensor> run_on(Device device, const Op& op, const std::vector<Input>& inputs,
                           DType dtype) {
  std::vector<Variable> leaves;
  for (const Input& input : inputs) leaves.emplace_back(as(input.value, dtype).to(device), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable y = op(ctx, leaves);
  std::vector<Tensor> results = {y.value().to(kCpu)};
  tape.backward(y, as(representable(random_tensor(y.shape(), 99)), y.dtype()).to(device));
  for (const Variable& leaf : leaves) results.push_back(leaf.grad().to(kCpu));
  return results;
}

// Compares the device with float64 on the host. `terms`: of the longest sum.
void check(const char* kernel, const std::string& what, const Op& on_device, const Op& on_host,
           const std::vector<Input>& inputs, std::int64_t terms) {
  const std::vector<Tensor> want = run_on(kCpu, on_host, inputs, DType::kFloat64);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::vector<Tensor> got = run_on(kCuda, on_device, inputs, dtype);
    for (std::size_t i = 0; i < want.size(); ++i) {
      expect_close(kernel, cat(what, " result ", i), got[i], doubles(want[i]),
                   rounding_bound(got[i].dtype(), terms));
    }
  }
}

std::vector<RoiOpCase> roi_cases() {
  std::vector<RoiOpCase> cases = kRoiCases;
  cases.push_back({130, 3});  // more channels than threads
  return cases;
}

TEST(CudaRoiAlign, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const RoiOpCase& c : roi_cases()) {
    check("roi_align", c.name(), roi_op(ops::roi_align, c, kCuda), roi_op(ops::roi_align, c),
          c.inputs(), 100);
  }
}

TEST(CudaRoiAlign, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  const RoiOpCase& c = kRoiCases[1];
  under_every_schedule(
      [&] { return run_on(kCuda, roi_op(ops::roi_align, c, kCuda), c.inputs(), DType::kFloat32); });
}

TEST(CudaRoiAlign, InvalidPlaceGivesNaNAndNoGradient) {
  DTN_SKIP_WITHOUT_DEVICE();
  const RoiOpCase& c = kRoiCases[0];
  const std::vector<Input> inputs = c.inputs();
  const ops::Rois right = RoiOpCase::rois(kCpu);
  const auto with = [&](std::int64_t image, std::int64_t level) {
    ops::Rois wrong{right.image.clone(), right.level.clone(), right.boxes};
    wrong.image.data<std::int64_t>()[6] = image, wrong.level.data<std::int64_t>()[6] = level;
    wrong = {wrong.image.to(kCuda), wrong.level.to(kCuda), wrong.boxes.to(kCuda)};
    const Op op = [=](Context& ctx, const std::vector<Variable>& v) {
      return ops::roi_align(ctx, RoiOpCase::levels(v), wrong, c.size);
    };
    return run_on(kCuda, op, inputs, DType::kFloat32);
  };
  const std::vector<Tensor> want = with(0, 2);  // the last box has no area, so it has no gradient
  for (const auto& [image, level] :
       {std::pair(2, 0), std::pair(-1, 0), std::pair(0, 3), std::pair(0, -1)}) {
    const std::vector<Tensor> got = with(image, level);
    const Doubles y = doubles(got[0]);
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(std::isnan(y[i]), i >= y.size() / 7 * 6) << i;
    for (std::size_t l = 1; l < got.size(); ++l) EXPECT_TRUE(same_bits(got[l], want[l]));
  }
}

TEST(CudaRoiAlign, NoBoxes) {
  DTN_SKIP_WITHOUT_DEVICE();
  const Op op = [](Context& ctx, const std::vector<Variable>& v) {
    const ops::Rois none{Tensor::empty({0}, DType::kInt64, kCuda),
                         Tensor::empty({0}, DType::kInt64, kCuda),
                         Tensor::empty({0, 4}, DType::kFloat32, kCuda)};
    return ops::roi_align(ctx, RoiOpCase::levels(v), none, 7);
  };
  const auto got = run_on(kCuda, op, kRoiCases[0].inputs(), DType::kFloat32);
  EXPECT_EQ(got[0].numel(), 0);
  EXPECT_EQ(max_abs(doubles(got[1])), 0);
}

TEST(CudaFocalLoss, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const AnchorCase& c : kAnchorCases) {
    for (const ops::FocalOptions& options : {ops::FocalOptions{}, ops::FocalOptions{0.5, 1.5}}) {
      const AnchorOp op = focal_op(ops::focal_loss, options);
      check("focal_loss", cat(c.name(), " gamma ", options.gamma), anchor_op(op, c, kCuda),
            anchor_op(op, c), {c.logits()}, 64);
    }
  }
}

TEST(CudaFocalLoss, InvalidLabelGivesNaN) {
  DTN_SKIP_WITHOUT_DEVICE();
  const AnchorCase& c = kAnchorCases[1];
  for (std::int64_t label : {std::int64_t{-3}, c.classes}) {
    const Op op = [&](Context& ctx, const std::vector<Variable>& v) {
      ops::AnchorTargets targets = c.targets(DType::kFloat32, kCpu);
      targets.labels.data<std::int64_t>()[targets.first + 1] = label;
      targets.labels = targets.labels.to(kCuda);
      return ops::focal_loss(ctx, v[0], targets, c.scale(DType::kFloat32, kCuda));
    };
    const auto got = run_on(kCuda, op, {c.logits()}, DType::kFloat32);
    EXPECT_TRUE(std::isnan(doubles(got[0])[0]));
    const Doubles gradient = doubles(got[1]);
    const auto classes = static_cast<std::size_t>(c.classes);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_EQ(std::isnan(gradient[i]), i / classes == 1) << i;
    }
  }
}

TEST(CudaFocalLoss, SaturatedLogits) {
  DTN_SKIP_WITHOUT_DEVICE();
  const AnchorCase& c = kAnchorCases[2];
  const Input large = Input::activation({c.batch, c.anchors, c.classes}, 1, 200);
  for (double gamma : {2.0, 1.5}) {
    const AnchorOp op = focal_op(ops::focal_loss, {0.25, gamma});
    check("focal_loss", "saturated", anchor_op(op, c, kCuda), anchor_op(op, c), {large}, 64);
  }
}

TEST(CudaBoxLoss, MatchesFloat64) {
  DTN_SKIP_WITHOUT_DEVICE();
  for (const AnchorCase& c : kAnchorCases) {
    check("box_loss", c.name(), anchor_op(ops::box_loss, c, kCuda), anchor_op(ops::box_loss, c),
          {c.deltas()}, 16);
  }
}

TEST(CudaDetectionLosses, SameBitsUnderEverySchedule) {
  DTN_SKIP_WITHOUT_DEVICE();
  const AnchorCase c{2, 300, 17};
  under_every_schedule([&] {
    auto all = run_on(kCuda, anchor_op(focal_op(ops::focal_loss, {}), c, kCuda), {c.logits()},
                      DType::kFloat32);
    for (const Tensor& t :
         run_on(kCuda, anchor_op(ops::box_loss, c, kCuda), {c.deltas()}, DType::kFloat32)) {
      all.push_back(t);
    }
    return all;
  });
}

}  // namespace
}  // namespace dtn::test
