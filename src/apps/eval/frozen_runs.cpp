#include "apps/eval/frozen_runs.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <utility>

#include "core/format.h"
#include "core/progress.h"
#include "core/seconds_since.h"
#include "data/classes/match_classes.h"
#include "data/feed/shuffle.h"
#include "data/sample/transforms.h"
#include "data/source/split_folders.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "dtn/models/weights.h"
#include "dtn/tasks/classify.h"
#include "tasks/class_names.h"
#include "tasks/frozen/neighbor_examples.h"

namespace dtn::app {
namespace {

using Clock = std::chrono::steady_clock;

FeatureFunction features_of(FrozenFeatures& features) {
  return [&](const ImageBatch& batch) { return features.of(batch.fields); };
}

FeatureSet collect(ImageStream& images, const char* title, std::int64_t width,
                   const FeatureFunction& function) {
  ProgressBar bar(title, images.size());
  return collect_features(images, width, function,
                          [&](std::int64_t done) { bar.update(done, ""); });
}

// The images of a stream, which must outlive them.
ShownImages shown_images(const ImageStream& stream) {
  ShownImages images{.image = [&stream](std::int64_t index) { return stream.image(index); },
                     .name = [&stream](std::int64_t index) { return stream.name(index); },
                     .class_names = stream.class_names()};
  put_into_words(images.class_names);
  return images;
}

// Returns the labels of the training images; undefined: unknown. Throws DataError for a negative
// one.
Tensor training_labels(const ImageStream& training) {
  Tensor labels = training.labels();
  if (labels.defined() && std::ranges::min(labels.values<std::int64_t>()) < 0) {
    throw DataError(cat(training.description(), ": has a negative label"));
  }
  return labels;
}

// The same for the linear classifier. Throws DataError if there are no labels.
Tensor labels_to_learn(const ImageStream& training) {
  Tensor labels = training_labels(training);
  if (labels.defined()) return labels;
  throw DataError(cat(training.description(),
                      ": has no labels, which a linear classifier learns; --task knn "
                      "--save-neighbors shows nearest neighbours without labels"));
}

// Warns of evaluated classes without training images, whose images count as wrong.
void warn_of_missing_classes(const Tensor& training, const Tensor& evaluated) {
  const auto known = training.values<std::int64_t>(), asked = evaluated.values<std::int64_t>();
  const std::set<std::int64_t> have(known.begin(), known.end());
  std::set<std::int64_t> missing(asked.begin(), asked.end());
  std::erase_if(missing, [&](std::int64_t label) { return have.contains(label); });
  if (missing.empty()) return;
  log_warn(cat("no training image has the label ", *missing.begin(),
               missing.size() == 1 ? "" : cat(" or ", missing.size() - 1, " more of the labels"),
               " of evaluated images; these images count as wrong"));
}

// Throws ConfigError if the rows of a classifier's weight [K, F] do not fit the features.
void check_width(const std::string& file, const Tensor& weight, FrozenFeatures& features) {
  const std::int64_t needed = weight.dim(1), channels = features.model().outputs();
  if (needed == features.width()) return;
  std::string advice = "; it belongs to another model";
  if (needed % channels == 0) {
    advice =
        cat("; use --blocks ", needed / channels, needed == 2 * channels ? " or --avgpool" : "");
  }
  throw ConfigError(cat(file, ": linear.weight is ", to_string(weight.shape()), ", for ", needed,
                        " features, but there are ", features.width(), " (", features.description(),
                        ")", advice));
}

// A linear classifier of features that are not finite would have weights and a loss like them.
void check_finite(const Tensor& features, const char* name) {
  if (are_comparable(features)) return;
  throw DataError(cat("the features of some ", name, " images are not finite"));
}

// Adds the mean cross-entropy and accuracy of the classifier, if there are labels.
void add_metrics(const LinearProbe& probe, FrozenResult& result) {
  constexpr std::int64_t kRows = 1024;
  const FeatureSet& set = result.evaluated;
  if (!result.labels.defined()) {
    result.unlabelled = "evaluated images";
    return;
  }
  AccuracyMeter meter;
  const std::int64_t count = set.features.dim(0);
  for (std::int64_t first = 0; first < count; first += kRows) {
    const std::int64_t last = std::min(count, first + kRows);
    meter.add({{"label", set.labels.slice(first, last)}},
              {{"logits", probe.logits(set.features.slice(first, last))}});
  }
  result.metrics = meter.result();
}

// Adds the rows of a set to the probe, in a random order of the epoch.
void add_shuffled(LinearProbe& probe, const FeatureSet& set, std::uint64_t seed, int epoch) {
  constexpr std::uint32_t kOrderStream = 0x50524F42;  // "PROB"
  std::vector<std::int64_t> order(static_cast<std::size_t>(set.features.dim(0)));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  shuffle_places(order.size(), {seed, kOrderStream, static_cast<std::uint32_t>(epoch)}, 0,
                 [&](std::size_t i, std::size_t j) { std::swap(order[i], order[j]); });
  for (const std::int64_t i : order) {
    probe.add(set.features.slice(i, i + 1), set.labels.slice(i, i + 1));
  }
}

std::vector<std::int64_t> all_rows(std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

// Returns the result for the features of all images of a stream, without metrics.
FrozenResult result_of(ImageStream& images, FeatureSet features, double seconds) {
  FrozenResult result;
  result.evaluated = std::move(features);
  result.seconds = seconds;
  result.images = images.size();
  result.labels = images.labels();
  result.damaged = images.damaged();
  if (result.count() == 0) {
    throw DataError(cat(images.description(), ": no images to evaluate, ",
                        counted(result.damaged, "damaged images")));
  }
  return result;
}

// Returns the images, in words, whose labels are missing; empty if all have labels.
std::string images_without_labels(const Tensor& training, const Tensor& evaluated) {
  if (training.defined() && evaluated.defined()) return "";
  if (!training.defined() && !evaluated.defined()) return "images";
  return training.defined() ? "evaluated images" : "training images";
}

FeatureRows origins_of(const FeatureSet& set) {
  FeatureRows rows{set.indices, {}};
  if (set.labels.defined()) rows.labels = set.labels.values<std::int64_t>();
  return rows;
}

// Returns some rows of a set.
FeatureSet rows_of(const FeatureSet& set, std::span<const std::int64_t> rows) {
  const std::int64_t count = std::ssize(rows);
  FeatureSet some{Tensor::empty({count, set.features.dim(1)}, DType::kFloat32), Tensor(), {}};
  if (set.labels.defined()) some.labels = Tensor::empty({count}, DType::kInt64);
  for (std::int64_t to = 0; to < count; ++to) {
    const std::int64_t row = rows[static_cast<std::size_t>(to)];
    some.features.slice(to, to + 1).copy_from(set.features.slice(row, row + 1));
    if (set.labels.defined()) {
      some.labels.slice(to, to + 1).copy_from(set.labels.slice(row, row + 1));
    }
    some.indices.push_back(set.indices[static_cast<std::size_t>(row)]);
  }
  return some;
}

// Returns the images as rows, without the normalisation of `n`.
FeatureFunction pixels_of(const Normalization& n) {
  return [n](const ImageBatch& batch) {
    Tensor rows = batch.fields.at("image").to(kCpu).clone();
    const std::int64_t plane = rows.dim(2) * rows.dim(3), channels = rows.dim(1);
    for (std::int64_t i = 0; i < rows.numel(); ++i) {
      const auto c = n.mean.size() == 1 ? 0 : static_cast<std::size_t>(i / plane % channels);
      rows.data<float>()[i] = rows.data<float>()[i] * n.std[c] + n.mean[c];
    }
    return rows.reshape({rows.dim(0), -1});
  };
}

// Throws ConfigError if the images of the two splits have different sizes, or if the pixels do not
// fit into a reasonable memory.
void check_pixels(const ImageStream& training, const ImageStream& evaluated) {
  constexpr double kMaxBytes = 8.0 * 1024 * 1024 * 1024;
  if (training.shape() != evaluated.shape()) {
    throw ConfigError(cat("--baselines compares pixels, but training images are ",
                          to_string(training.shape()), " and evaluated images ",
                          to_string(evaluated.shape())));
  }
  const double bytes =
      4.0 * static_cast<double>(training.size()) * static_cast<double>(training.shape().numel());
  if (bytes <= kMaxBytes) return;
  throw ConfigError(cat("--baselines compares the pixels of all images, which take ",
                        bytes_text(bytes), " here, more than ", bytes_text(kMaxBytes),
                        "; leave it out, or give fewer images with --train-inputs"));
}

}  // namespace

FrozenRuns::FrozenRuns(const ExperimentConfig& config, const FrozenOptions& options,
                       const std::string& inputs, const StreamOptions& streaming,
                       const Registries& registries)
    : config_(config), options_(options), streaming_(streaming), registries_(registries) {
  if (config.model.max_length > 0) {
    throw ConfigError("--task knn and linear are for models of images, not of sequences");
  }
  if (options.is_knn() && inputs.empty() && !has_validation_images(config.data)) {
    log_info("val: none, so the training images are compared with each other");
  } else {
    evaluated_ = open_evaluated(inputs);
    log_info(cat("val: ", evaluated_->description()));
  }
  if (options.baselines) check_pixels(training(), evaluated_ ? *evaluated_ : training());
}

std::unique_ptr<ImageStream> FrozenRuns::open_evaluated(const std::string& inputs) {
  if (!inputs.empty()) return open_image_file(inputs, config_.model, streaming_);
  return stream_of(validation_images(), config_, ImagePreparation::kEvaluation, streaming_,
                   registries_);
}

// Opens the validation split with the labels of the training images. It keeps its own if those are
// in a file, whose labels have no names.
std::shared_ptr<const Dataset> FrozenRuns::validation_images() {
  if (!options_.linear.empty()) return validation_images_of(read_linear(options_.linear));
  if (!options_.train_inputs.empty()) return open_validation_images(config_, registries_);
  return open_validation_images(config_, *training_images(), registries_);
}

// Opens the validation split with the labels of a given classifier. One without names is taken to
// have the classes of the training images if there are as many.
std::shared_ptr<const Dataset> FrozenRuns::validation_images_of(
    const LinearClassifier& classifier) {
  const std::int64_t rows = classifier.weight.dim(0);
  if (classifier.names.empty() && has_training_images(config_.data) &&
      training_images()->has_labels() && training_images()->num_classes() == rows) {
    return open_validation_images(config_, *training_images(), registries_);
  }
  std::shared_ptr<const Dataset> images = open_validation_images(config_, registries_);
  if (!images->has_labels()) return images;
  return with_labels_of({options_.linear, classifier.names, rows}, std::move(images));
}

const std::shared_ptr<const Dataset>& FrozenRuns::training_images() {
  if (!training_images_) training_images_ = open_training_images(config_, registries_);
  return training_images_;
}

std::unique_ptr<ImageStream> FrozenRuns::open_training(ImagePreparation preparation) {
  std::unique_ptr<ImageStream> training =
      options_.train_inputs.empty()
          ? stream_of(training_images(), config_, preparation, streaming_, registries_)
          : open_image_file(options_.train_inputs, config_.model, streaming_);
  log_info(cat("train: ", training->description()));
  return training;
}

ImageStream& FrozenRuns::training() {
  if (!training_) training_ = open_training(ImagePreparation::kEvaluation);
  return *training_;
}

FrozenResult FrozenRuns::evaluated_images(FrozenFeatures& features) {
  const auto start = Clock::now();
  FeatureSet set =
      collect(*evaluated_, "evaluated images", features.width(), features_of(features));
  return result_of(*evaluated_, std::move(set), seconds_since(start));
}

// Finds the neighbours of `queries`. `rows`: their positions among all evaluated images.
Neighbors FrozenRuns::find(const NearestNeighbors& neighbors, const Tensor& queries,
                           std::span<const std::int64_t> rows) const {
  return evaluated_ ? neighbors.find(queries) : neighbors.find_others(queries, rows);
}

Neighbors FrozenRuns::find_all(const NearestNeighbors& neighbors, const Tensor& queries) const {
  return find(neighbors, queries, all_rows(queries.dim(0)));
}

FrozenResult FrozenRuns::nearest_neighbors(FrozenFeatures& features) {
  const Tensor labels = training_labels(training());
  const auto start = Clock::now();
  const FeatureSet bank =
      collect(training(), "training images", features.width(), features_of(features));
  const double seconds = seconds_since(start);
  const NearestNeighbors neighbors(bank.features, bank.labels,
                                   {.k = options_.k, .temperature = options_.temperature});
  FrozenResult result =
      evaluated_ ? evaluated_images(features) : result_of(training(), bank, seconds);
  if (evaluated_) result.damaged += training().damaged();
  if (!options_.save_neighbors.empty()) {
    result.neighbors = draw_examples(neighbors, bank, result.evaluated, training());
  }
  result.unlabelled = images_without_labels(labels, result.labels);
  if (!result.unlabelled.empty()) return result;
  warn_of_missing_classes(labels, result.labels);
  count_votes(neighbors, result);
  return result;
}

// Classifies the evaluated images by the votes of their neighbours.
void FrozenRuns::count_votes(const NearestNeighbors& neighbors, FrozenResult& result) const {
  const auto start = Clock::now();
  const Neighbors found = find_all(neighbors, result.evaluated.features);
  result.seconds += seconds_since(start);
  result.k = found.indices.dim(1);
  result.metrics = accuracy_of(hits_of(found, result.evaluated.labels));
  if (result.k == options_.k) return;
  log_warn(cat("--k ", options_.k, ": there are only ",
               counted(result.k, evaluated_ ? "training images" : "other training images"),
               ", and all of them vote"));
}

NeighborSheet FrozenRuns::draw_examples(const NearestNeighbors& neighbors, const FeatureSet& bank,
                                        const FeatureSet& evaluated,
                                        const ImageStream& training) const {
  const std::vector<std::int64_t> rows = example_rows(origins_of(evaluated));
  const FeatureSet queries = rows_of(evaluated, rows);
  const auto examples =
      neighbor_examples(find(neighbors, queries.features, rows), all_rows(std::ssize(rows)),
                        origins_of(queries), origins_of(bank));
  const ImageStream& shown = evaluated_ ? *evaluated_ : training;
  return draw_neighbors(examples, shown_images(shown), shown_images(training),
                        normalization(shown));
}

// Returns the normalization of the images; empty if it is unknown.
Normalization FrozenRuns::normalization(const ImageStream& images) const {
  const int channels = config_.model.channels;
  if (!images.is_normalized() || (channels != 1 && channels != 3)) return {};
  return resolve_normalization(config_.data, channels, registries_.datasets);
}

FrozenResult FrozenRuns::linear_classifier(FrozenFeatures& features) {
  const auto training = open_training(options_.augment ? ImagePreparation::kRandomCrops
                                                       : ImagePreparation::kEvaluation);
  const Tensor labels = labels_to_learn(*training);
  const std::int64_t classes = std::ranges::max(labels.values<std::int64_t>()) + 1;
  const Tensor asked = evaluated_->labels();
  if (asked.defined()) {
    check_labels(asked.values<std::int64_t>(), classes, evaluated_->description());
    warn_of_missing_classes(labels, asked);
  }
  LinearProbe probe(features.width(), classes,
                    {.epochs = options_.epochs,
                     .lr = options_.lr,
                     .batch = options_.batch,
                     .seed = config_.seed});
  train(probe, *training, features);
  FrozenResult result = evaluated_images(features);
  check_finite(result.evaluated.features, "evaluated");
  result.damaged += training->damaged();
  const auto trained = [&](const char* name) {
    return probe.parameters().find(name)->variable.value();
  };
  result.linear = {trained("linear.weight"), trained("linear.bias"), training->class_names()};
  add_metrics(probe, result);
  return result;
}

FrozenResult FrozenRuns::given_classifier(FrozenFeatures& features) {
  const std::string& file = options_.linear;
  const LinearClassifier given = read_linear(file);
  check_width(file, given.weight, features);
  const std::int64_t classes = given.weight.dim(0);
  const Tensor asked = evaluated_->labels();
  if (asked.defined()) {
    check_labels(asked.values<std::int64_t>(), classes,
                 cat(file, " and ", evaluated_->description()));
  }
  LinearProbe probe(features.width(), classes, {});
  load_exact(probe.parameters(), given.named(), file);
  FrozenResult result = evaluated_images(features);
  check_finite(result.evaluated.features, "evaluated");
  add_metrics(probe, result);
  return result;
}

void FrozenRuns::train(LinearProbe& probe, ImageStream& training, FrozenFeatures& features) const {
  FeatureSet fixed;
  if (training.is_fixed()) {
    fixed = collect(training, "training images", features.width(), features_of(features));
    check_finite(fixed.features, "training");
  }
  const bool in_order = !options_.train_inputs.empty() || !config_.data.shuffle;
  ProgressBar bar("linear classifier", training.size() * options_.epochs);
  std::int64_t done = 0;
  const auto advance = [&](std::int64_t images, int epoch) {
    bar.update(done += images, cat("epoch ", epoch + 1, " of ", options_.epochs));
  };
  for (int epoch = 0; epoch < options_.epochs; ++epoch) {
    probe.begin_epoch(epoch);
    if (!training.is_fixed()) {
      training.for_each(epoch, [&](const ImageBatch& batch) {
        const Tensor rows = features.of(batch.fields);
        check_finite(rows, "training");
        probe.add(rows, batch.labels);
        advance(batch.labels.numel(), epoch);
      });
    } else {
      in_order ? probe.add(fixed.features, fixed.labels)
               : add_shuffled(probe, fixed, config_.seed, epoch);
      advance(fixed.features.dim(0), epoch);
    }
    probe.end_epoch();
    if (are_comparable(probe.parameters().find("linear.weight")->variable.value())) continue;
    throw DivergedError(cat("the linear classifier diverged in epoch ", epoch + 1,
                            ": its weights are not finite; lower --lr ", options_.lr));
  }
}

Metrics FrozenRuns::neighbor_metrics(ImageStream& training, std::int64_t width,
                                     const FeatureFunction& function) {
  const FeatureSet bank = collect(training, "training images", width, function);
  const FeatureSet evaluated =
      evaluated_ ? collect(*evaluated_, "evaluated images", width, function) : bank;
  const NearestNeighbors neighbors(bank.features, bank.labels,
                                   {.k = options_.k, .temperature = options_.temperature});
  return accuracy_of(hits_of(find_all(neighbors, evaluated.features), evaluated.labels));
}

void FrozenRuns::add_baselines(FrozenResult& result, const TensorFile& weights) {
  if (!result.metrics) return;
  if (config_.model.init_weights) {
    log_info(cat("untrained: random weights, although the training began with those of ",
                 *config_.model.init_weights));
  }
  FrozenFeatures untrained(config_, streaming_.device, registries_);
  untrained.restart_like(weights);
  result.baselines.emplace_back(
      "untrained", neighbor_metrics(training(), untrained.width(), features_of(untrained)));
  const ImageStream& evaluated = evaluated_ ? *evaluated_ : training();
  const Normalization normalization =
      evaluated.is_normalized()
          ? resolve_normalization(config_.data, config_.model.channels, registries_.datasets)
          : Normalization{{0}, {1}};
  result.baselines.emplace_back(
      "pixels", neighbor_metrics(training(), training().shape().numel(), pixels_of(normalization)));
}

}  // namespace dtn::app
