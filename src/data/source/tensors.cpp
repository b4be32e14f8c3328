#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "data/source/label_matrix.h"
#include "data/source/tensor_file.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "dtn/io/safetensors.h"

namespace dtn {

namespace {

namespace fs = std::filesystem;

const Tensor& require(const TensorFile& file, const char* name, const std::string& path) {
  if (const Tensor* tensor = file.find(name)) return *tensor;
  fail_without_tensor(name, file, path, "the data set `tensors` needs `images` and `labels`");
}

void check_images(const Tensor& images, const ModelConfig& model, const std::string& path) {
  Shape wanted{images.rank() > 0 ? images.dim(0) : 0, model.channels, model.image_size.height,
               model.image_size.width};
  if (images.dtype() != DType::kFloat32) {
    throw DataError(cat(path, ": `images` is ", name_of(images.dtype()),
                        "; store it as float32, normalised as the model expects it"));
  }
  if (!(images.shape() == wanted)) {
    throw DataError(cat(path, ": `images` is ", to_string(images.shape()),
                        ", but the model takes [N, ", model.channels, ", ", model.image_size.height,
                        ", ", model.image_size.width,
                        "]; change the file or model.channels and model.image_size"));
  }
  if (images.dim(0) == 0) throw DataError(cat(path, ": `images` is empty"));
}

// Returns integers of the images; `name` names the tensor.
std::vector<std::int64_t> read_integers(const char* name, const Tensor& tensor, std::int64_t count,
                                        const std::string& path) {
  if (!(tensor.shape() == Shape{count})) {
    throw DataError(cat(path, ": `", name, "` is ", to_string(tensor.shape()), ", expected [",
                        count, "], one for each image"));
  }
  std::vector<std::int64_t> values;
  if (tensor.dtype() == DType::kInt64) {
    std::ranges::copy(tensor.values<std::int64_t>(), std::back_inserter(values));
  } else if (tensor.dtype() == DType::kUInt8) {
    std::ranges::copy(tensor.values<std::uint8_t>(), std::back_inserter(values));
  } else {
    throw DataError(
        cat(path, ": `", name, "` is ", name_of(tensor.dtype()), "; store it as int64"));
  }
  return values;
}

std::vector<std::int64_t> read_labels(const Tensor& labels, std::int64_t count,
                                      const std::string& path) {
  return read_integers("labels", labels, count, path);
}

void add_vectors(const TensorFile& file, std::int64_t count, const std::string& path,
                 Fields& fields) {
  const Tensor* vectors = file.find("vector");
  if (!vectors) return;
  if (vectors->dtype() != DType::kFloat32 || vectors->rank() != 2 || vectors->dim(0) != count) {
    throw DataError(cat(path, ": `vector` is ", name_of(vectors->dtype()), " ",
                        to_string(vectors->shape()), ", expected float32 [", count,
                        ", K], one for each image"));
  }
  check_finite(*vectors, "vector", path);
  fields["vector"] = *vectors;
}

// Returns the inputs of models beside the images, as far as the file has them.
Fields read_inputs(const TensorFile& file, const Tensor& images, const ModelConfig& model,
                   const std::string& path) {
  Fields fields;
  const auto add_integers = [&](const char* name) {
    const Tensor* tensor = file.find(name);
    if (!tensor) return;
    const std::vector<std::int64_t> values = read_integers(name, *tensor, images.dim(0), path);
    fields[name] = Tensor::from(values, {images.dim(0)});
  };
  add_integers("timesteps");
  add_integers("drop");
  if (model.condition.from == ConditionFrom::kIndex) add_integers("style");
  if (model.condition.from == ConditionFrom::kVector)
    add_vectors(file, images.dim(0), path, fields);
  const Tensor* noise = file.find("noise");
  if (!noise) return fields;
  if (noise->dtype() != DType::kFloat32 || !(noise->shape() == images.shape())) {
    throw DataError(cat(path, ": `noise` is ", name_of(noise->dtype()), " ",
                        to_string(noise->shape()), ", expected float32 ", to_string(images.shape()),
                        ", like `images`"));
  }
  fields["noise"] = *noise;
  return fields;
}

// Labels of an image: exactly one, or any number.
enum class ImageLabels { kOne, kAny };

class TensorDataset final : public Dataset {
 public:
  TensorDataset(std::string path, const ModelConfig& model, ImageLabels kind)
      : path_(std::move(path)) {
    has_pixels_ = false;
    TensorFile file = read_safetensors(path_, {.verify_checksums = true, .map = true});
    images_ = require(file, "images", path_);
    check_images(images_, model, path_);
    ready_fields_ = read_inputs(file, images_, model, path_);
    const Tensor& labels = require(file, "labels", path_);
    if (kind == ImageLabels::kOne) {
      take_labels(labels, model);
    } else {
      take_matrix(labels);
    }
    description_ = cat(size(), " tensors ", to_string(images_.shape()), " from ", path_);
  }

  Sample load(std::int64_t index, SampleWorkspace&) const override {
    std::size_t each = static_cast<std::size_t>(images_.numel() / images_.dim(0));
    return {.encoded = {},
            .image = nullptr,
            .ready = images_.values<float>().subspan(static_cast<std::size_t>(index) * each, each)};
  }

  std::string sample_name(std::int64_t index) const override { return cat(path_, "[", index, "]"); }

 private:
  void take_labels(const Tensor& labels, const ModelConfig& model) {
    labels_ = read_labels(labels, images_.dim(0), path_);
    check_labels(labels_, model.num_classes, path_);
    num_classes_ = *std::ranges::max_element(labels_) + 1;
  }
  void take_matrix(const Tensor& labels) {
    ready_fields_["labels"] = read_label_matrix(labels, images_.dim(0), path_);
    labels_.resize(static_cast<std::size_t>(images_.dim(0)));
    has_labels_ = false;
    num_classes_ = labels.dim(1);
  }

  std::string path_;
  Tensor images_;  // [N, channels, size, size] float32
};

// Views of images for self-supervised and contrastive pre-training.
class TensorViews final : public Dataset {
 public:
  explicit TensorViews(std::string path) : path_(std::move(path)) {
    has_pixels_ = false;
    TensorFile file = read_safetensors(path_, {.verify_checksums = true, .map = true});
    for (const char* name : {"global", "local", "views"}) {
      if (const Tensor* views = file.find(name)) add(name, *views);
    }
    if (ready_fields_.empty()) {
      fail_without_tensor("global", file, path_,
                          "this task needs `global` and `local`, or `views` and `labels`");
    }
    const std::int64_t count = ready_fields_.begin()->second.dim(0);
    labels_.resize(static_cast<std::size_t>(count));
    const Tensor* labels = file.find("labels");
    has_labels_ = labels != nullptr;
    if (labels) labels_ = read_labels(*labels, count, path_);
    check_labels(labels_, 0, path_);
    num_classes_ = *std::ranges::max_element(labels_) + 1;
    description_ = cat(size(), " images in given views from ", path_);
  }

  Sample load(std::int64_t index, SampleWorkspace&) const override {
    throw DataError(cat(sample_name(index), ": has views, not a single image"));
  }

  std::string sample_name(std::int64_t index) const override { return cat(path_, "[", index, "]"); }

 private:
  void add(const char* name, const Tensor& views) {
    if (views.dtype() != DType::kFloat32) {
      throw DataError(cat(path_, ": `", name, "` is ", name_of(views.dtype()),
                          "; store it as float32, normalised as the model expects it"));
    }
    const std::int64_t count = views.rank() > 0 ? views.dim(0) : 0;
    if (count == 0) throw DataError(cat(path_, ": `", name, "` is empty"));
    if (!ready_fields_.empty() && count != ready_fields_.begin()->second.dim(0)) {
      throw DataError(cat(path_, ": `", name, "` has views of ", count, " images, `",
                          ready_fields_.begin()->first, "` of ",
                          ready_fields_.begin()->second.dim(0)));
    }
    ready_fields_[name] = views;
  }

  std::string path_;
};

}  // namespace

std::string tensor_file_of(const DataConfig& data, Split split, const char* holds) {
  const auto& given = split == Split::kTrain ? data.train : data.val;
  fs::path path = fs::path(data.root) / given.value_or(cat(name_of(split), ".safetensors"));
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw DataError(cat("no such file: ", path.string(), "; set data.", name_of(split),
                        " to a safetensors file in data.root that has ", holds));
  }
  return path.string();
}

void fail_without_tensor(const char* name, const TensorFile& file, const std::string& path,
                         const char* needs) {
  std::string present;
  for (const auto& [other, tensor] : file.tensors) present += (present.empty() ? "" : ", ") + other;
  throw DataError(cat(path, ": has no tensor '", name,
                      "' (it has: ", present.empty() ? "nothing" : present, "); ", needs));
}

void check_finite(const Tensor& tensor, const char* name, const std::string& path) {
  const auto values = tensor.values<float>();
  const auto wrong = std::ranges::find_if_not(values, [](float v) { return std::isfinite(v); });
  if (wrong == values.end()) return;
  const std::int64_t each = tensor.numel() / tensor.dim(0);
  throw DataError(cat(path, ": `", name, "` of image ", (wrong - values.begin()) / each,
                      " has the value ", *wrong, "; give finite numbers"));
}

std::unique_ptr<Dataset> open_tensors(const DataConfig& data, const ModelConfig& model,
                                      Split split) {
  return std::make_unique<TensorDataset>(tensor_file_of(data, split, "`images` and `labels`"),
                                         model, ImageLabels::kOne);
}

std::unique_ptr<Dataset> open_multilabel_tensors(const DataConfig& data, const ModelConfig& model,
                                                 Split split) {
  return std::make_unique<TensorDataset>(tensor_file_of(data, split, "`images` and `labels`"),
                                         model, ImageLabels::kAny);
}

std::unique_ptr<Dataset> open_tensor_views(const DataConfig& data, const ModelConfig&,
                                           Split split) {
  return std::make_unique<TensorViews>(
      tensor_file_of(data, split, "`global` and `local`, or `views` and `labels`"));
}

bool has_validation(const DataConfig& data) {
  if (data.dataset != "tensors" || data.val) return true;
  std::error_code ignored;
  return fs::exists(fs::path(data.root) / cat(name_of(Split::kVal), ".safetensors"), ignored);
}

}  // namespace dtn
