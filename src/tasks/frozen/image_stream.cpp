#include "tasks/frozen/image_stream.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/feed/open_split.h"
#include "data/feed/single_sample.h"
#include "data/source/input_file.h"

namespace dtn {
namespace {

class SplitStream final : public ImageStream {
 public:
  SplitStream(std::shared_ptr<const ImageSamples> samples, const LoaderOptions& loading,
              bool is_fixed, Device device)
      : samples_(samples), split_(std::move(samples), loading, device), is_fixed_(is_fixed) {}

  std::string description() const override { return samples_->description(); }
  std::int64_t size() const override { return samples_->size(); }
  Shape shape() const override {
    const Transform& transform = samples_->transform();
    return {transform.channels(), transform.image_size().height, transform.image_size().width};
  }
  Tensor labels() const override {
    if (!has_labels()) return Tensor();
    Tensor labels = Tensor::empty({size()}, DType::kInt64);
    for (std::int64_t i = 0; i < size(); ++i) {
      labels.data<std::int64_t>()[i] = samples_->dataset().label(i);
    }
    return labels;
  }
  bool is_fixed() const override { return is_fixed_; }
  bool is_normalized() const override { return samples_->dataset().has_pixels(); }
  std::int64_t damaged() override { return split_.loader().report().bad_images; }
  Tensor image(std::int64_t index) const override {
    return single_sample(*samples_, index, 0).at("image");
  }
  std::vector<std::string> class_names() const override { return samples_->class_names(); }
  std::string name(std::int64_t index) const override {
    return samples_->dataset().item_name(index);
  }
  void for_each(std::int64_t epoch, const std::function<void(const ImageBatch&)>& use) override {
    split_.feeder().start(epoch);
    for (DeviceBatch batch; split_.feeder().next(batch);) {
      const Tensor labels = has_labels() ? batch.host.at("label") : Tensor();
      use({{{"image", batch.fields.at("image")}}, labels, batch.indices});
    }
  }

 private:
  bool has_labels() const { return samples_->dataset().has_labels(); }

  std::shared_ptr<const ImageSamples> samples_;
  OpenSplit split_;
  bool is_fixed_;
};

class FileStream final : public ImageStream {
 public:
  FileStream(const std::string& path, const ModelConfig& model, const StreamOptions& options)
      : path_(path), fields_(read_input_file(path, model, {.any_size = true})), options_(options) {
    if (fields_.count() == 0) throw DataError(cat(path, ": 'images' is empty"));
  }

  std::string description() const override { return cat(size(), " images from ", path_); }
  std::int64_t size() const override { return fields_.count(); }
  Shape shape() const override {
    const Tensor& images = fields_.at("image");
    return {images.dim(1), images.dim(2), images.dim(3)};
  }
  Tensor labels() const override {
    const Tensor* labels = fields_.find("label");
    return labels ? *labels : Tensor();
  }
  std::string name(std::int64_t index) const override { return cat("image ", index); }
  Tensor image(std::int64_t index) const override {
    return fields_.at("image").slice(index, index + 1);
  }
  void for_each(std::int64_t, const std::function<void(const ImageBatch&)>& use) override {
    for (std::int64_t first = 0; first < size(); first += options_.batch) {
      const std::int64_t last = std::min(size(), first + options_.batch);
      std::vector<std::int64_t> indices(static_cast<std::size_t>(last - first));
      std::iota(indices.begin(), indices.end(), first);
      const Tensor all = labels();
      use({{{"image", fields_.at("image").slice(first, last).to(options_.device)}},
           all.defined() ? all.slice(first, last) : all,
           std::move(indices)});
    }
  }

 private:
  std::string path_;
  Fields fields_;
  StreamOptions options_;
};

// The config of DINO's crops for a linear classifier.
ExperimentConfig with_random_crops(ExperimentConfig config) {
  config.augment = AugmentConfig{};
  config.augment.preset = AugmentPreset::kLight;
  config.data.train_interpolation = TrainInterpolation::kBilinear;
  return config;
}

}  // namespace

std::unique_ptr<ImageStream> stream_of(std::shared_ptr<const Dataset> images,
                                       const ExperimentConfig& config, ImagePreparation preparation,
                                       const StreamOptions& options, const Registries& registries) {
  const bool crops = preparation == ImagePreparation::kRandomCrops;
  const bool is_fixed = !crops || !images->has_pixels();
  const ExperimentConfig prepared = crops ? with_random_crops(config) : config;
  auto samples = image_samples_of(std::move(images), prepared, crops ? Split::kTrain : Split::kVal,
                                  options.device, registries);
  LoaderOptions loading =
      loading_of(config, Split::kVal, {.device = options.device, .batch_size = options.batch});
  loading.shuffle = crops && config.data.shuffle;
  return std::make_unique<SplitStream>(std::move(samples), loading, is_fixed, options.device);
}

std::unique_ptr<ImageStream> open_image_file(const std::string& path, const ModelConfig& model,
                                             const StreamOptions& options) {
  ModelConfig any = model;
  any.num_classes = 0;
  return std::make_unique<FileStream>(path, any, options);
}

FeatureSet collect_features(ImageStream& images, std::int64_t width,
                            const FeatureFunction& features,
                            const std::function<void(std::int64_t)>& progress) {
  const std::int64_t size = images.size();
  FeatureSet set{
      Tensor::empty({size, width}, DType::kFloat32), Tensor::empty({size}, DType::kInt64), {}};
  bool labelled = true;
  std::int64_t done = 0;
  images.for_each(0, [&](const ImageBatch& batch) {
    const auto n = static_cast<std::int64_t>(batch.indices.size());
    set.features.slice(done, done + n).copy_from(features(batch));
    labelled = labelled && batch.labels.defined();
    if (labelled) set.labels.slice(done, done + n).copy_from(batch.labels);
    set.indices.insert(set.indices.end(), batch.indices.begin(), batch.indices.end());
    done += n;
    if (progress) progress(done);
  });
  set.features = set.features.slice(0, done);
  set.labels = labelled ? set.labels.slice(0, done) : Tensor();
  return set;
}

}  // namespace dtn
