// The task diffusion: checks of its config, its meter, and its terms.
#include "dtn/config/load.h"
#include "dtn/core/check.h"
#include "dtn/models/presets.h"
#include "dtn/tasks/diffusion.h"
#include "dtn/tasks/registries.h"
#include "tasks/diffusion/checks.h"
#include "tasks/diffusion/meter.h"
#include "tensors.h"
#include "texts.h"

namespace dtn::test {
namespace {

ExperimentConfig config_of() {
  ExperimentConfig config;
  config.task = "diffusion";
  config.model = preset_registry().at("dit_tiny").model;
  config.data.dataset = "synthetic";
  return config;
}

TEST(DiffusionChecks, RefuseConfigsThatWouldMeanNothing) {
  EXPECT_FALSE(diffusion_problem(config_of()));
  const auto problem_of = [](auto&& change) {
    ExperimentConfig config = config_of();
    change(config);
    const auto problem = diffusion_problem(config);
    return problem ? problem->message : std::string();
  };
  const auto expect = [&](const std::string& part, auto&& change) {
    expect_contains(problem_of(change), part);
  };
  expect("augment.preset: none", [](auto& c) { c.augment.preset = AugmentPreset::kLight; });
  expect("is larger than", [](auto& c) { c.diffusion.beta_start = 0.03; });
  expect("set diffusion.steps above 20", [](auto& c) { c.diffusion.steps = 20; });
  EXPECT_EQ(problem_of([](auto& c) { c.diffusion.steps = 21; }), "");
}

ExperimentConfig parsed(const std::string& text) {
  return parse_experiment(text, "test", {}, standard_registries().schemas());
}

// Keys of other tasks are errors, except that a base config may have them for another task.
TEST(DiffusionChecks, RefuseKeysThatTheTaskDoesNotRead) {
  const std::string start = "task: diffusion\nmodel: {preset: dit_tiny}\naugment: none\n";
  EXPECT_NO_THROW(parsed(start + "data: {interpolation: bilinear}\n"));
  for (const char* text : {"data: {mean: 0.5}", "data: {std: 0.5}", "data: {crop_pct: 0.9}",
                           "data: {train_interpolation: random}", "train: {label_smoothing: 0.1}",
                           "train: {loss: bce}", "train: {class_weights: balanced}",
                           "train: {loss: focal, focal_gamma: 1}", "data: {sampling: balanced}"}) {
    try {
      parsed(start + text + "\n");
      FAIL() << text;
    } catch (const ConfigError& e) {
      expect_contains(e.what(), " is not read by the task 'diffusion'; it is read by: classify");
    }
  }
  for (const char* text : {"policy: rand-m9", "mixup: 0.8", "erase: 0.25", "scale: [0.5, 1]"}) {
    EXPECT_THROW(parsed(cat("task: diffusion\nmodel: {preset: dit_tiny}\naugment: {preset: none, ",
                            text, "}\n")),
                 ConfigError)
        << text;
  }
  for (const char* text : {"train: {label_smoothing: 0.1}", "train: {class_weights: balanced}",
                           "data: {sampling: balanced}"}) {
    for (const char* task : {"dino", "supcon", "detect"}) {
      expect_error<ConfigError>(
          [&] {
            parsed(cat("task: ", task, "\nmodel: {preset: pvt_tiny",
                       task == std::string("detect") ? ", detector: retinanet" : "", "}\n", text));
          },
          {cat(" is not read by the task '", task, "'; it is read by: classify")});
    }
  }
}

TEST(DiffusionTask, NeedsModelOfImages) {
  ExperimentConfig config = config_of();
  config.model = preset_registry().at("vit_t").model;
  EXPECT_THROW(Diffusion({config, kCpu, standard_registries()}), ConfigError);
}

// Estimates of latent models need no data.
TEST(DiffusionTask, MakesSyntheticLatents) {
  ExperimentConfig config = config_of();
  config.model.channels = 4;
  config.data.size = 12;
  const Diffusion task({config, kMeta, standard_registries()});
  const auto train = task.source(Split::kTrain, kCpu), val = task.source(Split::kVal, kCpu);
  EXPECT_EQ(train->size(), 12);
  EXPECT_EQ(train->host_fields().front().row, Shape({4, 28, 28}));
  const auto image_of = [](const SampleSource& source) {
    Fields fields;
    for (const FieldSpec& spec : source.host_fields()) {
      fields[spec.name] = Tensor::empty(shape_of(spec, 1), spec.dtype);
    }
    FieldRow row(fields, 0);
    const auto workspace = source.make_workspace();
    source.make(3, {}, row, *workspace);
    return fields.at("image");
  };
  const Tensor image = image_of(*train);
  EXPECT_TRUE(same_bits(image, image_of(*train)));
  EXPECT_FALSE(same_bits(image, image_of(*val)));
  double squares = 0;
  for (double v : doubles(image)) squares += v * v / static_cast<double>(image.numel());
  EXPECT_NEAR(squares, 1, 0.2);
}

TEST(DiffusionMeter, AddsInOrderOfIndex) {
  const auto floats = [](std::vector<float> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return Tensor::from(values, {count});
  };
  const auto indices = [](std::vector<std::int64_t> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return Tensor::from(values, {count});
  };
  DiffusionMeter meter(true);
  meter.add({{"index", indices({0, 1})}}, {{"mse", floats({1, 2})}, {"vb", floats({0.5f, 0})}});
  meter.add({{"index", indices({2})}}, {{"mse", floats({6})}, {"vb", floats({1})}});
  const Metrics metrics = meter.result();
  EXPECT_EQ(metrics.primary, "loss");
  EXPECT_FALSE(metrics.higher_is_better);
  EXPECT_DOUBLE_EQ(metrics.at("mse"), 3);
  EXPECT_DOUBLE_EQ(metrics.at("vb"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("loss"), 3.5);

  DiffusionMeter plain(false);
  plain.add({}, {{"mse", floats({1, 2})}});
  EXPECT_DOUBLE_EQ(plain.result().at("loss"), 1.5);
  EXPECT_TRUE(std::isnan(plain.result().at("vb")));
}

// A model that starts with zeros predicts no noise, so the error is the mean square of the noise.
TEST(DiffusionTask, FirstLossIsVarianceOfNoise) {
  ExperimentConfig config = config_of();
  Diffusion task({config, kCpu, standard_registries()});
  constexpr std::int64_t kRows = 4;
  const Shape shape{kRows, 1, 28, 28};
  const Tensor noise = as(random_tensor(shape, 3, 1.7), DType::kFloat32);
  const Fields batch{{"image", as(random_tensor(shape, 2), DType::kFloat32)},
                     {"label", Tensor::from(std::vector<std::int64_t>{0, 9, 10, 3}, {kRows})},
                     {"timestep", Tensor::from(std::vector<std::int64_t>{0, 1, 999, 998}, {kRows})},
                     {"noise", noise}};
  Context ctx;
  std::vector<Term> terms;
  const Variable loss = task.loss(ctx, batch, terms);
  double want = 0;
  for (double v : doubles(noise)) want += v * v / static_cast<double>(noise.numel());
  EXPECT_NEAR(element(loss.value(), 0), want, 1e-5);
  ASSERT_EQ(terms.size(), 5u);
  EXPECT_EQ(terms[0].name, "mse");
  EXPECT_EQ(terms[4].name, "mse_q4");
  EXPECT_EQ(element(terms[1].share, 0), 0.5);
  EXPECT_EQ(element(terms[2].share, 0), 0);
  EXPECT_EQ(element(terms[2].value, 0), 0);
  EXPECT_NEAR(element(terms[1].value, 0) + element(terms[4].value, 0), want, 1e-5);

  task.keep_output();
  const Fields outputs = task.outputs(ctx, batch);
  EXPECT_EQ(outputs.at("output").shape(), shape);
  EXPECT_EQ(max_abs(doubles(outputs.at("output"))), 0);
  EXPECT_FALSE(outputs.has("vb"));
}

}  // namespace
}  // namespace dtn::test
