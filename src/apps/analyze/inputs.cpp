#include "apps/analyze/inputs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "apps/analyze/subject.h"
#include "data/classes/draw_over_classes.h"
#include "data/feed/chosen_samples.h"
#include "data/feed/image_samples.h"
#include "data/sample/preview.h"
#include "data/sample/transforms.h"
#include "data/source/input_file.h"
#include "dtn/config/condition_field.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "tasks/translate/tensor_pairs.h"

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

// Returns the class of each sample; empty if the samples are no images of a data set.
std::vector<std::int64_t> labels_of(const SampleSource& source) {
  std::vector<std::int64_t> labels;
  const auto* images = dynamic_cast<const ImageSamples*>(&source);
  if (images == nullptr) return labels;
  for (std::int64_t i = 0; i < source.size(); ++i) labels.push_back(images->dataset().label(i));
  return labels;
}

// Returns equal labels, for samples without classes.
std::vector<std::int64_t> one_class(std::int64_t samples) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(samples), 0);
}

// Returns the number of different classes among the drawn samples; 0 if there are no labels.
std::int64_t classes_of(const std::vector<std::int64_t>& drawn,
                        const std::vector<std::int64_t>& labels) {
  std::set<std::int64_t> classes;
  for (const std::int64_t i : drawn) {
    if (!labels.empty()) classes.insert(labels[static_cast<std::size_t>(i)]);
  }
  return static_cast<std::int64_t>(classes.size());
}

}  // namespace

AnalysisInputs::AnalysisInputs(const std::string& file, const ExperimentConfig& config,
                               const Registries& registries)
    : model_(config.model), image_field_(image_field_of(config)), name_(file) {
  if (config.task == "translate") {
    const auto pairs = std::make_shared<TensorPairs>(file, model_);
    count_ = pairs->size();
    split_ = open_split(pairs, config, Split::kVal, {.device = kCpu, .batch_size = kBatch});
    take_unit_pixels();
    return;
  }
  file_ = read_images(file, model_);
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
                               std::uint64_t seed, const Registries& registries)
    : model_(config.model), image_field_(image_field_of(config)), name_(name_of(config.data)) {
  const auto source = validation_source(task, kCpu);
  const std::vector<std::int64_t> labels = labels_of(*source);
  std::vector<std::int64_t> drawn =
      draw_over_classes(labels.empty() ? one_class(source->size()) : labels, count, seed);
  draw_ = Draw{source->size(), seed, classes_of(drawn, labels)};
  count_ = static_cast<std::int64_t>(drawn.size());
  split_ = open_split(std::make_shared<ChosenSamples>(source, std::move(drawn)), config,
                      Split::kVal, {.device = kCpu, .batch_size = kBatch});
  look_at_labels();
  if (config.task == "translate") {
    take_unit_pixels();
    return;
  }
  if (config.data.dataset == "tensors") return;
  const Normalization n = resolve_normalization(config.data, model_.channels, registries.datasets);
  mean_ = n.mean;
  std_ = n.std;
}

void AnalysisInputs::take_unit_pixels() {
  mean_.assign(static_cast<std::size_t>(model_.channels), 0);
  std_.assign(static_cast<std::size_t>(model_.channels), 1);
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
  for (DeviceBatch batch; feeder.next(batch);) {
    Fields fields{{image_field_, batch.fields.at(image_field_).slice(0, batch.n)}};
    if (batch.host.has("label")) fields["label"] = batch.host.at("label").slice(0, batch.n);
    if (batch.host.has("target")) fields["target"] = batch.host.at("target").slice(0, batch.n);
    for (const FieldSpec& condition : condition_fields(model_)) {
      fields[condition.name] = batch.fields.at(condition.name).slice(0, batch.n);
    }
    work(fields);
    done += batch.n;
  }
  if (done == 0) throw DataError(cat(name_, ": the evaluation split has no readable image"));
  count_ = done;  // without damaged images
}

ImageTones AnalysisInputs::tones(const Fields& batch) const {
  return {batch.at(image_field_), mean_, std_};
}

std::vector<Preview> AnalysisInputs::previews() {
  std::vector<Preview> previews;
  each_batch([&](const Fields& batch) {
    const Tensor& images = batch.at(image_field_);
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
  json["kind"] = draw_ ? "evaluation split" : "file";
  json["count"] = count_;
  json["draw"] = nullptr;
  if (draw_) {
    json["draw"] = {{"from", draw_->from}, {"seed", draw_->seed}, {"classes", nullptr}};
    if (draw_->classes > 0) json["draw"]["classes"] = draw_->classes;
  }
  json["labels"] = labelled_;
  json["channels"] = model_.channels;
  json["image_size"] = {model_.image_size.height, model_.image_size.width};
  json["mean"] = mean_.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(mean_);
  json["std"] = std_.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(std_);
  return json;
}

}  // namespace dtn
