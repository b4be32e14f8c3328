#include "dtn/data/dataset_registry.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/text.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

template <auto open_files>
std::unique_ptr<Dataset> without_seed(const DataConfig& data, const ModelConfig& model, Split split,
                                      std::uint64_t) {
  return open_files(data, model, split);
}

// The names of the folders tell MNIST and the data sets with the same file names apart. Without a
// folder name (data.root is empty), the files are taken for Fashion-MNIST.
PixelStatistics idx_statistics(const DataConfig& data) {
  constexpr PixelStatistics kFashion{
      {0.2860, 0.2860, 0.2860}, {0.3530, 0.3530, 0.3530}, 0.2860, 0.3530};
  constexpr PixelStatistics kDigits{
      {0.1307, 0.1307, 0.1307}, {0.3081, 0.3081, 0.3081}, 0.1307, 0.3081};
  const std::string root = lowered(data.root);
  if (root.empty() || root.find("fashion") != std::string::npos) return kFashion;
  const std::filesystem::path path = root;
  return std::ranges::count(path, "mnist") > 0 ? kDigits : kHalfStatistics;
}

// Opens nothing: a task of pairs reads the files itself.
std::unique_ptr<Dataset> only_pairs(const DataConfig& data, const ModelConfig&, Split,
                                    std::uint64_t) {
  throw ConfigError(cat("data.dataset ", data.dataset,
                        " has pairs of pictures, which only an image-to-image model learns from; "
                        "choose another data set, or set task: translate"));
}

std::optional<ConfigProblem> check_split(const DataConfig& data) {
  if (!data.split || !data.val) return std::nullopt;
  return ConfigProblem{{"data.split", "data.val"},
                       cat("data.split holds out a part of the training images, but data.val names "
                           "a validation split, ",
                           *data.val, "; unset one of the two (null)")};
}

std::vector<DatasetEntry> own_rows() {
  return {
      {{"imagefolder",
        "one folder per class, as ImageNet, or images with a table of labels",
        {"train", "val", "labels", "split", "class_order", "class_names", "mean", "std"},
        false,
        check_split},
       without_seed<open_image_folder>,
       kImageNetStatistics,
       {},
       without_seed<open_unlabelled_folder>,
       {},
       without_seed<open_multilabel_images>},
      {{"imagenet",
        "the archives of ILSVRC2012, read in place",
        {"train", "val", "class_names", "mean", "std"}},
       without_seed<open_imagenet>},
      {{"webdataset",
        "tar shards in WebDataset's layout",
        {"train", "val", "class_names", "mean", "std"}},
       without_seed<open_webdataset>,
       kImageNetStatistics,
       {},
       without_seed<open_any_webdataset>,
       {},
       without_seed<open_multilabel_webdataset>},
      {{"packed", "one file made by dtn-data pack", {"train", "val", "class_names", "mean", "std"}},
       without_seed<open_packed>,
       kImageNetStatistics,
       {},
       without_seed<open_any_packed>,
       {},
       without_seed<open_multilabel_packed>},
      {{"idx", "MNIST's files, gzipped or not", {"train", "val", "class_names", "mean", "std"}},
       without_seed<open_idx>,
       kHalfStatistics,
       idx_statistics},
      {{"tensors", "safetensors, already normalised", {"train", "val", "class_names"}},
       without_seed<open_tensors>,
       kImageNetStatistics,
       {},
       {},
       without_seed<open_tensor_views>,
       without_seed<open_multilabel_tensors>},
      {{"cifar10", "CIFAR-10, binary version", {"mean", "std"}},
       without_seed<open_cifar>,
       {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}, 0.4808, 0.2392}},
      {{"cifar100", "CIFAR-100, binary version", {"mean", "std"}},
       without_seed<open_cifar>,
       {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}, 0.4874, 0.2520}},
      {{"listops", "Long ListOps, files of dtn-data listops", {"train", "val"}},
       without_seed<open_listops>},
      {{"coco",
        "COCO's files of images and annotations, for detectors",
        {"train", "val", "mean", "std"}},
       without_seed<open_coco>},
      {{"yolo",
        "YOLO's folders of images and labels, for detectors",
        {"train", "val", "mean", "std"}},
       without_seed<open_yolo>},
      {{"pairs",
        "folders of pictures in pairs, for image-to-image models",
        {"train", "val", "side_by_side", "direction"}},
       only_pairs},
      {{"drawn",
        "generated pairs of pictures with shapes, for image-to-image models",
        {"drawn", "size"}},
       only_pairs},
      {{"synthetic", "generated images with a pattern per class", {"mean", "std", "size"}, true},
       make_synthetic},
  };
}

}  // namespace

const DatasetRegistry& dataset_registry() {
  static const DatasetRegistry ours("data set", own_rows());
  return ours;
}

}  // namespace dtn
