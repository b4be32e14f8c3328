// Validation and training images of the tasks dino and supcon: labels of the classes, and errors.
#include "tasks/view_sources.h"

#include "data/feed/field_buffers.h"
#include "data/source/pack.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"
#include "tasks/frozen/image_splits.h"
#include "tensors.h"
#include "unit/data/data_fixtures.h"

namespace dtn::test {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class ViewSourcesTest : public ::testing::Test {
 protected:
  ViewSourcesTest() {
    config.task = "dino";
    config.model.image_size = 8;
    config.model.num_classes = 0;
    config.augment.preset = AugmentPreset::kDino;
    config.data.dataset = "packed";
    config.data.root = dir.string();
    config.data.train = "train.packed";
    config.data.val = "val.packed";
  }

  void write_image(const fs::path& path) {
    write_bytes(dir.path() / path, bmp_file(8, 8, noise(192, 3)));
  }
  // Packs one image of each class, so that the classes of the file are exactly these.
  void pack(const std::string& name, const Names& classes) {
    for (const std::string& each : classes) write_image(fs::path(name) / "train" / each / "0.bmp");
    DataConfig folder;
    folder.root = (dir.path() / name).string();
    pack_dataset(*open_image_folder(folder, config.model, Split::kTrain),
                 dir.path() / (name + ".packed"), {});
  }
  std::shared_ptr<const SampleSource> validation() {
    return ViewSources(config, standard_registries()).validation(kCpu);
  }
  std::shared_ptr<const SampleSource> references() {
    return ViewSources(config, standard_registries()).references(kCpu);
  }
  static std::vector<std::int64_t> labels_of(const SampleSource& source) {
    Fields fields;
    for (const FieldSpec& spec : source.host_fields()) {
      fields[spec.name] = allocate_rows(spec, 1, kCpu);
    }
    const auto workspace = source.make_workspace();
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < source.size(); ++i) {
      FieldRow row(fields, 0);
      source.make(i, {}, row, *workspace);
      labels.push_back(*fields.at("label").data<std::int64_t>());
    }
    return labels;
  }

  TempFolder dir;
  ExperimentConfig config;
};

TEST_F(ViewSourcesTest, ValidationHasTheLabelsOfTheTrainingImages) {
  pack("train", {"cat", "dog", "fish"});
  pack("val", {"dog", "fish"});
  EXPECT_EQ(labels_of(*references()), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(labels_of(*validation()), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(validation()->class_names(), references()->class_names());
  // The images of dtn-eval.
  const auto training = open_training_images(config, standard_registries());
  const auto images = open_validation_images(config, *training, standard_registries());
  EXPECT_EQ(images->label(0), 1);
  EXPECT_EQ(open_validation_images(config, standard_registries())->label(0), 0);
}

TEST_F(ViewSourcesTest, UnknownClassIsAnError) {
  pack("train", {"cat", "dog"});
  pack("val", {"cat", "zebra"});
  expect_error<DataError>([&] { validation(); }, {"val.packed", "'zebra'", "'cat', 'dog'"});
}

TEST_F(ViewSourcesTest, NoValidationWithoutItsKey) {
  config.data.val.reset();
  EXPECT_FALSE(validation());
}

TEST_F(ViewSourcesTest, HeldOutImagesAreTheValidation) {
  config.data = {};
  config.data.dataset = "imagefolder";
  config.data.root = dir.string();
  config.data.split = 0.5;
  for (int i = 0; i < 4; ++i) {
    write_image(cat("train/cat/", i, ".bmp"));
    write_image(cat("train/dog/", i, ".bmp"));
  }
  EXPECT_EQ(validation()->size() + references()->size(), 8);
  config.data.train = "train/cat";
  expect_error<DataError>([&] { validation(); }, {"has no labels", "unset data.split"});
}

TEST_F(ViewSourcesTest, TrainingImagesNeedLabels) {
  config.data = {};
  config.data.dataset = "imagefolder";
  config.data.root = dir.string();
  config.data.val = "val";
  write_image("train/0.bmp");
  write_image("val/cat/0.bmp");
  const Names parts{"has no labels", "nearest training images", "unset data.val"};
  expect_error<DataError>([&] { validation(); }, parts);
  expect_error<DataError>([&] { references(); }, parts);
}

TEST_F(ViewSourcesTest, ValidationImagesNeedLabels) {
  config.data = {};
  config.data.dataset = "imagefolder";
  config.data.root = dir.string();
  config.data.val = "val";
  write_image("train/cat/0.bmp");
  write_image("val/0.bmp");
  expect_error<DataError>([&] { validation(); }, {"val", "has no labels", "unset data.val"});
  // dtn-eval shows their neighbours, without an accuracy.
  const auto training = open_training_images(config, standard_registries());
  EXPECT_TRUE(training->has_labels());
  EXPECT_FALSE(open_validation_images(config, *training, standard_registries())->has_labels());
}

TEST_F(ViewSourcesTest, ListTheTrainingImagesOnce) {
  write_image("train/cat/0.bmp");
  write_image("val/cat/0.bmp");
  config.data = {};
  config.data.dataset = "counted";
  config.data.root = dir.string();
  int opened[2] = {};
  Registries registries;
  registries.datasets.add(
      {{"counted", "", {}}, [&](const auto& data, const auto& model, Split split, std::uint64_t) {
         ++opened[split == Split::kVal];
         return open_image_folder(data, model, split);
       }});
  const ViewSources sources(config, registries);
  EXPECT_TRUE(sources.training_images()->has_labels());
  EXPECT_TRUE(sources.validation(kCpu));
  EXPECT_TRUE(sources.references(kCpu));
  EXPECT_EQ(opened[0], 1);
  EXPECT_EQ(opened[1], 1);
}

// The data set does not read data.val, so the error does not speak of it.
TEST_F(ViewSourcesTest, RemedyIsForTheDataSet) {
  class Unlabelled final : public Dataset {
   public:
    Unlabelled() {
      labels_ = {0};
      has_labels_ = false;
      description_ = "a camera";
    }
    Sample load(std::int64_t, SampleWorkspace&) const override { return {}; }
    std::string sample_name(std::int64_t) const override { return "0"; }
  };
  Registries registries;
  registries.datasets.add({{"camera", "", {}}, [](const auto&...) -> std::unique_ptr<Dataset> {
                             return std::make_unique<Unlabelled>();
                           }});
  config.data = {};
  config.data.dataset = "camera";
  try {
    ViewSources(config, registries).references(kCpu);
    ADD_FAILURE() << "no error";
  } catch (const DataError& e) {
    EXPECT_NE(std::string(e.what()).find("a camera: has no labels"), std::string::npos);
    EXPECT_EQ(std::string(e.what()).find("data.val"), std::string::npos) << e.what();
  }
}

TEST_F(ViewSourcesTest, OtherErrorsSayNothingOfLabels) {
  const auto expect_other = [&](const std::string& part) {
    try {
      references();
      ADD_FAILURE() << "no error";
    } catch (const DataError& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find(part), std::string::npos) << text;
      EXPECT_EQ(text.find("has no labels"), std::string::npos) << text;
      EXPECT_EQ(text.find("data.val"), std::string::npos) << text;
    }
  };
  expect_other("train.packed");  // no such file
  // Given views are no images to evaluate.
  config.data = {};
  config.data.dataset = "tensors";
  config.data.root = dir.string();
  write_safetensors(dir.path() / "train.safetensors",
                    {{"global", Tensor::zeros({2, 2, 3, 8, 8}, DType::kFloat32)},
                     {"labels", Tensor::zeros({2}, DType::kInt64)}});
  expect_other("has no tensor 'images'");
}

}  // namespace
}  // namespace dtn::test
