// Checks RoIAlign and the losses of detectors against central differences in float64.
#include "detection_cases.h"
#include "gradcheck/ops/op_gradients.h"

namespace dtn::test {
namespace {

// Central differences of boxes without a gradient would report gradients of 0, so the features
// that no box reads are left out: the boxes of these cases read all cells of a small level.
TEST(DetectionGradients, RoiAlign) {
  const auto on = [](const RoiOp& op) {
    return [=](Context& ctx, const Inputs& v) {
      const ops::Rois rois{
          Tensor::from(std::vector<std::int64_t>{0, 1, 1}, {3}),
          Tensor::from(std::vector<std::int64_t>{0, 0, 0}, {3}),
          Tensor::from(std::vector<float>{0.5f, 1, 19.5f, 15, 0, 0, 12, 16, 6, -2.5f, 27, 22},
                       {3, 4})};
      return op(ctx, {{v[0], 4, 5, 0.25}}, rois, 3);
    };
  };
  check_both("roi_align", on(ops::roi_align), on(ops::reference::roi_align),
             {random_tensor({2, 20, 2}, 1)});
}

TEST(DetectionGradients, FocalLoss) {
  // All anchors count, because an ignored one has no gradient.
  const ops::AnchorTargets targets{
      Tensor::from(std::vector<std::int64_t>{-2, 0, -1, 2, -2, 1, -1, -1}, {2, 4}), {}, 1};
  const Tensor scale = Tensor::full({1}, DType::kFloat64, 0.125);
  for (const ops::FocalOptions& options :
       {ops::FocalOptions{}, ops::FocalOptions{0.5, 0}, ops::FocalOptions{0.75, 1.5}}) {
    const auto on = [&](const auto& op) {
      return
          [&, op](Context& ctx, const Inputs& v) { return op(ctx, v[0], targets, scale, options); };
    };
    check_both(cat("focal_loss gamma ", options.gamma), on(ops::focal_loss),
               on(ops::reference::focal_loss), {random_tensor({2, 3, 3}, 1, 3)});
  }
}

TEST(DetectionGradients, BoxLoss) {
  const Tensor deltas = random_tensor({2, 4, 4}, 2);
  const ops::AnchorTargets targets{
      Tensor::from(std::vector<std::int64_t>{-2, 0, 1, 2, -2, 1, 0, 79}, {2, 4}), deltas, 1};
  const Tensor scale = Tensor::full({1}, DType::kFloat64, 0.125);
  const auto on = [&](const auto& op) {
    return [&, op](Context& ctx, const Inputs& v) { return op(ctx, v[0], targets, scale); };
  };
  check_both("box_loss", on(ops::box_loss), on(ops::reference::box_loss),
             {random_tensor({2, 3, 4}, 1)});
}

}  // namespace
}  // namespace dtn::test
