#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>

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
  TempDir dir;
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
  // A folder's own files come before those of the folders in it; "s-t" sorts before "s/t".
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

TEST_F(ImageFolderTest, LeavesOutWhatIsNoImage) {
  bmp("train/a/1.bmp");
  bmp("train/.cache/1.bmp");
  bmp("train/a/._1.bmp");
  bmp("train/a/.thumbs/1.bmp");
  write_bytes(at("train/a/notes.txt"), {1});
  write_bytes(at("train/a/2.tif"), {1});
  write_bytes(at("train/stray.bmp"), {1});
  EXPECT_EQ(names(*open()), (std::vector<std::string>{"train/a/1.bmp"}));
}

TEST_F(ImageFolderTest, FollowsLinksButNotInCircles) {
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

TEST_F(ImageFolderTest, SplitsMustHaveTheSameClasses) {
  for (const char* name : {"train/a/1.bmp", "train/b/1.bmp", "val/a/1.bmp"}) bmp(name);
  expect_error<DataError>([&] { open(Split::kVal); }, {"class 1", "nothing", "'b'"});
  bmp("val/aa/1.bmp");
  expect_error<DataError>([&] { open(Split::kVal); }, {"class 1", "'aa'", "'b'"});
  fs::rename(dir.path() / "val/aa", dir.path() / "val/b");
  EXPECT_EQ(open(Split::kVal)->size(), 2);
  bmp("val/c/1.bmp");
  expect_error<DataError>([&] { open(Split::kVal); }, {"class 2", "'c'", "nothing"});
}

TEST_F(ImageFolderTest, NamesWhatIsMissing) {
  fs::create_directories(dir.path() / "train");
  expect_error<DataError>([&] { open(); }, {"train", "no class folders"});
  bmp("train/a/1.bmp");
  fs::create_directories(dir.path() / "train/b");
  expect_error<DataError>([&] { open(); }, {"train/b", "no images"});
  write_bytes(at("train/b/1.tif"), {1});
  expect_error<DataError>([&] { open(); }, {"train/b", "1 in formats that cannot be read"});
}

TEST_F(ImageFolderTest, ClassesMustFitTheModel) {
  for (const char* name : {"train/a/1.bmp", "train/b/1.bmp"}) bmp(name);
  model.num_classes = 1;
  expect_error<DataError>([&] { open(); }, {"train/b", "class index 1", "2 class folders"});
  model.num_classes = 2;
  EXPECT_EQ(open()->num_classes(), 2);
}

TEST_F(ImageFolderTest, AFileThatWentAwayIsADataError) {
  bmp("train/a/1.bmp");
  auto set = open();
  fs::remove(dir.path() / "train/a/1.bmp");
  SampleWorkspace workspace;
  expect_error<DataError>([&] { set->load(0, workspace); }, {"train/a/1.bmp"});
}

}  // namespace
}  // namespace dtn
