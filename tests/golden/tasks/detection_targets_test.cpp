// Anchors, assignment, box deltas and the losses of dense heads against PyTorch in float64. The
// expected values are in tests/golden/detection, which make_detector_goldens.py writes and lists.
#include "dtn/io/safetensors.h"
#include "dtn/ops/detection.h"
#include "tasks/boxes/anchors.h"
#include "tasks/boxes/assignment.h"
#include "tasks/boxes/box_deltas.h"
#include "tensors.h"

namespace dtn::test {
namespace {

struct File {
  explicit File(const std::string& name)
      : file(read_safetensors(DTN_TESTS_FOLDER "/golden/detection/" + name + ".safetensors")) {}

  const Tensor& at(const std::string& name) const { return *file.find(name); }
  std::vector<std::int64_t> ints(const std::string& name) const {
    const auto values = at(name).values<std::int64_t>();
    return {values.begin(), values.end()};
  }

  TensorFile file;
};

std::vector<Box> boxes_of(const Tensor& t) {
  std::vector<Box> boxes;
  for (std::int64_t i = 0; i < t.dim(0); ++i) {
    const float* b = t.data<float>() + 4 * i;
    boxes.push_back({b[0], b[1], b[2], b[3]});
  }
  return boxes;
}

// The truths of one image of the batch.
struct Truths {
  std::vector<Box> boxes;
  std::vector<std::int64_t> labels;
  std::int64_t first = 0;  // index of the first one in the batch

  Truths(const File& data, std::int64_t image) {
    const std::vector<Box> all = boxes_of(data.at("truth.boxes"));
    const std::vector<std::int64_t> of = data.ints("truth.image"),
                                    label = data.ints("truth.labels");
    for (std::size_t i = 0; i < all.size(); ++i) {
      first += of[i] < image;
      if (of[i] != image) continue;
      boxes.push_back(all[i]);
      labels.push_back(label[i]);
    }
  }
};

void expect_deltas(const BoxDeltas& got, const Tensor& want, std::int64_t row) {
  for (std::size_t k = 0; k < 4; ++k) {
    const double exact = element(want, 4 * row + static_cast<std::int64_t>(k));
    // Corners of anchors are rounded; a delta is a difference of such corners over a side.
    EXPECT_NEAR(got[k], exact, 8 * 0x1p-24 * (1 + std::abs(exact))) << row << " " << k;
  }
}

constexpr std::int64_t kImages = 2, kHeight = 64, kWidth = 96;

// Calls check(image, anchor, its truth or a value of AssignmentRule, truths, anchors).
template <class Check>
void for_each_anchor(const std::vector<AnchorLevel>& levels, const AssignmentRule& rule,
                     const Check& check) {
  const File data("detector_data");
  const std::vector<CellGrid> grids = grids_of(levels, kHeight, kWidth);
  const std::vector<Box> anchors = anchors_of(levels, grids);
  const std::vector<std::int64_t> padded = data.ints("padded");
  for (std::int64_t image = 0; image < kImages; ++image) {
    const auto i = static_cast<std::size_t>(image);
    const Truths truths(data, image);
    const auto counts =
        anchors_inside(levels, grids, grids_of(levels, padded[2 * i], padded[2 * i + 1]));
    const std::vector<std::int32_t> assigned = assign_boxes(anchors, truths.boxes, rule, counts);
    for (std::size_t a = 0; a < anchors.size(); ++a) check(image, a, assigned[a], truths, anchors);
  }
}

TEST(DetectionTargetsGolden, RetinaNet) {
  const File golden("retinanet_ln");
  const std::vector<std::int64_t> labels = golden.ints("anchors.labels");
  const Tensor& deltas = golden.at("anchors.deltas");
  std::int64_t row = 0, positives = 0;
  for_each_anchor(retinanet_anchors(), kRetinaNetRule,
                  [&](std::int64_t image, std::size_t a, std::int32_t assigned,
                      const Truths& truths, const std::vector<Box>& anchors) {
                    const auto t = static_cast<std::size_t>(std::max(assigned, 0));
                    const std::int64_t label = assigned < 0 ? assigned : truths.labels[t];
                    EXPECT_EQ(label, labels[static_cast<std::size_t>(row)]) << image << " " << a;
                    if (assigned >= 0) {
                      expect_deltas(encode_box(anchors[a], truths.boxes[t]), deltas, row);
                      ++positives;
                    }
                    ++row;
                  });
  EXPECT_EQ(row, golden.at("anchors.labels").numel());
  EXPECT_GT(positives, 20);
}

// The file has a sample of the anchors.
TEST(DetectionTargetsGolden, Proposals) {
  const File golden("mask_rcnn_dtn");
  const std::vector<std::int64_t> labels = golden.ints("anchors.labels");
  std::int64_t positives = 0, sampled = 0;
  std::size_t row = 0;
  for_each_anchor(rpn_anchors(), kRpnRule,
                  [&](std::int64_t image, std::size_t a, std::int32_t assigned,
                      const Truths& truths, const std::vector<Box>& anchors) {
                    const std::int64_t label = labels[row];
                    if (label != kIgnoredBox) {
                      EXPECT_EQ(std::min(assigned, 0), label) << image << " " << a;
                      ++sampled;
                    }
                    if (label >= 0 && assigned >= 0) {
                      const auto t = static_cast<std::size_t>(assigned);
                      expect_deltas(encode_box(anchors[a], truths.boxes[t]),
                                    golden.at("anchors.deltas"), static_cast<std::int64_t>(row));
                      ++positives;
                    }
                    ++row;
                  });
  EXPECT_EQ(row, labels.size());
  EXPECT_GT(positives, 4);
  EXPECT_GT(sampled, 100);
}

TEST(DetectionTargetsGolden, Rois) {
  const File golden("mask_rcnn_dtn"), data("detector_data");
  const std::vector<Box> rois = boxes_of(golden.at("rois.boxes"));
  const std::vector<std::int64_t> image = golden.ints("rois.image");
  const std::vector<std::int64_t> truth = golden.ints("rois.truth");
  int moved = 0;  // positives that are no truth themselves
  for (std::size_t i = 0; i < rois.size(); ++i) {
    const Truths truths(data, image[i]);
    // Alone, a box would be forced on a truth; beside the truths themselves it is not.
    std::vector<Box> boxes = truths.boxes;
    boxes.push_back(rois[i]);
    const std::int32_t assigned = assign_boxes(boxes, truths.boxes, kRoiRule).back();
    EXPECT_EQ(assigned < 0 ? -1 : assigned + truths.first, truth[i]) << i;
    if (assigned < 0) continue;
    const Box& of = truths.boxes[static_cast<std::size_t>(assigned)];
    const auto row = static_cast<std::int64_t>(i);
    const Tensor& want = golden.at("rois.deltas");
    for (std::size_t k = 0; k < 4; ++k) {
      const double exact = element(want, 4 * row + static_cast<std::int64_t>(k));
      EXPECT_NEAR(encode_box(rois[i], of, kRoiUnits)[k], exact, 2e-6 * (1 + std::abs(exact)));
    }
    moved += !(of == rois[i]);
  }
  EXPECT_GT(moved, 1);
}

// The two losses of RetinaNet on the stored outputs, level by level.
TEST(DetectionTargetsGolden, DenseLosses) {
  for (const char* name : {"retinanet_ln", "retinanet_dtn"}) {
    const File golden(name);
    std::int64_t n = 0, positives[kImages] = {};
    const std::vector<std::int64_t> labels = golden.ints("anchors.labels");
    const std::int64_t anchors = golden.at("anchors.labels").dim(1);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      positives[static_cast<std::int64_t>(i) / anchors] += labels[i] >= 0;
    }
    for (std::int64_t of_image : positives) n += std::max<std::int64_t>(of_image, 1);
    const Tensor scale = from_doubles({1.0 / static_cast<double>(n)}, {1}, DType::kFloat32);
    ops::AnchorTargets targets{golden.at("anchors.labels"), golden.at("anchors.deltas"), 0};
    double of_class = 0, of_box = 0;
    Context ctx;
    for (int l = 0; l < 5; ++l) {
      const Tensor& classes = golden.at(cat("classes.", l));
      const std::int64_t of_level = classes.dim(1) * 9;
      const Tensor logits = classes.clone().reshape({kImages, of_level, 3});
      const Tensor deltas = golden.at(cat("boxes.", l)).clone().reshape({kImages, of_level, 4});
      of_class += element(ops::focal_loss(ctx, Variable(logits), targets, scale).value(), 0);
      of_box += element(ops::box_loss(ctx, Variable(deltas), targets, scale).value(), 0);
      targets.first += of_level;
    }
    EXPECT_EQ(targets.first, anchors);
    const double want_class = element(golden.at("loss.loss_cls"), 0);
    const double want_box = element(golden.at("loss.loss_bbox"), 0);
    EXPECT_NEAR(of_class, want_class, 1e-6 * want_class) << name;
    EXPECT_NEAR(of_box, want_box, 1e-6 * want_box) << name;
  }
}

}  // namespace
}  // namespace dtn::test
