// The data sets coco and yolo.
#include "data/coco/coco_dataset.h"

#include <filesystem>

#include "data_fixtures.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

using namespace dtn::test;

// Writes a split of three images: with two truths, with a crowd only, and with nothing.
class CocoFolder {
 public:
  CocoFolder() {
    Bytes image = text_bytes("P6 40 32 255\n");
    image.resize(image.size() + 40 * 32 * 3, 128);
    for (const char* name : {"a.ppm", "b.ppm", "c.ppm"}) {
      write_bytes(folder_.path() / "train2017" / name, image);
    }
    write_bytes(folder_.path() / "annotations" / "instances_train2017.json", text_bytes(R"({
      "images": [{"id": 7, "file_name": "a.ppm", "width": 40, "height": 32},
                 {"id": 3, "file_name": "b.ppm", "width": 40, "height": 32},
                 {"id": 9, "file_name": "c.ppm", "width": 40, "height": 32}],
      "categories": [{"id": 44, "name": "square"}, {"id": 5, "name": "disc"}],
      "annotations": [
        {"id": 1, "image_id": 7, "category_id": 44, "bbox": [1, 2, 10, 8], "area": 80, "iscrowd": 0},
        {"id": 2, "image_id": 7, "category_id": 5, "bbox": [20, 4, 6, 6], "area": 36, "iscrowd": 0},
        {"id": 3, "image_id": 7, "category_id": 5, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 1},
        {"id": 4, "image_id": 3, "category_id": 5, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 1}]})"));
    std::filesystem::copy(folder_.path() / "train2017", folder_.path() / "val2017");
    std::filesystem::copy(folder_.path() / "annotations" / "instances_train2017.json",
                          folder_.path() / "annotations" / "instances_val2017.json");
    data_.dataset = "coco";
    data_.root = folder_.path().string();
    model_.num_classes = 2;
  }

  std::unique_ptr<Dataset> open(Split split) const {
    return open_unlabelled(data_, model_, split, 0);
  }
  ModelConfig& model() { return model_; }
  DataConfig& data() { return data_; }
  const ModelConfig& model() const { return model_; }
  const DataConfig& data() const { return data_; }

 private:
  static Bytes text_bytes(const std::string& text) { return {text.begin(), text.end()}; }

  TempFolder folder_;
  DataConfig data_;
  ModelConfig model_;
};

TEST(CocoDataset, TrainingLeavesOutImagesAndCrowds) {
  const CocoFolder folder;
  const auto opened = folder.open(Split::kTrain);
  const auto& data = dynamic_cast<const CocoDataset&>(*opened);
  ASSERT_EQ(data.size(), 2);
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"disc", "square"}));
  EXPECT_EQ(data.item_name(0), "a.ppm");
  EXPECT_EQ(data.item_name(1), "b.ppm");
  ASSERT_EQ(data.truths(0).size(), 2u);
  EXPECT_EQ(data.annotations().annotations()[0].category, 1);
  EXPECT_EQ(data.truths(1).size(), 0u);
  EXPECT_EQ(data.most_truths(), 2);
  SampleWorkspace workspace;
  EXPECT_FALSE(data.load(0, workspace).encoded.empty());
}

TEST(CocoDataset, ValidationHasAllImagesAndTruths) {
  const CocoFolder folder;
  const auto opened = folder.open(Split::kVal);
  const auto& data = dynamic_cast<const CocoDataset&>(*opened);
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.truths(0).size(), 3u);
  EXPECT_EQ(data.image(2).id, 9);
}

TEST(CocoDataset, IsNoDataSetForClassifiers) {
  const CocoFolder folder;
  expect_error<DataError>([&] { open_dataset(folder.data(), folder.model(), Split::kTrain, 0); },
                          {"data.dataset coco has no class for each image", "model.detector"});
}

TEST(CocoDataset, ErrorsSayWhereAndWhatToDo) {
  CocoFolder folder;
  folder.model().num_classes = 1;
  expect_error<DataError>([&] { folder.open(Split::kTrain); },
                          {"instances_train2017.json", "has 2 classes", "set it to 2"});
  folder.data().train = "elsewhere";
  expect_error<DataError>([&] { folder.open(Split::kTrain); },
                          {"elsewhere", "no such folder", "data.train"});
}

}  // namespace
}  // namespace dtn
