// Samples that the task diffusion draws, with a small diffusion transformer.
#include <gtest/gtest.h>

#include <algorithm>

#include "dtn/config/load.h"
#include "dtn/models/backbone.h"
#include "dtn/tasks/diffusion.h"
#include "dtn/tasks/registries.h"
#include "independent_images.h"
#include "tasks/diffusion/denoiser.h"
#include "tasks/diffusion/sample_grid.h"
#include "tasks/diffusion/sample_images.h"

namespace dtn::test {
namespace {

ExperimentConfig config_with(const std::string& keys, const std::string& model = "") {
  return parse_experiment("task: diffusion\nmodel: {preset: dit_tiny, depth: 2" + model + "}\n" +
                              "data: {dataset: tensors, train: none.safetensors}\n" + keys,
                          "test", {}, standard_registries().schemas());
}

// A task whose model predicts something.
std::unique_ptr<Diffusion> task_of(const ExperimentConfig& config) {
  auto task = std::make_unique<Diffusion>(TaskSetup{config, kCpu, standard_registries()});
  Tensor values = task->stores().front().value->values();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.data<float>()[i] +=
        0.05f * (philox_uniform({9, 0, 0}, static_cast<std::uint64_t>(i)) - 0.5f);
  }
  return task;
}

TEST(DiffusionPicture, IsDrawnAtItsPeriod) {
  const auto period_of = [](const std::string& keys, const std::string& model = "") {
    return task_of(config_with(keys, model))->picture_period();
  };
  EXPECT_EQ(period_of("train: {checkpoint_every: 7, eval_every: 5}"), (Period{7, false}));
  EXPECT_EQ(period_of("diffusion: {sample_every: 3}"), (Period{3, false}));
  EXPECT_EQ(period_of("diffusion: {sample_every: 0}"), (Period{0, false}));
  EXPECT_EQ(period_of("diffusion: {sample_every: 3}", ", channels: 4"), std::nullopt);
  ExperimentConfig validated = config_with("train: {checkpoint_every: 7, eval_every: 5}");
  validated.data.val = "none.safetensors";
  EXPECT_EQ(task_of(validated)->picture_period(), (Period{5, false}));
}

TEST(DiffusionPicture, ShowsTheClassesInTurn) {
  const ExperimentConfig config =
      config_with("diffusion: {clip: true, sample_count: 13, sample_steps: 3, sample_guidance: 2}");
  const auto task = task_of(config);
  const Image picture = task->picture(DType::kFloat32);
  EXPECT_EQ(picture.width, 4 * 28);
  EXPECT_EQ(picture.height, 4 * 28);
  EXPECT_EQ(picture.channels, 1);
  EXPECT_EQ(task->picture(DType::kFloat32).pixels, picture.pixels);

  const Sampler sampler(config.diffusion,
                        {.steps = 3, .guidance = 2, .no_label = 10, .clip = true});
  SampleRequest request{.labels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2}, .image = {1, 28, 28}};
  const auto draw = [&] {
    return sample_grid(
               sample_images(sampler, denoiser_of(task->model(), DType::kFloat32), kCpu, request))
        .pixels;
  };
  EXPECT_EQ(draw(), picture.pixels);
  request.labels[12] = 3;
  EXPECT_NE(draw(), picture.pixels) << "the label changes nothing";
}

TEST(DiffusionPicture, NeedsNoGuidanceWithoutDroppedLabels) {
  const std::string keys = "diffusion: {sample_count: 2, sample_steps: 2, clip: true";
  const auto with = task_of(config_with(keys + ", sample_guidance: 3}", ", label_dropout: 0"));
  const auto without = task_of(config_with(keys + ", sample_guidance: 1}", ", label_dropout: 0"));
  EXPECT_EQ(with->picture(DType::kFloat32).pixels, without->picture(DType::kFloat32).pixels);
}

// The number of steps is one that DDIM can take.
TEST(DiffusionPicture, WorksForAnyNumberOfSteps) {
  for (const char* steps : {"steps: 1000, sample_steps: 37", "steps: 30, sample_steps: 50",
                            "steps: 1000, sample_steps: 1"}) {
    const auto task = task_of(config_with(cat("diffusion: {sample_count: 1, ", steps, "}")));
    EXPECT_EQ(task->picture(DType::kFloat32).width, 28) << steps;
  }
}

// A sample does not depend on the size of the batch, because the prediction of the model does not.
TEST(DiffusionPicture, SamplesDoNotDependOnTheBatch) {
  const ExperimentConfig config = config_with("", ", learn_sigma: true");
  const auto task = task_of(config);
  for (double guidance : {1.0, 2.0}) {
    const Sampler sampler(config.diffusion, {.kind = SamplerKind::kDdpm,
                                             .steps = 3,
                                             .guidance = guidance,
                                             .no_label = 10,
                                             .clip = true});
    const auto draw = [&](std::int64_t n, std::int64_t batch) {
      SampleRequest request{.labels = {}, .image = {1, 28, 28}, .batch = batch};
      for (std::int64_t i = 0; i < n; ++i) request.labels.push_back(i % 10);
      return sample_images(sampler, denoiser_of(task->model(), DType::kFloat32), kCpu, request);
    };
    const Tensor all = draw(17, 17);
    for (std::int64_t batch : {1, 2, 5, 16}) {
      for (int threads : {1, 3}) {
        Threads scope(threads);
        SCOPED_TRACE(cat("batch ", batch, ", threads ", threads));
        expect_same_images(draw(17, batch), all);
      }
    }
  }
}

}  // namespace
}  // namespace dtn::test
