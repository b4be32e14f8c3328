#include "apps/analyze/inputs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/sample/preview.h"
#include "data/sample/transforms.h"
#include "data/source/input_file.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

constexpr std::size_t kPreviews = 8;

Fields read_images(const std::string& path, const ModelConfig& model) {
  Fields images = read_input_file(path, model);
  if (images.count() == 0) throw DataError(cat(path, ": 'images' is empty"));
  return images;
}

// Returns the folder of the images if there is one, because it says more than their format.
std::string name_of(const DataConfig& data) {
  const std::filesystem::path root = std::filesystem::path(data.root).lexically_normal();
  const std::string folder = root.has_filename() ? root.filename() : root.parent_path().filename();
  return folder.empty() || data.dataset == "synthetic" ? data.dataset : folder;
}

}  // namespace

AnalysisInputs::AnalysisInputs(const std::string& file, const ExperimentConfig& config,
                               const Registries& registries)
    : model_(config.model), name_(file), file_(read_images(file, config.model)) {
  count_ = file_.count();
  look_at_labels();
  // Tensors come prepared for their model, and their normalization is unknown.
  if (config.data.dataset == "tensors" && config.data.mean.empty()) return;
  if (model_.channels != 1 && model_.channels != 3) return;
  const Normalization n = resolve_normalization(config.data, model_.channels, registries.datasets);
  mean_ = n.mean;
  std_ = n.std;
}

AnalysisInputs::AnalysisInputs(const Task& task, const ExperimentConfig& config, std::int64_t count,
                               const Registries& registries)
    : model_(config.model), name_(name_of(config.data)) {
  const auto source = task.source(Split::kVal, kCpu);
  split_ = open_split(source, config, Split::kVal, {.device = kCpu, .batch_size = kBatch});
  count_ = std::min(count, source->size());
  look_at_labels();
  if (config.data.dataset == "tensors") return;
  const Normalization n = resolve_normalization(config.data, model_.channels, registries.datasets);
  mean_ = n.mean;
  std_ = n.std;
}

void AnalysisInputs::look_at_labels() {
  each_batch([&](const Fields& batch) {
    if (!(labelled_ = batch.has("label"))) return;
    const auto labels = batch.at("label").values<std::int64_t>();
    largest_label_ = std::max(largest_label_, *std::ranges::max_element(labels));
  });
}

void AnalysisInputs::each_batch(const std::function<void(const Fields&)>& work) {
  if (split_) return each_batch_of_split(work);
  for (std::int64_t first = 0; first < count_; first += kBatch) {
    work(file_.rows(first, std::min(count_, first + kBatch)));
  }
}

void AnalysisInputs::each_batch_of_split(const std::function<void(const Fields&)>& work) {
  BatchFeeder& feeder = split_->feeder();
  feeder.start(0);
  std::int64_t done = 0;
  for (DeviceBatch batch; done < count_ && feeder.next(batch);) {
    const std::int64_t n = std::min(batch.n, count_ - done);
    Fields fields{{"image", batch.fields.at("image").slice(0, n)}};
    if (batch.host.has("label")) fields["label"] = batch.host.at("label").slice(0, n);
    work(fields);
    done += n;
  }
  if (done == 0) throw DataError(cat(name_, ": the evaluation split has no readable image"));
  count_ = done;  // without damaged images
}

std::vector<Preview> AnalysisInputs::previews() {
  std::vector<Preview> previews;
  each_batch([&](const Fields& batch) {
    const Tensor& images = batch.at("image");
    for (std::int64_t i = 0; i < images.dim(0) && previews.size() < kPreviews; ++i) {
      Image image = preview_of(images.slice(i, i + 1).data<float>(), model_.channels,
                               model_.image_size, mean_, std_);
      previews.push_back({image.height, image.width, std::move(image.pixels)});
    }
  });
  return previews;
}

nlohmann::ordered_json AnalysisInputs::describe() const {
  nlohmann::ordered_json json;
  json["source"] = name_;
  json["kind"] = split_ ? "evaluation split" : "file";
  json["count"] = count_;
  json["labels"] = labelled_;
  json["channels"] = model_.channels;
  json["image_size"] = {model_.image_size.height, model_.image_size.width};
  json["mean"] = mean_.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(mean_);
  json["std"] = std_.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(std_);
  return json;
}

}  // namespace dtn
