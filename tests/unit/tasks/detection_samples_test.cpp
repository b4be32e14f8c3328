// Samples of the task detect: sizes, boxes, flips, orientation, and images that do not fit their
// annotations.
#include <filesystem>

#include "data/coco/coco_dataset.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "dtn/io/image.h"
#include "io/atomic_file.h"
#include "tasks/detect/samples.h"
#include "tasks/detect/synthetic_objects.h"
#include "temp_folder.h"
#include "texts.h"

namespace dtn::test {
namespace {

// Two images, 80 x 40 and 40 x 80 pixels, as .ppm files: in the first, red grows with x.
class TwoImages {
 public:
  TwoImages() {
    for (const char* split : {"train", "val"}) {
      std::filesystem::create_directories(folder_.path() / split);
      write_image(folder_.path() / split / "wide.ppm", 80, 40);
      write_image(folder_.path() / split / "high.ppm", 40, 80);
      write("annotations", std::string("instances_") + split + ".json", R"({
        "images": [{"id": 1, "file_name": "wide.ppm", "width": 80, "height": 40},
                   {"id": 2, "file_name": "high.ppm", "width": 40, "height": 80}],
        "categories": [{"id": 3, "name": "a"}, {"id": 8, "name": "b"}],
        "annotations": [
          {"id": 1, "image_id": 1, "category_id": 8, "bbox": [4, 2, 10, 5], "area": 50},
          {"id": 2, "image_id": 1, "category_id": 3, "bbox": [70, 30, 20, 20], "area": 400},
          {"id": 3, "image_id": 2, "category_id": 3, "bbox": [0, 0, 8, 8], "area": 64}]})");
    }
    config_.seed = 5;
    config_.task = "detect";
    config_.model.num_classes = 2;
    config_.data.dataset = "coco";
    config_.data.root = folder_.path().string();
    config_.data.train = "train";
    config_.data.val = "val";
    config_.data.scale_long = 160;
    config_.data.scale_short = 120;
    config_.data.flip = 0;
  }

  ExperimentConfig& config() { return config_; }
  DetectionSamples open(Split split) const {
    return {open_unlabelled(config_.data, config_.model, split, 0), config_, split};
  }
  void write_image(const std::filesystem::path& path, int width, int height) {
    std::string text = "P6 " + std::to_string(width) + " " + std::to_string(height) + " 255\n";
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) text += {static_cast<char>(3 * x), static_cast<char>(y), 0};
    write_file_atomic(path, text);
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  void write(const char* folder, const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder_.path() / folder);
    write_file_atomic(folder_.path() / folder / name, text);
  }

  TempFolder folder_;
  ExperimentConfig config_;
};

Fields make_row(const DetectionSamples& samples, std::int64_t index, SampleKey key = {}) {
  Fields fields;
  for (const FieldSpec& spec : samples.host_fields()) {
    fields[spec.name] = Tensor::empty(shape_of(spec, 1), spec.dtype);
    if (spec.ragged) fields[lengths_of(spec.name)] = Tensor::empty({1}, DType::kInt64);
  }
  FieldRow row(fields, 0);
  key.sample = static_cast<std::uint64_t>(index);
  samples.make(index, key, row, *samples.make_workspace());
  return fields;
}

template <class T>
std::vector<T> values(const Fields& fields, const char* name, std::size_t count) {
  const auto all = fields.at(name).values<T>();
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(DetectionSamples, SizesFollowTheTwoLimits) {
  DataConfig data;
  EXPECT_EQ(resized_size({480, 640}, data), (PixelSize{800, 1067}));
  EXPECT_EQ(resized_size({427, 640}, data), (PixelSize{800, 1199}));
  EXPECT_EQ(resized_size({640, 427}, data), (PixelSize{1199, 800}));
  EXPECT_EQ(resized_size({200, 1000}, data), (PixelSize{267, 1333}));
  EXPECT_EQ(resized_size({1, 100000}, data), (PixelSize{1, 1333}));
}

TEST(DetectionSamples, BoxesAreScaledAndCut) {
  const TwoImages images;
  const DetectionSamples samples = images.open(Split::kTrain);
  const Fields row = make_row(samples, 0);
  EXPECT_EQ(values<std::int64_t>(row, "size", 2), (std::vector<std::int64_t>{80, 160}));
  EXPECT_EQ(values<std::int64_t>(row, "original", 2), (std::vector<std::int64_t>{40, 80}));
  EXPECT_EQ(row.at(lengths_of("boxes")).data<std::int64_t>()[0], 2);
  EXPECT_EQ(values<float>(row, "boxes", 8), (std::vector<float>{8, 4, 28, 14, 140, 60, 160, 80}));
  EXPECT_EQ(values<std::int64_t>(row, "truths", 4), (std::vector<std::int64_t>{1, 0, 0, 1}));
  EXPECT_EQ(values<std::int64_t>(row, "draw", 3), (std::vector<std::int64_t>{0, 0, 0}));
}

TEST(DetectionSamples, FlipMirrorsPixelsAndBoxes) {
  TwoImages images;
  const Fields plain = make_row(images.open(Split::kTrain), 0);
  images.config().data.flip = 1;
  const Fields mirrored = make_row(images.open(Split::kTrain), 0);
  EXPECT_EQ(values<float>(mirrored, "boxes", 8),
            (std::vector<float>{132, 4, 152, 14, 0, 60, 20, 80}));
  EXPECT_EQ(values<std::int64_t>(mirrored, "draw", 3), (std::vector<std::int64_t>{0, 0, 1}));
  const auto a = plain.at("pixels").values<std::uint8_t>();
  const auto b = mirrored.at("pixels").values<std::uint8_t>();
  for (std::size_t y = 0; y < 80; ++y)
    for (std::size_t x = 0; x < 160; ++x)
      ASSERT_EQ(b[(y * 160 + x) * 3], a[(y * 160 + 159 - x) * 3]);
}

TEST(DetectionSamples, FlipsHalfOfTheImagesByTheirKeys) {
  TwoImages images;
  images.config().data.flip = 0.5;
  const DetectionSamples samples = images.open(Split::kTrain);
  std::int64_t flips = 0;
  for (std::uint32_t epoch = 0; epoch < 400; ++epoch) {
    const SampleKey key{.seed = 5, .epoch = epoch};
    const std::int64_t flip = make_row(samples, 1, key).at("draw").data<std::int64_t>()[2];
    ASSERT_EQ(make_row(samples, 1, key).at("draw").data<std::int64_t>()[2], flip);
    flips += flip;
  }
  EXPECT_NEAR(static_cast<double>(flips), 200, 50);
}

TEST(DetectionSamples, GroupsAreOrientations) {
  const TwoImages images;
  EXPECT_EQ(images.open(Split::kTrain).groups(), (std::vector<std::uint8_t>{1, 0}));
  EXPECT_TRUE(images.open(Split::kVal).groups().empty());
}

TEST(DetectionSamples, RefusesAnImageOfAnotherSizeThanListed) {
  TwoImages images;
  images.write_image(images.path() / "train" / "wide.ppm", 40, 80);
  const DetectionSamples samples = images.open(Split::kTrain);
  expect_error<DataError>([&] { make_row(samples, 0); },
                          {"wide.ppm", "40 x 80", "80 x 40", "instances_train.json"});
}

TEST(DetectionSamples, TrainingNeedsBoxes) {
  TwoImages images;
  images.config().data.dataset = "synthetic";
  expect_error<ConfigError>([&] { images.open(Split::kTrain); }, {"synthetic", "coco or yolo"});
}

TEST(DetectionSamples, SyntheticObjectsLieInTheirImages) {
  TwoImages images;
  images.config().data.size = 5;
  const DetectionSamples samples(make_synthetic_objects(images.config(), Split::kTrain),
                                 images.config(), Split::kTrain);
  ASSERT_EQ(samples.size(), 5);
  for (std::int64_t i = 0; i < 5; ++i) {
    const Fields row = make_row(samples, i);
    EXPECT_EQ(values<std::int64_t>(row, "size", 2), (std::vector<std::int64_t>{120, 160}));
    ASSERT_EQ(row.at(lengths_of("boxes")).data<std::int64_t>()[0], 7);
    const std::vector<float> boxes = values<float>(row, "boxes", 28);
    for (std::size_t k = 0; k < 28; k += 4) {
      EXPECT_LT(0, boxes[k]);
      EXPECT_LT(boxes[k] + 10, boxes[k + 2]);
      EXPECT_LE(boxes[k + 2], 160);
    }
  }
  EXPECT_EQ(values<float>(make_row(samples, 3), "boxes", 28),
            values<float>(make_row(samples, 3), "boxes", 28));
}

}  // namespace
}  // namespace dtn::test
