// Data sets whose labels are in a table: folders, classes, order, and errors that name the line.
#include "data/table/listed_images.h"

#include "data/classes/match_classes.h"
#include "data/source/split_folders.h"
#include "dtn/data/datasets.h"
#include "unit/data/data_fixtures.h"

namespace dtn {
namespace {

using namespace dtn::test;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using Labels = std::vector<std::int64_t>;

class ListedImagesTest : public testing::Test {
 protected:
  ListedImagesTest() {
    data.dataset = "imagefolder";
    data.root = dir.string();
    data.labels = "labels.csv";
    model.num_classes = 0;
  }
  fs::path at(const std::string& name) {
    fs::create_directories((dir.path() / name).parent_path());
    return dir.path() / name;
  }
  void images(const Names& names) {
    for (const std::string& name : names) write_bytes(at(name), bmp_file(2, 2, noise(12, 1)));
  }
  void table(const std::string& name, const std::string& text) { std::ofstream(at(name)) << text; }
  std::unique_ptr<Dataset> open(Split split = Split::kTrain) {
    return open_dataset(data, model, split, 0);
  }
  static Names files(const Dataset& set) {
    Names all;
    for (std::int64_t i = 0; i < set.size(); ++i) all.push_back(set.file_name(i));
    return all;
  }
  static Labels labels(const Dataset& set) {
    Labels all;
    for (std::int64_t i = 0; i < set.size(); ++i) all.push_back(set.label(i));
    return all;
  }
  TempFolder dir;
  DataConfig data;
  ModelConfig model;
};

TEST_F(ListedImagesTest, ReadsFlatSplits) {
  images({"train/1.bmp", "train/2.bmp", "train/3.bmp", "train/unlisted.bmp", "val/1.bmp"});
  table("train/labels.csv", "path,label\n3.bmp,cat\n2.bmp,dog\n1.bmp,cat\n");
  table("val/labels.csv", "1.bmp,dog\n");
  const auto train = open();
  EXPECT_EQ(train->class_names(), (Names{"cat", "dog"}));
  EXPECT_EQ(files(*train), (Names{"1.bmp", "3.bmp", "2.bmp"}));
  EXPECT_EQ(labels(*train), (Labels{0, 0, 1}));
  EXPECT_EQ(train->sample_name(2), at("train/2.bmp").string());
  EXPECT_EQ(train->item_name(2), "dog/2.bmp");
  expect_contains(train->description(), "3 train images of 2 classes in " + at("train").string());
  expect_contains(train->description(), "labels.csv (header path,label)");
  SampleWorkspace workspace;
  EXPECT_FALSE(train->load(2, workspace).encoded.empty());
  EXPECT_EQ(workspace.name, train->sample_name(2));
  const auto val = open(Split::kVal);
  EXPECT_EQ(val->class_names(), (Names{"cat", "dog"})) << "those of the training split";
  EXPECT_EQ(labels(*val), (Labels{1}));
  expect_contains(val->description(), "(no header)");
  EXPECT_EQ(count_classes(data, model, 0, dataset_registry()), 2);
}

TEST_F(ListedImagesTest, ReadsRootWithoutFolderOfSplit) {
  images({"a/1.bmp", "b/2.bmp"});
  table("labels.csv", "a/1.bmp,x\nb/2.bmp,y\n");
  EXPECT_EQ(files(*open()), (Names{"a/1.bmp", "b/2.bmp"}));
  expect_error<DataError>([&] { open(Split::kVal); },
                          {"no such folder", "val", "data.split", "val/<image>"});
  EXPECT_EQ(files(*open_unlabelled(data, model, Split::kTrain, 0)).size(), 2u);
  EXPECT_TRUE(open_for_views(data, model, Split::kTrain, 0)->has_labels());
  data.train = "train";  // a folder that is named must exist
  expect_error<DataError>([&] { open(); }, {"no such folder", "train"});
}

TEST_F(ListedImagesTest, TakesPathsAsTheyAre) {
  images({"train/in.bmp", "elsewhere/out.bmp", "tables/x"});
  data.labels = at("tables/all.tsv").string();
  table("tables/all.tsv", "in.bmp\tx\n" + at("elsewhere/out.bmp").string() + "\ty\n");
  const auto set = open();
  EXPECT_EQ(set->sample_name(0), at("train/in.bmp").string());
  EXPECT_EQ(set->sample_name(1), at("elsewhere/out.bmp").string());
  data.train = at("elsewhere").string();
  table("tables/all.tsv", "out.bmp\ty\n../train/in.bmp\tx\n");
  EXPECT_EQ(files(*open()), (Names{"../train/in.bmp", "out.bmp"}));
}

// A run of class folders and a run of a table see the same samples in the same order.
TEST_F(ListedImagesTest, HasOrderOfClassFolders) {
  const Names all{"train/10/b.bmp", "train/10/a.bmp", "train/10/s/c.bmp",
                  "train/9/a.bmp",  "train/B/x.bmp",  "train/a/x.bmp"};
  images(all);
  std::string text;
  for (const std::string& name : all) {
    const std::string path = name.substr(6);
    text += path + "," + path.substr(0, path.find('/')) + "\n";
  }
  table("train/labels.csv", text);
  for (const auto order : {std::optional<ClassOrder>(), std::optional(ClassOrder::kNatural)}) {
    data.class_order = order;
    data.labels = "labels.csv";
    const auto listed = open();
    data.labels.reset();
    const auto folders = open();
    EXPECT_EQ(listed->class_names(), folders->class_names());
    EXPECT_EQ(labels(*listed), labels(*folders));
    EXPECT_EQ(files(*listed), files(*folders));
  }
}

TEST_F(ListedImagesTest, WarnsOfNumbersSortedAsText) {
  images({"1.bmp", "2.bmp"});
  table("labels.csv", "1.bmp,10\n2.bmp,9\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(open()->class_names(), (Names{"10", "9"}));
  expect_contains(testing::internal::GetCapturedStderr(), "set data.class_order: natural");
  data.class_order = ClassOrder::kNatural;
  EXPECT_EQ(open()->class_names(), (Names{"9", "10"}));
}

TEST_F(ListedImagesTest, RejectsLabelThatTrainingLacks) {
  images({"train/1.bmp", "train/2.bmp", "val/1.bmp", "val/2.bmp", "val/3.bmp"});
  table("train/labels.csv", "1.bmp,cat\n2.bmp,dog\n");
  table("val/labels.csv", "path,label\n1.bmp,cat\n3.bmp,zebra\n2.bmp,zebra\n");
  expect_error<DataError>([&] { open(Split::kVal); },
                          {"val/labels.csv:3: ", "'zebra' is not among the 2 classes",
                           "the training split", "train/labels.csv"});
  table("val/labels.csv", "1.bmp,dog\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(labels(*open(Split::kVal)), (Labels{1}));
  expect_contains(testing::internal::GetCapturedStderr(), "1 of the 2 classes");
  fs::remove_all(dir.path() / "train");  // evaluation of a model that knows its classes
  EXPECT_EQ(open(Split::kVal)->class_names(), (Names{"dog"}));
}

TEST_F(ListedImagesTest, NamesMissingImages) {
  images({"train/3.bmp", "train/dir/x.bmp"});
  table("train/labels.csv", "9.bmp,a\n3.bmp,a\n8.bmp,a\n7.bmp,b\ndir,b\n6.bmp,b\n");
  expect_error<DataError>([&] { open(); },
                          {"train/labels.csv:1: ", "no such image: " + at("train/9.bmp").string(),
                           "5 of 6 listed images are missing",
                           "'8.bmp' (line 3), '7.bmp' (line 4), 'dir' (line 5), ..."});
  table("train/labels.csv", "3.bmp,a\nsub\\1.bmp,b\n");
  expect_error<DataError>(
      [&] { open(); },
      {"train/labels.csv:2: ", "1 of 2 listed images is missing", "separated by / instead of \\"});
}

TEST_F(ListedImagesTest, NamesMissingTable) {
  images({"train/1.bmp"});
  expect_error<DataError>([&] { open(); }, {"no such file: " + at("train/labels.csv").string(),
                                            "in the folder of the split"});
  table("labels.csv", "train/1.bmp,a\n");
  expect_error<DataError>([&] { open(); },
                          {"no such file", "move " + at("labels.csv").string() + " there"});
}

TEST_F(ListedImagesTest, ComparesClassesWithModel) {
  images({"1.bmp", "2.bmp", "3.bmp"});
  table("labels.csv", "1.bmp,a\n2.bmp,b\n3.bmp,c\n");
  model.num_classes = 2;
  expect_error<DataError>([&] { open(); }, {"labels.csv: has 3 classes", "model.num_classes is 2"});
  data.classes = {2, 0};
  const auto chosen = open();
  EXPECT_EQ(chosen->class_names(), (Names{"c", "a"}));
  EXPECT_EQ(files(*chosen), (Names{"1.bmp", "3.bmp"}));
  EXPECT_EQ(labels(*chosen), (Labels{1, 0}));
}

TEST_F(ListedImagesTest, NotesRepeatedLines) {
  images({"1.bmp"});
  table("labels.csv", "1.bmp,a\n./1.bmp,a\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(open()->size(), 1);
  expect_contains(testing::internal::GetCapturedStderr(), "left out 1 line whose image and label");
}

}  // namespace
}  // namespace dtn
