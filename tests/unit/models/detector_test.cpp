// Detectors: numbers of parameters, names, shapes, and images of any size.
#include "dtn/models/detector.h"

#include <gtest/gtest.h>

#include <set>

#include "dtn/models/presets.h"
#include "tensors.h"
#include "tiny_vit.h"

namespace dtn::test {
namespace {

ModelConfig detector(const char* preset, DetectorKind kind, bool dtn) {
  ModelConfig c = preset_registry().at(preset).model;
  c.detector.kind = kind;
  c.num_classes = 80;
  if (dtn) {
    c.norm.type = "dtn";
    c.num_heads = {4, 4, 5, 8};
  }
  return c;
}

// A small one, whose gradients are quick to compute.
ModelConfig small_detector(DetectorKind kind, const char* norm = "dtn") {
  ModelConfig c = detector("pvt_tiny", kind, false);
  c.num_classes = 3;
  c.embed_dim = {8, 16, 20, 32};
  c.num_heads = {2, 4, 5, 8};
  c.depth = {1, 1, 1, 1};
  c.norm.type = norm;
  c.detector.fpn_channels = 12;
  c.detector.head_convs = 1;
  c.detector.head_fc = 24;
  return c;
}

// Table 11 of the DTN paper, with 80 classes.
TEST(Detector, HasThePapersNumbersOfParameters) {
  struct Row {
    const char* preset;
    DetectorKind kind;
    std::int64_t ln, dtn;
  };
  for (const Row& row : {Row{"pvt_tiny", DetectorKind::kRetinaNet, 22'964'724, 22'965'036},
                         Row{"pvt_small", DetectorKind::kRetinaNet, 34'221'300, 34'221'996},
                         Row{"pvt_tiny", DetectorKind::kMaskRcnn, 32'882'160, 32'882'472},
                         Row{"pvt_small", DetectorKind::kMaskRcnn, 44'138'736, 44'139'432}}) {
    for (bool dtn : {false, true}) {
      const Detector model(detector(row.preset, row.kind, dtn), 0, DType::kFloat32, kMeta);
      EXPECT_EQ(model.parameters().count(), dtn ? row.dtn : row.ln) << row.preset;
    }
  }
}

TEST(Detector, HasTheNamesOfMmdetection) {
  const auto names_of = [](DetectorKind kind) {
    const Detector model(small_detector(kind), 0, DType::kFloat32, kMeta);
    std::set<std::string> names;
    for (const Parameter& p : model.parameters().parameters()) names.insert(p.name);
    return names;
  };
  const std::set<std::string> retina = names_of(DetectorKind::kRetinaNet);
  for (const char* name : {"backbone.patch_embed1.proj.weight", "backbone.pos_embed4",
                           "neck.lateral_convs.2.conv.bias", "neck.fpn_convs.4.conv.weight",
                           "bbox_head.cls_convs.0.conv.weight", "bbox_head.reg_convs.0.conv.bias",
                           "bbox_head.retina_cls.weight", "bbox_head.retina_reg.bias"}) {
    EXPECT_TRUE(retina.contains(name)) << name;
  }
  for (const char* name : {"backbone.cls_token", "backbone.norm.weight", "backbone.head.weight",
                           "head.weight", "neck.lateral_convs.3.conv.weight"}) {
    EXPECT_FALSE(retina.contains(name)) << name;
  }
  const std::set<std::string> mask = names_of(DetectorKind::kMaskRcnn);
  for (const char* name :
       {"neck.lateral_convs.3.conv.weight", "neck.fpn_convs.3.conv.bias",
        "rpn_head.rpn_conv.weight", "rpn_head.rpn_cls.weight", "rpn_head.rpn_reg.bias",
        "roi_head.bbox_head.shared_fcs.1.weight", "roi_head.bbox_head.fc_cls.bias",
        "roi_head.bbox_head.fc_reg.weight", "roi_head.mask_head.convs.0.conv.weight",
        "roi_head.mask_head.upsample.weight", "roi_head.mask_head.conv_logits.bias"}) {
    EXPECT_TRUE(mask.contains(name)) << name;
  }
  EXPECT_FALSE(mask.contains("neck.fpn_convs.4.conv.weight"));
}

TEST(Detector, PredictsAtEveryTokenOfImagesOfAnySize) {
  for (DetectorKind kind : {DetectorKind::kRetinaNet, DetectorKind::kMaskRcnn}) {
    Detector model(small_detector(kind), 1);
    const bool mask = kind == DetectorKind::kMaskRcnn;
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{64, 96}, {160, 32}}) {
      Context ctx;
      const Tensor images = as(random_tensor({2, 3, height, width}, 1), DType::kFloat32);
      const Features levels = model.levels(ctx, images);
      const std::vector<DensePrediction> predictions = model.predict(ctx, levels);
      ASSERT_EQ(predictions.size(), 5u);
      for (std::size_t i = 0; i < 5; ++i) {
        const std::int64_t stride = model.strides()[i];
        EXPECT_EQ(stride, (mask ? 4 : 8) << i);
        const std::int64_t h = (height + stride - 1) / stride, w = (width + stride - 1) / stride;
        const std::int64_t anchors = mask ? 3 : 9, classes = mask ? 1 : 3;
        EXPECT_EQ(predictions[i].classes.shape(), (Shape{2, h * w, anchors * classes})) << i;
        EXPECT_EQ(predictions[i].boxes.shape(), (Shape{2, h * w, 4 * anchors})) << i;
      }
    }
  }
}

// A small model of each family whose stages a detector can read.
std::vector<ModelConfig> small_backbones() {
  std::vector<ModelConfig> models;
  for (const char* preset : {"pvt_tiny", "pvt_v2_b3", "swin_t", "resnet50"}) {
    ModelConfig c = preset_registry().at(preset).model;
    if (c.family == "resnet") {
      c.embed_dim = {16, 32, 48, 64};
    } else {
      c.embed_dim = {8, 16, 24, 32};
      c.num_heads = {2, 2, 4, 4};
    }
    c.depth = {1, 2, 1, 2};
    c.num_classes = 3;
    c.detector.fpn_channels = 12;
    c.detector.head_convs = 1;
    c.detector.head_fc = 24;
    models.push_back(c);
  }
  return models;
}

// The sides are not those of the config, and the windows of Swin do not fill the grids.
TEST(Detector, TrainsEveryParameterOfEachFamily) {
  for (ModelConfig c : small_backbones()) {
    for (DetectorKind kind : {DetectorKind::kRetinaNet, DetectorKind::kMaskRcnn}) {
      c.detector.kind = kind;
      SCOPED_TRACE(c.preset);
      Detector model(c, 1, DType::kFloat64);
      perturb(model.parameters());
      Tape tape;
      Context ctx = computing_in(DType::kFloat64);
      ctx.tape = &tape;
      ctx.mode.training = true;
      const Features levels = model.levels(ctx, random_tensor({2, 3, 96, 160}, 1));
      Variable sum;
      for (const DensePrediction& p : model.predict(ctx, levels)) {
        for (const Variable& x : {p.classes, p.boxes}) {
          const Variable squares = primitive::sum(ctx, primitive::mul(ctx, x, x), {0, 1, 2});
          sum = sum.defined() ? primitive::add(ctx, sum, squares) : squares;
        }
      }
      EXPECT_EQ(levels[0].grid,
                kind == DetectorKind::kMaskRcnn ? TokenGrid({24, 40}) : TokenGrid({12, 20}));
      tape.backward(sum, Tensor::full(sum.shape(), DType::kFloat64, 1));
      for (const Parameter& p : model.parameters().parameters()) {
        if (p.name.starts_with("roi_head.")) continue;
        ASSERT_TRUE(p.variable.grad().defined()) << p.name;
        EXPECT_GT(max_abs(doubles(p.variable.grad())), 0) << p.name;
      }
    }
  }
}

TEST(Detector, NormalizesTheFeaturesOfSwin) {
  ModelConfig c = small_backbones()[2];
  const auto has = [&](DetectorKind kind, const std::string& name) {
    c.detector.kind = kind;
    const Detector model(c, 0, DType::kFloat32, kMeta);
    return std::ranges::any_of(model.parameters().parameters(),
                               [&](const Parameter& p) { return p.name == name; });
  };
  EXPECT_TRUE(has(DetectorKind::kMaskRcnn, "backbone.norm0.weight"));
  EXPECT_FALSE(has(DetectorKind::kRetinaNet, "backbone.norm0.weight"));
  for (const char* name : {"backbone.norm1.weight", "backbone.norm3.bias"}) {
    EXPECT_TRUE(has(DetectorKind::kRetinaNet, name)) << name;
  }
  EXPECT_FALSE(has(DetectorKind::kMaskRcnn, "backbone.norm.weight"));
}

// The probability of every class of RetinaNet is 1 % at first.
TEST(Detector, StartsWithFewObjects) {
  Detector model(small_detector(DetectorKind::kRetinaNet), 1);
  Context ctx;
  const Tensor image = Tensor::zeros({1, 3, 64, 64}, DType::kFloat32);
  for (const DensePrediction& p : model.predict(ctx, model.levels(ctx, image))) {
    for (double logit : doubles(p.classes.value())) EXPECT_NEAR(logit, -std::log(99), 0.2);
  }
}

TEST(Detector, PredictsForRegions) {
  Detector model(small_detector(DetectorKind::kMaskRcnn), 1);
  Context ctx;
  const RoiPrediction boxes =
      model.predict_boxes(ctx, Variable(as(random_tensor({5, 49, 12}, 2), DType::kFloat32)));
  EXPECT_EQ(boxes.classes.shape(), (Shape{5, 4}));
  EXPECT_EQ(boxes.boxes.shape(), (Shape{5, 12}));
  const Variable masks =
      model.predict_masks(ctx, Variable(as(random_tensor({2, 196, 12}, 3), DType::kFloat32)));
  EXPECT_EQ(masks.shape(), (Shape{2, 784, 3}));
}

TEST(Detector, RefusesBackbonesWithoutStages) {
  ModelConfig c = preset_registry().at("vit_t").model;
  c.detector.kind = DetectorKind::kRetinaNet;
  EXPECT_THROW(Detector(c, 0, DType::kFloat32, kMeta), ConfigError);
}

}  // namespace
}  // namespace dtn::test
