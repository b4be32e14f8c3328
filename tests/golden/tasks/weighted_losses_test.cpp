// Softmax losses with class weights against PyTorch, in float64 and as the task computes them.
#include "dtn/io/safetensors.h"
#include "dtn/ops/primitive.h"
#include "tasks/softmax_loss.h"
#include "tensors.h"

namespace dtn::test {
namespace {

struct Golden {
  TensorFile file = read_safetensors(DTN_TESTS_FOLDER "/golden/losses/weighted.safetensors");

  const Tensor& at(const std::string& name) const { return *file.find(name); }
};

// One case of the file, and the arguments that give its loss.
struct Case {
  std::string name;
  double gamma = 0;
  bool weights = true, smooth = false, mixed = false;
  bool soft = false;  // dense targets instead of two labels and a share
};

std::vector<Case> cases() {
  std::vector<Case> all = {
      {.name = "ce_labels"},
      {.name = "ce_labels_smooth", .smooth = true},
      {.name = "ce_soft", .mixed = true},
      {.name = "ce_soft", .mixed = true, .soft = true},
      {.name = "ce_soft_smooth", .smooth = true, .mixed = true},
      {.name = "focal_labels", .gamma = 2, .weights = false},
      {.name = "focal_labels_weights", .gamma = 0.5},
      {.name = "focal_labels_smooth_weights", .gamma = 3, .smooth = true},
      {.name = "focal_soft", .gamma = 2, .weights = false, .mixed = true},
      {.name = "focal_soft", .gamma = 2, .weights = false, .mixed = true, .soft = true}};
  return all;
}

ops::Targets targets_of(const Golden& golden, const Case& c, DType dtype) {
  ops::Targets targets{golden.at("labels"), {}, c.smooth ? 0.1 : 0};
  if (c.soft) {
    targets.labels = {};
    targets.soft = as(golden.at("soft"), dtype);
  } else if (c.mixed) {
    targets.partner_labels = golden.at("partners");
    targets.label_share = golden.at("share");
  }
  return targets;
}

struct Results {
  double loss;
  Tensor gradient;
};

Results with_gradient(const Golden& golden, DType dtype,
                      const std::function<Variable(Context&, const Variable&)>& loss_of) {
  const Variable logits(as(golden.at("logits"), dtype).clone(), true);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  const Variable loss = loss_of(ctx, logits);
  tape.backward(loss);
  return {element(loss.value(), 0), logits.grad()};
}

void expect_near(const Results& got, const Golden& golden, const std::string& name,
                 double tolerance) {
  const double loss = element(golden.at(name + ".loss"), 0);
  EXPECT_NEAR(got.loss, loss, tolerance * loss);
  const Doubles gradient = doubles(golden.at(name + ".gradient"));
  EXPECT_GT(max_abs(gradient), 0.01);
  EXPECT_LT(max_abs_difference(doubles(got.gradient), gradient), tolerance * max_abs(gradient));
}

TEST(WeightedLossGolden, OperationMatchesPyTorchInFloat64) {
  const Golden golden;
  for (const Case& c : cases()) {
    SCOPED_TRACE(cat(c.name, c.soft ? ", dense" : ""));
    const ops::Targets targets = targets_of(golden, c, DType::kFloat64);
    const Tensor weights = c.weights ? golden.at("weights") : Tensor();
    // The sum over labels, where PyTorch takes the weighted mean.
    const auto samples = static_cast<double>(golden.at("labels").numel());
    const double scale =
        c.weights && !c.mixed
            ? samples / element(ops::sum_class_weights(weights, golden.at("labels")), 0)
            : 1;
    for (const bool reference : {false, true}) {
      const Results got =
          with_gradient(golden, DType::kFloat64, [&](Context& ctx, const Variable& z) {
            const ops::ClassWeighting how{weights, c.gamma};
            const Variable mean = reference
                                      ? ops::reference::weighted_cross_entropy(ctx, z, targets, how)
                                      : ops::weighted_cross_entropy(ctx, z, targets, how).mean;
            return primitive::affine(ctx, mean, scale);
          });
      expect_near(got, golden, c.name, 1e-12);
    }
  }
}

// A data set that need not be read, because the weights are given.
struct NoSamples final : SampleSource {
  std::int64_t size() const override { return 0; }
  const std::string& description() const override { return name_; }
  std::vector<FieldSpec> host_fields() const override { return {}; }
  void make(std::int64_t, const SampleKey&, FieldRow&, Workspace&) const override {}
  std::string name_ = "no samples";
};

TEST(WeightedLossGolden, TaskMatchesPyTorchInFloat32) {
  const Golden golden;
  for (const Case& c : cases()) {
    if (c.soft) continue;  // a task has labels
    SCOPED_TRACE(c.name);
    ExperimentConfig config;
    config.model.num_classes = static_cast<int>(golden.at("weights").numel());
    if (c.weights) config.train.class_weights.values = doubles(golden.at("weights"));
    if (c.gamma > 0) config.train.loss = LossKind::kFocal;
    if (c.gamma > 0) config.train.focal_gamma = c.gamma;
    SoftmaxLoss loss(config, kCpu);
    loss.learn_classes(NoSamples());
    const ops::Targets targets = targets_of(golden, c, DType::kFloat32);
    const Results got =
        with_gradient(golden, DType::kFloat32,
                      [&](Context& ctx, const Variable& z) { return loss.loss(ctx, z, targets); });
    expect_near(got, golden, c.name, 1e-6);
  }
}

}  // namespace
}  // namespace dtn::test
