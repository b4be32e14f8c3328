// RoIAlign, the focal loss, NMS and box deltas against PyTorch and torchvision in float64.
#include "dtn/io/safetensors.h"
#include "dtn/ops/detection.h"
#include "tasks/boxes/box_deltas.h"
#include "tasks/boxes/nms.h"
#include "tensors.h"

namespace dtn::test {
namespace {

struct Golden {
  TensorFile file = read_safetensors(DTN_TESTS_FOLDER "/golden/detection/arithmetic.safetensors");

  const Tensor& at(const std::string& name) const { return *file.find(name); }
  std::vector<Box> boxes(const std::string& name) const {
    std::vector<Box> boxes;
    const Tensor& t = at(name);
    for (std::int64_t i = 0; i < t.dim(0); ++i) {
      const float* b = t.data<float>() + 4 * i;
      boxes.push_back({b[0], b[1], b[2], b[3]});
    }
    return boxes;
  }
};

// torchvision's rule at the borders separates into rows and columns as ours does: boxes outside of
// the borders agree, too.
TEST(DetectionGolden, RoiAlign) {
  const Golden golden;
  const ops::Rois rois{golden.at("roi.image"), golden.at("roi.level"), golden.at("roi.boxes")};
  for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
    const std::int64_t grids[2][2] = {{12, 17}, {6, 9}};
    std::vector<ops::RoiLevel> levels;
    for (std::size_t l = 0; l < 2; ++l) {
      const Tensor x = as(golden.at(cat("roi.features.", l)), dtype).clone();
      levels.push_back({Variable(x, true), grids[l][0], grids[l][1], l == 0 ? 0.25 : 0.125});
    }
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable y = ops::roi_align(ctx, levels, rois, 7);
    tape.backward(y, as(golden.at("roi.dy"), dtype));
    const double bound = dtype == DType::kFloat64 ? 2e-13 : 2e-6;
    EXPECT_LT(max_abs_difference(doubles(y.value()), doubles(golden.at("roi.y"))), bound);
    for (std::size_t l = 0; l < 2; ++l) {
      const Doubles want = doubles(golden.at(cat("roi.dfeatures.", l)));
      EXPECT_LT(max_abs_difference(doubles(levels[l].features.grad()), want),
                bound * max_abs(want));
    }
  }
}

TEST(DetectionGolden, FocalLoss) {
  const Golden golden;
  for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
    const Variable logits(as(golden.at("focal.logits"), dtype).clone(), true);
    const Tensor scale = as(golden.at("focal.scale"), accumulator_of(dtype));
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    const Variable loss = ops::focal_loss(ctx, logits, {golden.at("focal.labels"), {}, 0}, scale);
    tape.backward(loss);
    const double want = element(golden.at("focal.loss"), 0);
    const double bound = dtype == DType::kFloat64 ? 1e-13 : 1e-6;
    EXPECT_NEAR(element(loss.value(), 0), want, bound * want);
    const Doubles gradient = doubles(golden.at("focal.gradient"));
    EXPECT_LT(max_abs_difference(doubles(logits.grad()), gradient), bound * max_abs(gradient));
  }
}

TEST(DetectionGolden, Nms) {
  const Golden golden;
  const std::vector<Box> boxes = golden.boxes("nms.boxes");
  std::vector<std::int32_t> classes;
  for (std::int64_t c : golden.at("nms.classes").values<std::int64_t>()) {
    classes.push_back(static_cast<std::int32_t>(c));
  }
  for (double threshold : {0.3, 0.5, 0.7}) {
    const auto want = golden.at(cat("nms.kept.", threshold)).values<std::int64_t>();
    EXPECT_LT(want.size(), boxes.size());
    EXPECT_EQ(nms_by_class(boxes, golden.at("nms.scores").values<float>(), classes, threshold),
              std::vector(want.begin(), want.end()))
        << threshold;
  }
}

TEST(DetectionGolden, BoxDeltas) {
  const Golden golden;
  const std::vector<Box> anchors = golden.boxes("deltas.anchors");
  const std::vector<Box> boxes = golden.boxes("deltas.boxes");
  for (const auto& [name, units] : {std::pair("dense", kDenseUnits), std::pair("roi", kRoiUnits)}) {
    const Tensor& want = golden.at(cat("deltas.", name));
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const BoxDeltas got = encode_box(anchors[i], boxes[i], units);
      for (std::size_t k = 0; k < 4; ++k) {
        const double exact = element(want, static_cast<std::int64_t>(4 * i + k));
        EXPECT_NEAR(got[k], exact, 0x1p-24 * std::abs(exact)) << name << " " << i << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
