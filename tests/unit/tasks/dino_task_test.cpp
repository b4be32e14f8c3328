// The task dino: defaults, recipe and head of the public code.
#include <cmath>

#include "dtn/config/load.h"
#include "dtn/tasks/registries.h"
#include "tasks/dino_net.h"
#include "tensors.h"

namespace dtn::test {
namespace {

TEST(DinoTask, DefaultsAreThoseOfThePublicCode) {
  const DinoConfig dino;
  EXPECT_EQ(dino.out_dim, 65536);
  EXPECT_EQ(dino.hidden_dim, 2048);
  EXPECT_EQ(dino.bottleneck_dim, 256);
  EXPECT_TRUE(dino.norm_last_layer);
  EXPECT_EQ(dino.freeze_last_layer_epochs, 1);
  EXPECT_EQ(dino.student_temp, 0.1);
  EXPECT_EQ(dino.teacher_temp, 0.04);
  EXPECT_EQ(dino.warmup_teacher_temp, 0.04);
  EXPECT_EQ(dino.warmup_teacher_temp_epochs, 0);
  EXPECT_EQ(dino.center_momentum, 0.9);
  EXPECT_EQ(dino.teacher_momentum, 0.996);
  EXPECT_EQ(dino.local_crops, 8);
  EXPECT_EQ(dino.local_size, 96);
  EXPECT_EQ(dino.global_scale_min, 0.4);
  EXPECT_EQ(dino.global_scale_max, 1);
  EXPECT_EQ(dino.local_scale_min, 0.05);
  EXPECT_EQ(dino.local_scale_max, 0.4);
  const SupconConfig supcon;
  EXPECT_EQ(supcon.temperature, 0.07);
  EXPECT_FALSE(supcon.base_temperature);
  EXPECT_EQ(supcon.views, 2);
  EXPECT_FALSE(supcon.hidden_dim);
  EXPECT_EQ(supcon.feat_dim, 128);
}

TEST(DinoTask, ShippedRecipeIsThatOfThePublicCode) {
  const ConfigSchemas schemas = standard_registries().schemas();
  for (const char* name :
       {"dino_vit_s_ln", "dino_vit_s_dtn", "dino_vit_s_star_ln", "dino_vit_s_star_dtn"}) {
    SCOPED_TRACE(name);
    const ExperimentConfig config = load_experiment(find_config(name, schemas), {}, schemas);
    EXPECT_EQ(config.task, "dino");
    EXPECT_EQ(config.dino, DinoConfig());
    EXPECT_EQ(config.model.drop_path, 0.1);
    EXPECT_EQ(config.optim.name, "adamw");
    EXPECT_EQ(config.optim.lr, 5e-4);
    EXPECT_EQ(config.optim.lr_scale_batch, 256);
    EXPECT_EQ(config.optim.weight_decay, 0.04);
    EXPECT_EQ(config.optim.weight_decay_end, 0.4);
    EXPECT_EQ(config.optim.clip_param_norm, 3);
    EXPECT_EQ(config.schedule.name, "dino");
    EXPECT_EQ(config.schedule.epochs, 100);
    EXPECT_EQ(config.schedule.warmup_epochs, 10);
    EXPECT_EQ(config.schedule.warmup_lr, 0);
    EXPECT_EQ(config.schedule.min_lr, 1e-6);
    EXPECT_EQ(config.train.batch_size, 512);
  }
}

TEST(DinoTask, HeadHasTheParametersOfThePublicCode) {
  for (const auto& [channels, count] : {std::pair(384, 22352128), {432, 22450432}}) {
    ParameterStore store;
    DinoHead(Scope{store, "head", nullptr}, channels, DinoConfig());
    EXPECT_EQ(store.count(), count);
  }
}

// PyTorch draws v uniformly between -1 / sqrt(bottleneck) and 1 / sqrt(bottleneck).
TEST(DinoTask, HeadStartsAsInThePublicCode) {
  DinoConfig config;
  config.out_dim = 400;
  config.hidden_dim = 64;
  config.bottleneck_dim = 25;
  ParameterStore store;
  const DinoHead head(Scope{store, "head", nullptr}, 48, config);
  store.allocate();
  store.initialize(3);
  for (const double g : doubles(head.gain().value())) EXPECT_EQ(g, 1);
  double least = 0, most = 0, squares = 0;
  const Doubles v = doubles(head.direction().value());
  for (const double x : v) {
    least = std::min(least, x);
    most = std::max(most, x);
    squares += x * x / static_cast<double>(v.size());
  }
  EXPECT_GE(least, -0.2);
  EXPECT_LT(least, -0.199);
  EXPECT_LE(most, 0.2);
  EXPECT_GT(most, 0.199);
  EXPECT_NEAR(squares, 0.04 / 3, 0.0004);
  for (const Parameter& p : store.parameters()) {
    if (!p.name.ends_with(".bias")) continue;
    for (const double b : doubles(p.variable.value())) EXPECT_EQ(b, 0) << p.name;
  }
}

}  // namespace
}  // namespace dtn::test
