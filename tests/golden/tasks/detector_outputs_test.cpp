// Detections, proposals, masks and their targets against PyTorch and torchvision in float64.
#include "dtn/io/safetensors.h"
#include "tasks/detect/dense_detections.h"
#include "tasks/detect/mask_targets.h"
#include "tasks/detect/paste_mask.h"
#include "tasks/detect/proposals.h"
#include "tasks/detect/roi_detections.h"
#include "tensors.h"

namespace dtn::test {
namespace {

constexpr ResizedImage kImage{90, 125, 61, 83};
constexpr DetectionRule kRule{.per_level = 40, .most = 25};

struct Golden {
  TensorFile file = read_safetensors(DTN_TESTS_FOLDER "/golden/detection/outputs.safetensors");

  const Tensor& at(const std::string& name) const { return *file.find(name); }
  std::span<const float> floats(const std::string& name) const { return at(name).values<float>(); }
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

// Three levels with their anchors.
struct GoldenLevels {
  std::vector<std::vector<Box>> anchors;
  std::vector<DenseLevel> views;

  GoldenLevels(const Golden& golden, const std::string& name) {
    for (int l = 0; l < 3; ++l) anchors.push_back(golden.boxes(cat(name, ".", l, ".anchors")));
    for (std::size_t l = 0; l < 3; ++l) {
      views.push_back({golden.floats(cat(name, ".", l, ".classes")),
                       golden.floats(cat(name, ".", l, ".deltas")), anchors[l]});
    }
  }
};

// Boxes of up to 125 pixels are float32 after float64: half a unit in the last place, and again for
// the scale factor and the quotient.
void expect_boxes(const std::vector<Box>& got, const Tensor& want) {
  ASSERT_EQ(static_cast<std::int64_t>(got.size()), want.dim(0));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float sides[] = {got[i].x1, got[i].y1, got[i].x2, got[i].y2};
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_NEAR(sides[k], element(want, static_cast<std::int64_t>(4 * i + k)), 128 * 0x3p-24)
          << "box " << i << " side " << k;
    }
  }
}

void expect_detections(const Golden& golden, const std::string& name,
                       const std::vector<Detection>& found) {
  std::vector<Box> boxes;
  for (const Detection& d : found) boxes.push_back(d.box);
  expect_boxes(boxes, golden.at(name + ".boxes"));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto k = static_cast<std::int64_t>(i);
    EXPECT_NEAR(found[i].score, element(golden.at(name + ".scores"), k), 0x1p-25);
    EXPECT_EQ(found[i].label, golden.at(name + ".labels").data<std::int64_t>()[k]);
  }
}

TEST(DetectorOutputsGolden, DenseDetections) {
  const Golden golden;
  const GoldenLevels levels(golden, "dense");
  expect_detections(golden, "dense", dense_detections(levels.views, kImage, kRule));
}

TEST(DetectorOutputsGolden, Proposals) {
  const Golden golden;
  const GoldenLevels levels(golden, "proposals");
  const Proposals best =
      proposals_of(levels.views, kImage, {.per_level = kRule.per_level, .most = 45});
  expect_boxes(best.boxes, golden.at("proposals.boxes"));
  for (std::size_t i = 0; i < best.scores.size(); ++i) {
    EXPECT_EQ(best.scores[i], element(golden.at("proposals.scores"), static_cast<std::int64_t>(i)));
  }
}

TEST(DetectorOutputsGolden, RoiDetections) {
  const Golden golden;
  const std::vector<Box> proposals = golden.boxes("roi.proposals");
  expect_detections(
      golden, "roi",
      roi_detections({proposals, golden.floats("roi.classes"), golden.floats("roi.deltas")}, kImage,
                     kRule));
}

// An image that grows and is padded, and one that shrinks to the height of its padding.
TEST(DetectorOutputsGolden, MaskTargets) {
  const Golden golden;
  const Tensor& bitmap = golden.at("target.mask");
  const std::int64_t h = bitmap.dim(0), w = bitmap.dim(1);
  const Rle mask = rle_of_mask(bitmap.data<std::uint8_t>(), h, w);
  const std::vector<Box> regions = golden.boxes("target.regions");
  const MaskFrame frames[] = {{{77, 104, h, w}, 96, 128}, {{32, 43, h, w}, 32, 64}};
  constexpr std::size_t kCells = kMaskTargetSize * kMaskTargetSize;
  for (std::size_t f = 0; f < 2; ++f) {
    for (const bool mirrored : {false, true}) {
      MaskFrame frame = frames[f];
      frame.mirrored = mirrored;
      if (!golden.file.find(cat("target.", f, ".", mirrored))) continue;
      const TruthMask truth(mask, frame);
      const auto want = golden.at(cat("target.", f, ".", mirrored)).values<std::uint8_t>();
      for (std::size_t r = 0; r < regions.size(); ++r) {
        std::vector<std::uint8_t> target(kCells, 7);
        truth.write_target(regions[r], target);
        const auto of = want.subspan(r * kCells, kCells);
        EXPECT_EQ(target, std::vector<std::uint8_t>(of.begin(), of.end())) << f << mirrored << r;
      }
    }
  }
}

TEST(DetectorOutputsGolden, PasteMask) {
  const Golden golden;
  const Tensor& masks = golden.at("paste.masks");
  const std::vector<Box> boxes = golden.boxes("paste.boxes");
  const auto logits = golden.floats("paste.logits");
  const std::size_t cells = logits.size() / boxes.size();
  const std::int64_t h = masks.dim(1), w = masks.dim(2);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const std::uint8_t* want = masks.data<std::uint8_t>() + static_cast<std::int64_t>(i) * h * w;
    EXPECT_EQ(paste_mask(logits.subspan(i * cells, cells), boxes[i], h, w), rle_of_mask(want, h, w))
        << i;
  }
}

}  // namespace
}  // namespace dtn::test
