// Figures of samples with any number of classes against scikit-learn.
#include "tasks/label_figures/label_figures.h"

#include "dtn/io/safetensors.h"
#include "tensors.h"

namespace dtn::test {
namespace {

constexpr double kTolerance = 1e-12;

struct Golden {
  TensorFile file = read_safetensors(DTN_TESTS_FOLDER "/golden/losses/multilabel.safetensors");

  const Tensor& at(const std::string& name) const { return *file.find(name); }
  double number(const std::string& name) const { return at(name).data<double>()[0]; }
  LabelledLogits samples() const {
    const Tensor &logits = at("logits"), &labels = at("labels");
    return {logits.dim(0), logits.dim(1), logits.values<float>(), labels.values<std::uint8_t>()};
  }
};

TEST(LabelFigures, AreThoseOfScikitLearn) {
  const Golden golden;
  const MultilabelFigures figures = label_figures(golden.samples(), golden.number("threshold"));
  EXPECT_NEAR(figures.map, golden.number("map"), kTolerance);
  EXPECT_NEAR(figures.f1_micro, golden.number("f1_micro"), kTolerance);
  EXPECT_NEAR(figures.f1_macro, golden.number("f1_macro"), kTolerance);
  EXPECT_NEAR(figures.loss, golden.number("loss"), kTolerance);
  bool without = false;
  for (std::size_t k = 0; k < figures.classes.size(); ++k) {
    const LabelFigures& of = figures.classes[k];
    EXPECT_NEAR(of.ap.value_or(-1), golden.at("ap").data<double>()[k], kTolerance) << k;
    EXPECT_NEAR(of.precision, golden.at("precision").data<double>()[k], kTolerance) << k;
    EXPECT_NEAR(of.recall, golden.at("recall").data<double>()[k], kTolerance) << k;
    EXPECT_NEAR(of.f1, golden.at("f1").data<double>()[k], kTolerance) << k;
    without = without || !of.ap;
  }
  EXPECT_TRUE(without) << "no class is without a sample";
}

// No other threshold has a larger micro F1, among all that decide differently.
TEST(LabelFigures, BestThresholdHasLargestMicroF1) {
  const Golden golden;
  const LabelledLogits samples = golden.samples();
  const double best = *best_threshold(samples);
  const double f1 = label_figures(samples, best).f1_micro;
  for (const float logit : samples.logits) {
    EXPECT_LE(label_figures(samples, probability_of(logit)).f1_micro, f1);
  }
}

}  // namespace
}  // namespace dtn::test
