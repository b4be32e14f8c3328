// Gradients of detectors, against central differences in float64.
#include "dtn/models/detector.h"

#include "dtn/models/presets.h"
#include "dtn/ops/detection.h"
#include "tiny_vit.h"

namespace dtn {
namespace {

namespace p = primitive;

// The stages have grids of 8 x 16 to 1 x 2 tokens, and tables of positions for 16 x 16 to 2 x 2.
ModelConfig tiny_detector(DetectorKind kind, const char* norm) {
  ModelConfig c = preset_registry().at("pvt_tiny").model;
  c.image_size = 64;
  c.num_classes = 2;
  c.embed_dim = {4, 8, 10, 16};
  c.num_heads = {2, 4, 5, 8};
  c.depth = {1, 1, 1, 1};
  c.mlp_ratio = {2, 2, 2, 2};
  c.norm.type = norm;
  c.detector.kind = kind;
  c.detector.fpn_channels = 4;
  c.detector.head_convs = 1;
  c.detector.head_fc = 6;
  return c;
}

// Sum of the outputs with fixed factors.
Variable weighted_sum(Context& ctx, const std::vector<Variable>& outputs) {
  Variable total;
  std::uint32_t stream = 70;
  for (const Variable& y : outputs) {
    const Shape flat{y.value().numel()};
    const Variable factors(test::random_tensor(flat, stream++));
    const Variable sum = p::sum(ctx, p::mul(ctx, p::reshape(ctx, y, flat), factors), 0);
    total = total.defined() ? p::add(ctx, total, sum) : sum;
  }
  return total;
}

// Outputs for three regions, each on a level of its own.
std::vector<Variable> region_outputs(Context& ctx, const Detector& model, const Features& levels) {
  std::vector<ops::RoiLevel> read;
  for (std::size_t i = 0; i < 4; ++i) {
    read.push_back({levels[i].x, levels[i].grid.height, levels[i].grid.width,
                    1.0 / static_cast<double>(model.strides()[i])});
  }
  const std::vector<float> boxes{3, 2.5f, 30, 28, -4, -6, 50, 40, 5, 3, 61, 20};
  const ops::Rois rois{Tensor::from(std::vector<std::int64_t>{0, 1, 1}, {3}),
                       Tensor::from(std::vector<std::int64_t>{0, 3, 1}, {3}),
                       Tensor::from(boxes, {3, 4})};
  const RoiPrediction found =
      model.predict_boxes(ctx, ops::roi_align(ctx, read, rois, Detector::kBoxSize));
  return {found.classes, found.boxes,
          model.predict_masks(ctx, ops::roi_align(ctx, read, rois, Detector::kMaskSize))};
}

Variable loss_of(Context& ctx, Detector& model) {
  const Features levels = model.levels(ctx, test::random_tensor({2, 3, 32, 64}, 5));
  std::vector<Variable> outputs;
  for (const DensePrediction& prediction : model.predict(ctx, levels)) {
    outputs.insert(outputs.end(), {prediction.classes, prediction.boxes});
  }
  if (model.has_regions()) {
    const std::vector<Variable> more = region_outputs(ctx, model, levels);
    outputs.insert(outputs.end(), more.begin(), more.end());
  }
  return weighted_sum(ctx, outputs);
}

double loss_value(Detector& model) {
  Context ctx = test::computing_in(DType::kFloat64);
  return *loss_of(ctx, model).value().data<double>();
}

// True if the loss changes with an element as its gradient predicts. A step may cross the kink of a
// ReLU, so smaller steps are tried too. The loss is exact to about 1e-14 of its terms, whose sum of
// sizes is about 100; the quotient divides this error by the step.
bool is_slope(double gradient, double scale, Detector& model, Parameter& parameter,
              std::int64_t i) {
  Tensor leaf = parameter.variable.value();
  double& value = leaf.data<double>()[i];
  const double original = value;
  for (double h : {1e-5, 1e-6, 1e-7}) {
    value = original + h;
    const double above = loss_value(model);
    value = original - h;
    const double below = loss_value(model);
    value = original;
    const double numeric = (above - below) / (2 * h);
    if (std::abs(gradient - numeric) <= 1e-6 * scale + 1e-14 / h) return true;
  }
  return false;
}

// The key half of the bias shifts all scores of a query, which changes no softmax.
bool has_no_effect(const std::string& name, std::int64_t i, std::int64_t n) {
  return name.ends_with("attn.kv.bias") && i < n / 2;
}

void check_detector(DetectorKind kind, const char* norm) {
  SCOPED_TRACE(norm);
  test::Threads one(1);  // thousands of tiny passes
  Detector model(tiny_detector(kind, norm), 1, DType::kFloat64);
  test::perturb(model.parameters());
  model.parameters().zero_gradients();
  Tape tape;
  Context ctx = test::computing_in(DType::kFloat64);
  ctx.tape = &tape;
  tape.backward(loss_of(ctx, model));
  for (Parameter& parameter : model.parameters().parameters()) {
    const Tensor gradient = ParameterStore::view(model.parameters().gradients(), parameter);
    const double scale = test::max_abs(test::doubles(gradient));
    if (parameter.name.ends_with("pos_proj.bias")) {
      EXPECT_EQ(scale, 0) << parameter.name;
      continue;
    }
    EXPECT_GT(scale, 1e-4) << parameter.name;
    const std::int64_t n = parameter.shape.numel(), stride = std::max<std::int64_t>(1, n / 3);
    for (std::int64_t i = n / 7; i < n; i += stride) {
      const double slope = test::element(gradient, i);
      if (has_no_effect(parameter.name, i, n)) {
        EXPECT_NEAR(slope, 0, 1e-12 * scale) << parameter.name << "[" << i << "]";
      }
      EXPECT_TRUE(is_slope(slope, scale, model, parameter, i)) << parameter.name << "[" << i << "]";
    }
  }
}

TEST(DetectorGradients, RetinaNet) {
  for (const char* norm : {"ln", "dtn"}) check_detector(DetectorKind::kRetinaNet, norm);
}

TEST(DetectorGradients, MaskRcnn) {
  for (const char* norm : {"ln", "dtn"}) check_detector(DetectorKind::kMaskRcnn, norm);
}

}  // namespace
}  // namespace dtn
