#include "data/coco/coco_dataset.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "core/format.h"
#include "data/yolo/labels.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "io/file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

// Throws DataError unless `path` is a folder of the data set.
void check_folder(const fs::path& path, const char* content) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return;
  throw DataError(cat(path.string(), ": there is no such folder; ", content,
                      " are expected there (see data/README.md); set data.root, data.train and "
                      "data.val"));
}

std::string split_name(const DataConfig& data, Split split, const char* train, const char* val) {
  return split == Split::kTrain ? data.train.value_or(train) : data.val.value_or(val);
}

}  // namespace

CocoDataset::CocoDataset(CocoAnnotations annotations, std::string folder, Split split,
                         const ModelConfig& model)
    : annotations_(std::move(annotations)),
      folder_(std::move(folder)),
      training_(split == Split::kTrain) {
  for (const CocoCategory& category : annotations_.categories()) {
    class_names_.push_back(category.name);
  }
  num_classes_ = static_cast<std::int64_t>(class_names_.size());
  if (num_classes_ == 0) throw DataError(cat(annotations_.name(), ": has no categories"));
  check_class_count(num_classes_, model, annotations_.name());
  has_labels_ = false;
  if (training_) {
    take_training(training_truths(annotations_));
  } else {
    images_.resize(annotations_.images().size());
    std::iota(images_.begin(), images_.end(), 0);
    description_ = cat(counted(static_cast<std::int64_t>(images_.size()), "images"), " in ",
                       folder_, " with ", annotations_.annotations().size(), " truths");
  }
  if (images_.empty()) {
    throw DataError(cat(annotations_.name(), ": has no images",
                        training_ ? " with truths to learn from" : "",
                        "; choose another file by data.train or data.val"));
  }
  labels_.resize(images_.size());
  for (std::int64_t i = 0; i < size(); ++i) {
    most_truths_ = std::max(most_truths_, static_cast<std::int64_t>(truths(i).size()));
  }
}

void CocoDataset::take_training(const TrainingTruths& truths) {
  truths_ = truths;
  images_ = truths_.images;
  description_ = cat(folder_, ": ", description_of(truths_));
}

std::span<const std::int32_t> CocoDataset::truths(std::int64_t index) const {
  return training_ ? truths_.of(static_cast<std::size_t>(index))
                   : annotations_.of_image(image_index(index));
}

Sample CocoDataset::load(std::int64_t index, SampleWorkspace& workspace) const {
  workspace.name = sample_name(index);
  read_file_into(workspace.name, workspace.bytes);
  return {.encoded = workspace.bytes, .image = nullptr, .ready = {}};
}

std::string CocoDataset::sample_name(std::int64_t index) const {
  return cat(folder_, "/", image(index).file_name);
}

std::unique_ptr<Dataset> open_coco(const DataConfig& data, const ModelConfig& model, Split split) {
  const std::string name = split_name(data, split, "train2017", "val2017");
  const fs::path folder = fs::path(data.root) / name;
  const fs::path file = fs::path(data.root) / "annotations" / cat("instances_", name, ".json");
  check_folder(folder, "images");
  return std::make_unique<CocoDataset>(read_coco_annotations(file), folder.string(), split, model);
}

std::unique_ptr<Dataset> open_yolo(const DataConfig& data, const ModelConfig& model, Split split) {
  const std::string name = split_name(data, split, "train", "val");
  const fs::path images = fs::path(data.root) / "images" / name;
  const fs::path labels = fs::path(data.root) / "labels" / name;
  check_folder(images, "images");
  check_folder(labels, "text files with truths");
  CocoAnnotations truths =
      read_yolo_labels(images, labels, read_yolo_names(find_yolo_names(labels)), data.exif);
  return std::make_unique<CocoDataset>(std::move(truths), images.string(), split, model);
}

}  // namespace dtn
