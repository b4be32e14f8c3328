#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>

#include "data/source/split_folders.h"
#include "data_fixtures.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;

class ImageFolderTest : public testing::Test {
 protected:
  ImageFolderTest() {
    data.dataset = "imagefolder";
    data.root = dir.string();
    model.num_classes = 3;
  }
  fs::path at(const std::string& name) {
    fs::create_directories((dir.path() / name).parent_path());
    return dir.path() / name;
  }
  void bmp(const std::string& name, std::uint32_t seed = 1) {
    write_bytes(at(name), bmp_file(5, 4, noise(60, seed)));
  }
  std::unique_ptr<Dataset> open(Split split = Split::kTrain) {
    return open_dataset(data, model, split, 0);
  }
  std::vector<std::string> names(const Dataset& set) {
    std::vector<std::string> out;
    for (std::int64_t i = 0; i < set.size(); ++i) {
      out.push_back(set.sample_name(i).substr(dir.string().size() + 1));
    }
    return out;
  }
  TempFolder dir;
  DataConfig data;
  ModelConfig model;
};

TEST_F(ImageFolderTest, SortsClassesAndFilesByBytes) {
  for (const char* name :
       {"train/b/2.bmp", "train/b/10.bmp", "train/b/x.BMP", "train/B/1.bmp", "train/a/0.bmp",
        "train/a/s-t/1.bmp", "train/a/s/t/1.bmp", "train/a/s/2.bmp", "train/a/z.bmp"}) {
    bmp(name);
  }
  auto set = open();
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"B", "a", "b"}));
  // Files of a folder come before those of its subfolders; "s-t" sorts before "s/t".
  EXPECT_EQ(names(*set),
            (std::vector<std::string>{"train/B/1.bmp", "train/a/0.bmp", "train/a/z.bmp",
                                      "train/a/s/2.bmp", "train/a/s-t/1.bmp", "train/a/s/t/1.bmp",
                                      "train/b/10.bmp", "train/b/2.bmp", "train/b/x.BMP"}));
  EXPECT_EQ(set->label(0), 0);
  EXPECT_EQ(set->label(4), 1);
  EXPECT_EQ(set->label(8), 2);
}

TEST_F(ImageFolderTest, LoadsBmpPngAndJpeg) {
  Bytes rgb = noise(60, 9);
  write_bytes(at("train/a/1.bmp"), bmp_file(5, 4, rgb));
  ASSERT_TRUE(stbi_write_png(at("train/a/2.png").c_str(), 5, 4, 3, rgb.data(), 15));
  ASSERT_TRUE(stbi_write_jpg(at("train/a/3.jpeg").c_str(), 5, 4, 3, rgb.data(), 95));
  auto set = open();
  ASSERT_EQ(set->size(), 3);
  SampleWorkspace workspace;
  for (std::int64_t i = 0; i < 3; ++i) {
    Sample sample = set->load(i, workspace);
    EXPECT_EQ(workspace.name, set->sample_name(i));
    Image image = decode_image(sample.encoded, workspace.name);
    EXPECT_EQ(image.width, 5);
    EXPECT_EQ(image.height, 4);
    if (i < 2) {
      EXPECT_EQ(image.pixels, rgb);
    }
  }
}

TEST_F(ImageFolderTest, SkipsFilesThatAreNotImages) {
  bmp("train/a/1.bmp");
  bmp("train/.cache/1.bmp");
  bmp("train/a/._1.bmp");
  bmp("train/a/.thumbs/1.bmp");
  write_bytes(at("train/a/notes.txt"), {1});
  write_bytes(at("train/a/2.tif"), {1});
  write_bytes(at("train/stray.bmp"), {1});
  EXPECT_EQ(names(*open()), (std::vector<std::string>{"train/a/1.bmp"}));
}

TEST_F(ImageFolderTest, FollowsLinksWithoutCycles) {
  bmp("elsewhere/b/1.bmp");
  bmp("train/a/1.bmp");
  fs::create_directory_symlink(dir.path() / "elsewhere/b", dir.path() / "train/b");
  EXPECT_EQ(names(*open()), (std::vector<std::string>{"train/a/1.bmp", "train/b/1.bmp"}));
  fs::create_directory_symlink(".", dir.path() / "train/a/self");
  expect_error<DataError>([&] { open(); }, {"self", "circle"});
}

TEST_F(ImageFolderTest, OpensOnlyItsSplit) {
  bmp("val/a/1.bmp");
  EXPECT_EQ(open(Split::kVal)->size(), 1);
  expect_error<DataError>([&] { open(Split::kTrain); }, {"train", "data.root"});
  data.train = "val";
  EXPECT_EQ(open(Split::kTrain)->size(), 1);
  data.val = "test";
  expect_error<DataError>([&] { open(Split::kVal); }, {(dir.path() / "test").string()});
}

// Validation labels follow the class names of the training split, whichever classes are present.
TEST_F(ImageFolderTest, ValidationUsesTrainingClasses) {
  for (const char* name : {"train/a/1.bmp", "train/b/1.bmp", "train/c/1.bmp", "val/c/1.bmp"}) {
    bmp(name);
  }
  fs::create_directories(dir.path() / "val/b");  // a class without images
  auto set = open(Split::kVal);
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"a", "b", "c"}));
  ASSERT_EQ(set->size(), 1);
  EXPECT_EQ(set->label(0), 2);
  bmp("val/aa/1.bmp");
  expect_error<DataError>([&] { open(Split::kVal); }, {"val/aa", "not among the 3", "train"});
  fs::remove_all(dir.path() / "val/aa");
  fs::remove_all(dir.path() / "val/c");
  expect_error<DataError>([&] { open(Split::kVal); }, {"val", "no images"});
}

TEST_F(ImageFolderTest, FindsAlternativeValidationFolders) {
  bmp("validation/a/1.bmp");
  bmp("test/a/1.bmp");
  EXPECT_EQ(names(*open(Split::kVal)), (std::vector<std::string>{"validation/a/1.bmp"}));
  fs::rename(dir.path() / "validation", dir.path() / "valid");
  EXPECT_EQ(names(*open(Split::kVal)), (std::vector<std::string>{"valid/a/1.bmp"}));
  take_test_split(data);
  EXPECT_FALSE(data.val);
  bmp("val/a/1.bmp");
  EXPECT_EQ(names(*open(Split::kVal)), (std::vector<std::string>{"val/a/1.bmp"}));
  fs::remove_all(dir.path() / "val");
  fs::remove_all(dir.path() / "valid");
  expect_error<DataError>([&] { open(Split::kVal); },
                          {"val", "data.val"});  // training does not use test
  take_test_split(data);
  EXPECT_EQ(names(*open(Split::kVal)), (std::vector<std::string>{"test/a/1.bmp"}));
}

TEST_F(ImageFolderTest, KnowsIfThereAreValidationImages) {
  bmp("train/1.bmp");
  bmp("test/a/1.bmp");
  EXPECT_FALSE(has_validation_images(data)) << "the test images are not taken unasked";
  bmp("valid/1.bmp");
  EXPECT_TRUE(has_validation_images(data));
  fs::remove_all(dir.path() / "valid");
  data.val = "elsewhere";
  EXPECT_TRUE(has_validation_images(data)) << "its absence is an error when it is opened";
  data.val.reset();
  data.dataset = "cifar10";
  EXPECT_TRUE(has_validation_images(data));
}

TEST_F(ImageFolderTest, KnowsIfThereAreTrainingImages) {
  bmp("val/a/1.bmp");
  EXPECT_FALSE(has_training_images(data));
  data.train = "val";
  EXPECT_TRUE(has_training_images(data));
  data.train.reset();
  data.split = 0.5;
  EXPECT_TRUE(has_training_images(data)) << "the folder itself holds the images";
  data.split.reset();
  data.dataset = "cifar10";
  EXPECT_TRUE(has_training_images(data));
}

// The registry opens images without class folders only where labels are not needed.
TEST_F(ImageFolderTest, ImagesWithoutClassFoldersHaveNoLabels) {
  bmp("train/2.bmp");
  bmp("train/1.bmp");
  const auto set = open_unlabelled(data, model, Split::kTrain, 0);
  EXPECT_FALSE(set->has_labels());
  EXPECT_EQ(names(*set), (std::vector<std::string>{"train/1.bmp", "train/2.bmp"}));
  EXPECT_FALSE(open_for_views(data, model, Split::kTrain, 0)->has_labels());
  expect_error<DataError>([&] { open_dataset(data, model, Split::kTrain, 0); },
                          {"train", "no class folders"});
  bmp("train/a/1.bmp");
  model.num_classes = 1;
  EXPECT_TRUE(open_unlabelled(data, model, Split::kTrain, 0)->has_labels());
}

// Labels follow the order of the classes; samples stay in the order of their files.
TEST_F(ImageFolderTest, NaturalOrderMatchesTimm) {
  for (int i = 0; i < 12; ++i) bmp("train/" + std::to_string(i) + "/1.bmp");
  model.num_classes = 12;
  const auto labels = [&] {
    std::vector<std::int64_t> all;
    const auto set = open();
    for (std::int64_t i = 0; i < set->size(); ++i) all.push_back(set->label(i));
    return all;
  };
  const std::vector<std::string> files = names(*open());
  EXPECT_EQ(files[2], "train/10/1.bmp");
  EXPECT_EQ(labels(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  data.class_order = ClassOrder::kNatural;
  EXPECT_EQ(names(*open()), files);
  EXPECT_EQ(labels(), (std::vector<std::int64_t>{0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(open()->class_names()[10], "10");
}

TEST_F(ImageFolderTest, RejectsDanglingLinks) {
  bmp("train/a/1.bmp");
  fs::create_symlink("/nowhere/2.bmp", dir.path() / "train/a/2.bmp");
  expect_error<DataError>([&] { open(); }, {"train/a/2.bmp", "/nowhere/2.bmp", "does not exist"});
  fs::remove(dir.path() / "train/a/2.bmp");
  fs::create_directory_symlink("/nowhere/b", dir.path() / "train/b");
  expect_error<DataError>([&] { open(); }, {"train/b", "/nowhere/b", "does not exist"});
}

TEST_F(ImageFolderTest, ReportsSkippedFiles) {
  for (const char* name : {"train/a/1.bmp", "train/a/2.jfif", "train/a/3.JPE", "train/a/4.avif",
                           "train/a/5.AVIF", "train/a/6", "train/7.bmp"}) {
    bmp(name);
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(names(*open()).size(), 3u);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("2 .avif, 1 image outside a class folder, 1 without an extension"),
            std::string::npos)
      << said;
}

TEST_F(ImageFolderTest, ErrorsNameMissingFolders) {
  fs::create_directories(dir.path() / "train");
  expect_error<DataError>([&] { open(); }, {"train", "no class folders"});
  bmp("train/a/1.bmp");
  fs::create_directories(dir.path() / "train/b");
  expect_error<DataError>([&] { open(); }, {"train/b", "no images"});
  write_bytes(at("train/b/1.tif"), {1});
  expect_error<DataError>([&] { open(); }, {"train/b", "left out: 1 .tif"});
}

TEST_F(ImageFolderTest, RejectsMoreClassesThanModel) {
  for (const char* name : {"train/a/1.bmp", "train/b/1.bmp"}) bmp(name);
  model.num_classes = 1;
  expect_error<DataError>([&] { open(); },
                          {"train/b", "its label 1 is outside [0, 1)", "2 class folders"});
  model.num_classes = 2;
  EXPECT_EQ(open()->num_classes(), 2);
}

TEST_F(ImageFolderTest, DeletedFileIsDataError) {
  bmp("train/a/1.bmp");
  auto set = open();
  fs::remove(dir.path() / "train/a/1.bmp");
  SampleWorkspace workspace;
  expect_error<DataError>([&] { set->load(0, workspace); }, {"train/a/1.bmp"});
}

}  // namespace
}  // namespace dtn
