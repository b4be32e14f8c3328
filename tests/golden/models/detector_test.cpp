// Compares small detectors and their gradients with networks in PyTorch's float64, see
// detector_cases.h. The images are larger than those of the tables of positions, and of other
// proportions.
#include "golden/models/detector_cases.h"

namespace dtn {
namespace {

using golden::DetectorCase;
using test::Doubles;

// Seeds of the script: of outputs k = 0, 1, ... of a pass.
constexpr std::uint32_t kDense = 2000, kRegions = 2100;

// Sums have up to 784 products; about sixty sums follow one another.
double rounding(DType dtype) {
  return dtype == DType::kFloat64 ? 1e-12
                                  : 60 * test::unit_roundoff(DType::kFloat32) * std::sqrt(784.0);
}

void expect_near(const Variable& got, const Tensor& want, DType dtype) {
  ASSERT_EQ(got.shape(), want.shape());
  const Doubles expected = test::doubles(want);
  // The file is in float32.
  const double bound = rounding(dtype) + test::unit_roundoff(DType::kFloat32);
  EXPECT_LE(test::max_abs_difference(test::doubles(got.value()), expected),
            bound * test::max_abs(expected));
}

// Sum of the products with the script's values.
Variable weighted_sum(Context& ctx, const std::vector<Variable>& outputs, std::uint32_t seed) {
  namespace p = primitive;
  Variable total;
  for (const Variable& y : outputs) {
    const std::int64_t n = y.value().numel();
    const Tensor factors =
        test::from_doubles(golden::values(seed++, n, 1, 0), {n}, y.value().dtype());
    const Variable sum = p::sum(ctx, p::mul(ctx, p::reshape(ctx, y, {n}), Variable(factors)), 0);
    total = total.defined() ? p::add(ctx, total, sum) : sum;
  }
  return total;
}

struct Loaded {
  Detector model;
  Tensor images;

  Loaded(const DetectorCase& c, DType dtype) : model(golden::model_of(c), 1, dtype) {
    load_exact(model.parameters(), golden::weights_of(c), c.name);
    images = golden::images_from(*golden::read_detection("detector_data").find("images"), dtype);
    model.parameters().zero_gradients();
  }
};

TEST(DetectorGolden, DensePredictions) {
  for (const DetectorCase& c : golden::detector_cases()) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      SCOPED_TRACE(c.name + " in " + std::string(name_of(dtype)));
      Loaded loaded(c, dtype);
      Tape tape;
      Context ctx = test::computing_in(dtype);
      ctx.tape = &tape;
      const auto predictions = loaded.model.predict(ctx, loaded.model.levels(ctx, loaded.images));
      ASSERT_EQ(predictions.size(), 5u);
      std::vector<Variable> outputs;
      for (std::size_t l = 0; l < predictions.size(); ++l) {
        SCOPED_TRACE(l);
        expect_near(predictions[l].classes, c.at(cat("classes.", l)), dtype);
        expect_near(predictions[l].boxes, c.at(cat("boxes.", l)), dtype);
        outputs.insert(outputs.end(), {predictions[l].classes, predictions[l].boxes});
      }
      tape.backward(weighted_sum(ctx, outputs, kDense));
      golden::expect_gradients(loaded.model, c.at("gradients"), 2 * rounding(dtype));
    }
  }
}

TEST(DetectorGolden, PredictionsForRegions) {
  const DetectorCase c = golden::detector_cases().back();
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
    SCOPED_TRACE(name_of(dtype));
    Loaded loaded(c, dtype);
    Detector& model = loaded.model;
    Tape tape;
    Context ctx = test::computing_in(dtype);
    ctx.tape = &tape;
    const Features levels = model.levels(ctx, loaded.images);
    const auto read = golden::roi_levels_of(model, levels);
    const ops::Rois rois = golden::given_rois(c);
    const RoiPrediction boxes =
        model.predict_boxes(ctx, ops::roi_align(ctx, read, rois, Detector::kBoxSize));
    const Variable masks =
        model.predict_masks(ctx, ops::roi_align(ctx, read, rois, Detector::kMaskSize));
    expect_near(boxes.classes, c.at("given.classes"), dtype);
    expect_near(boxes.boxes, c.at("given.deltas"), dtype);
    expect_near(masks, c.at("given.masks"), dtype);
    tape.backward(weighted_sum(ctx, {boxes.classes, boxes.boxes, masks}, kRegions));
    golden::expect_gradients(model, c.at("given.gradients"), 2 * rounding(dtype));
  }
}

}  // namespace
}  // namespace dtn
