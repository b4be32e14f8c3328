// The shipped configs, and finding configs by name.
#include <unistd.h>

#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

namespace fs = std::filesystem;

fs::path configs() { return fs::path(find_config("vit_t_ln")).parent_path().parent_path(); }

TEST(ShippedConfigs, PaperExperiments) {
  for (const char* size : {"vit_t", "vit_t_star", "vit_s", "vit_s_star", "vit_b", "vit_b_star"}) {
    for (const char* norm : {"ln", "dtn"}) {
      const std::string name = std::string(size) + "_" + norm;
      SCOPED_TRACE(name);
      const ExperimentConfig c = load_experiment(find_config(name), {}, fake_schemas());
      EXPECT_EQ(c.model.preset, size);
      EXPECT_EQ(c.model.norm.type, norm);
      EXPECT_EQ(c.model.norm_layers(), 10);
      EXPECT_EQ(c.model.drop_path, 0.1);
      EXPECT_EQ(c.data.dataset, "imagefolder");
      EXPECT_EQ(c.data.root, "data/imagenet");
      EXPECT_TRUE(c.augment == augment_preset(AugmentPreset::kDeit));
      EXPECT_EQ(c.optim.lr, 5e-4);
      EXPECT_EQ(c.optim.lr_scale_batch, 512);
      EXPECT_EQ(c.optim.weight_decay, 0.05);
      EXPECT_EQ(c.schedule.epochs, 300);
      EXPECT_EQ(c.schedule.warmup_epochs, 5);
      EXPECT_EQ(c.schedule.warmup_lr, 1e-6);
      EXPECT_EQ(c.schedule.min_lr, 1e-5);
      EXPECT_EQ(c.train.batch_size, 1024);
      EXPECT_EQ(c.train.label_smoothing, 0.1);
      // The overrides of a benchmark or a short trial.
      const std::vector<std::string> trial = {"train.batch_size=16", "train.precision=bf16",
                                              "data.dataset=synthetic", "schedule.steps=3"};
      EXPECT_EQ(load_experiment(find_config(name), trial, fake_schemas()).train.batch_size, 16);
    }
  }
}

TEST(ShippedConfigs, Recipes) {
  const auto load = [](const char* name, const std::vector<std::string>& set) {
    return load_experiment(find_config(name), set, fake_schemas());
  };
  const std::vector<std::string> model = {"model.preset=vit_s_star"};
  const ExperimentConfig deit = load("deit", model);
  EXPECT_EQ(deit.augment.policy, "rand-m9-mstd0.5-inc1");
  EXPECT_EQ(deit.augment.scale_min, 0.08);
  EXPECT_EQ(deit.augment.hflip, 0.5);
  EXPECT_EQ(deit.augment.color_jitter, 0);
  EXPECT_EQ(deit.augment.erase, 0.25);
  EXPECT_EQ(deit.augment.mixup, 0.8);
  EXPECT_EQ(deit.augment.cutmix, 1);
  EXPECT_EQ(deit.augment.mix_chance, 1);
  EXPECT_EQ(deit.augment.mix_switch, 0.5);
  EXPECT_EQ(deit.augment.repeats, 3);
  EXPECT_EQ(deit.data.crop_pct, 0.875);
  EXPECT_FALSE(deit.train.ema);

  const ExperimentConfig official = load("official", model);
  EXPECT_TRUE(official.augment == augment_preset(AugmentPreset::kOfficial));
  EXPECT_EQ(official.augment.policy, deit.augment.policy);
  EXPECT_EQ(official.augment.repeats, 3);
  EXPECT_EQ(official.augment.erase, 0);
  EXPECT_FALSE(official.augment.mixes());
  EXPECT_EQ(official.train.ema, 0.99996);
  EXPECT_EQ(official.train.best, BestBy::kEma);
  EXPECT_EQ(official.train.label_smoothing, 0.1);

  const ExperimentConfig three = load("deit3", model);
  EXPECT_TRUE(three.augment == augment_preset(AugmentPreset::kDeit3));
  EXPECT_EQ(three.augment.policy, "three");
  EXPECT_EQ(three.augment.color_jitter, 0.3);
  EXPECT_EQ(three.data.crop_pct, 1);
  EXPECT_EQ(three.train.label_smoothing, 0);
  EXPECT_EQ(three.train.loss, LossKind::kBinary);
  EXPECT_EQ(three.train.bce_target_threshold, 0);
  EXPECT_FALSE(three.train.bce_sum);
  EXPECT_EQ(three.train.batch_size, 2048);
  EXPECT_EQ(three.optim.name, "lamb");
  EXPECT_EQ(three.optim.lr, 3e-3);
  EXPECT_EQ(three.optim.lr_scale_batch, std::nullopt);
  EXPECT_EQ(three.optim.weight_decay, 0.05);
  EXPECT_EQ(three.schedule.epochs, 800);
  EXPECT_EQ(three.schedule.warmup_epochs, 5);
  EXPECT_EQ(three.schedule.warmup_lr, 1e-6);
  EXPECT_EQ(three.schedule.min_lr, 1e-5);
  EXPECT_EQ(three.model.layer_scale, 1e-4);
  EXPECT_EQ(three.model.drop_path_mode, DropPathMode::kConstant);

  const ExperimentConfig taught = load("deit_distilled", {"model.preset=deit_small"});
  EXPECT_TRUE(taught.model.distilled);
  EXPECT_EQ(taught.distill.teacher, "runs/teacher");
  EXPECT_EQ(taught.distill.type, DistillType::kHard);
  EXPECT_EQ(taught.distill.alpha, 0.5);
  EXPECT_TRUE(taught.augment == deit.augment);

  // Images of 32 x 32: mild augmentation in a short run. A long run has the full DeiT augmentation,
  // but no crops of a few pixels.
  EXPECT_EQ(load("images32_dtn", {}).augment.policy, "none");
  AugmentConfig strong = augment_preset(AugmentPreset::kDeit);
  strong.scale_min = 0.25;
  EXPECT_TRUE(load("images32_dtn_deit", {}).augment == strong);
}

TEST(ShippedConfigs, Quickstart) {
  const ExperimentConfig c = load_experiment(find_config("fashion_mnist_dtn"), {}, fake_schemas());
  EXPECT_EQ(c.model.norm.type, "dtn");
  EXPECT_GT(c.model.norm_layers(), 0);
  EXPECT_EQ(c.model.image_size, 28);
  EXPECT_EQ(c.model.channels, 1);
  EXPECT_EQ(c.model.num_classes, 10);
  EXPECT_EQ(c.data.dataset, "idx");
  EXPECT_EQ(c.data.root, "/usr/share/datasets/fashion-mnist");
}

TEST(FindConfig, FindsByPathAndName) {
  EXPECT_EQ(find_config("vit_s_star_dtn"), find_config("vit_s_star_dtn.yaml"));
  EXPECT_EQ(find_config("imagenet/vit_s_star_dtn"), find_config("vit_s_star_dtn"));
  EXPECT_TRUE(fs::is_regular_file(find_config("deit")));
  TempFolder folder;
  const std::string file = folder.write("mine.yaml", "model: {preset: vit_t}");
  EXPECT_EQ(find_config(file), file);

  const std::string error = error_of([] { find_config("vit_s_star_dtm.yaml"); });
  expect_contains(error, "no config 'vit_s_star_dtm.yaml'; did you mean 'vit_s_star_dtn'?");
  expect_contains(error, configs().string());
  error_of([&] { find_config(folder.path().string()); });
  error_of([] { find_config(""); });
  error_of([] { find_config("."); });
  error_of([] { find_config("s_star_dtn"); });  // needs the whole name, not its end
}

TEST(FindConfig, SearchesDtnConfigsFirst) {
  TempFolder folder;
  const std::string file = folder.write("vit_t_ln.yaml", "model: {preset: vit_t}");
  const std::string shipped = find_config("vit_t_dtn");
  setenv("DTN_CONFIGS", ("/absent:" + folder.path().string()).c_str(), 1);
  EXPECT_EQ(find_config("vit_t_ln"), file);
  EXPECT_EQ(find_config("vit_t_dtn"), shipped);
  expect_contains(error_of([] { find_config("vit_x"); }), folder.path().string());
  unsetenv("DTN_CONFIGS");
}

TEST(FindConfig, DoesNotDependOnWorkingDirectory) {
  const std::string before = find_config("fashion_mnist_dtn");
  const fs::path here = fs::current_path();
  TempFolder folder;
  fs::current_path(folder.path());
  EXPECT_EQ(find_config("fashion_mnist_dtn"), before);
  fs::current_path(here);
}

}  // namespace
}  // namespace dtn::testing
