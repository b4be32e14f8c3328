// The configs that come with the source, and finding them by name.
#include <unistd.h>

#include "unit/config/helpers.h"

namespace dtn::testing {
namespace {

namespace fs = std::filesystem;

fs::path configs() { return fs::path(find_config("vit_t_ln")).parent_path().parent_path(); }

TEST(Shipped, PaperExperiments) {
  for (const char* size : {"vit_t", "vit_t_star", "vit_s", "vit_s_star", "vit_b", "vit_b_star"}) {
    for (const char* norm : {"ln", "dtn"}) {
      const std::string name = std::string(size) + "_" + norm;
      SCOPED_TRACE(name);
      const ExperimentConfig c = load_experiment(find_config(name), {}, fake_norms());
      EXPECT_EQ(c.model.preset, size);
      EXPECT_EQ(c.model.norm.type, norm);
      EXPECT_EQ(c.model.norm_layers(), 10);
      EXPECT_EQ(c.model.drop_path, 0.1);
      EXPECT_EQ(c.data.dataset, "imagefolder");
      EXPECT_EQ(c.data.root, "data/imagenet");
      EXPECT_EQ(c.augment.preset, AugmentPreset::kLight);
      EXPECT_EQ(c.optim.lr, 5e-4);
      EXPECT_EQ(c.optim.lr_scale_batch, 512);
      EXPECT_EQ(c.optim.weight_decay, 0.05);
      EXPECT_EQ(c.schedule.epochs, 300);
      EXPECT_EQ(c.schedule.warmup_epochs, 5);
      EXPECT_EQ(c.schedule.warmup_lr, 1e-6);
      EXPECT_EQ(c.schedule.min_lr, 1e-5);
      EXPECT_EQ(c.train.batch_size, 1024);
      EXPECT_EQ(c.train.label_smoothing, 0.1);
      // The overrides a benchmark or a short trial makes.
      const std::vector<std::string> trial = {"train.batch_size=16", "train.precision=bf16",
                                              "data.dataset=synthetic", "schedule.steps=3"};
      EXPECT_EQ(load_experiment(find_config(name), trial, fake_norms()).train.batch_size, 16);
    }
  }
}

TEST(Shipped, Quickstart) {
  const ExperimentConfig c = load_experiment(find_config("fashion_mnist_dtn"), {}, fake_norms());
  EXPECT_EQ(c.model.norm.type, "dtn");
  EXPECT_GT(c.model.norm_layers(), 0);
  EXPECT_EQ(c.model.image_size, 28);
  EXPECT_EQ(c.model.channels, 1);
  EXPECT_EQ(c.model.num_classes, 10);
  EXPECT_EQ(c.data.dataset, "idx");
  EXPECT_EQ(c.data.root, "/usr/share/datasets/fashion-mnist");
}

TEST(Find, ByPathByNameAndNot) {
  EXPECT_EQ(find_config("vit_s_star_dtn"), find_config("vit_s_star_dtn.yaml"));
  EXPECT_EQ(find_config("imagenet/vit_s_star_dtn"), find_config("vit_s_star_dtn"));
  EXPECT_TRUE(fs::is_regular_file(find_config("deit")));
  TempFolder folder;
  const std::string file = folder.write("mine.yaml", "model: {preset: vit_t}");
  EXPECT_EQ(find_config(file), file);

  const std::string error = error_of([] { find_config("vit_s_star_dtm.yaml"); });
  expect_contains(error, "no config 'vit_s_star_dtm.yaml'; did you mean 'vit_s_star_dtn'?");
  expect_contains(error, configs().string());
  expect_contains(error, "share/dtn/configs");
  error_of([&] { find_config(folder.path().string()); });
  error_of([] { find_config(""); });
  error_of([] { find_config("."); });
  error_of([] { find_config("s_star_dtn"); });  // a name is whole, not the end of one
}

TEST(Find, DoesNotDependOnTheFolderOneIsIn) {
  const std::string before = find_config("fashion_mnist_dtn");
  const fs::path here = fs::current_path();
  TempFolder folder;
  fs::current_path(folder.path());
  EXPECT_EQ(find_config("fashion_mnist_dtn"), before);
  fs::current_path(here);
}

}  // namespace
}  // namespace dtn::testing
