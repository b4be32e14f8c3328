// The evaluations of frozen features: their images, and their results.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/eval/frozen_evaluation.h"
#include "dtn/core/metrics.h"
#include "dtn/io/safetensors.h"
#include "tasks/frozen/frozen_features.h"
#include "tasks/frozen/image_splits.h"
#include "tasks/frozen/image_stream.h"
#include "tasks/frozen/linear_file.h"
#include "tasks/frozen/linear_probe.h"
#include "tasks/frozen/nearest_neighbors.h"
#include "tasks/frozen/neighbor_sheet.h"

namespace dtn::app {

// Result of an evaluation; metrics exist only if the images have the labels that they need.
struct FrozenResult {
  std::optional<Metrics> metrics{};
  std::string unlabelled{};   // images whose missing labels leave no metrics: "evaluated images"
  FeatureSet evaluated{};     // features of the evaluated images
  Tensor labels{};            // of all images, the damaged ones included; undefined: unknown
  std::int64_t images = 0;    // number of all images
  std::int64_t damaged = 0;   // images left out, of both splits
  double seconds = 0;         // for the evaluated images
  std::int64_t k = 0;         // voting neighbours; 0: nothing votes
  LinearClassifier linear{};  // that was trained
  NeighborSheet neighbors{};  // empty without --save-neighbors
  std::string description{};  // of the features
  std::vector<std::pair<std::string, Metrics>> baselines{};  // "untrained", "pixels"

  std::int64_t count() const { return static_cast<std::int64_t>(evaluated.indices.size()); }
  double images_per_second() const {
    return seconds > 0 ? static_cast<double>(count()) / seconds : 0;
  }
};

class FrozenRuns {
 public:
  // Opens the images to evaluate: those of the file `inputs`, or if it is empty those of the
  // validation split. Without either, k-NN compares the training images with each other. Throws
  // ConfigError if add_baselines() could not compare the images.
  FrozenRuns(const ExperimentConfig& config, const FrozenOptions& options,
             const std::string& inputs, const StreamOptions& streaming,
             const Registries& registries);

  FrozenResult nearest_neighbors(FrozenFeatures& features);
  FrozenResult linear_classifier(FrozenFeatures& features);
  // Evaluates the classifier of the file --linear, without training images.
  FrozenResult given_classifier(FrozenFeatures& features);
  // Adds the k-NN accuracy of the model with its initial weights, and of the pixels. `weights`:
  // those of the evaluated model.
  void add_baselines(FrozenResult& result, const TensorFile& weights);

 private:
  std::unique_ptr<ImageStream> open_evaluated(const std::string& inputs);
  const std::shared_ptr<const Dataset>& training_images();
  std::shared_ptr<const Dataset> validation_images();
  std::shared_ptr<const Dataset> validation_images_of(const LinearClassifier& classifier);
  std::unique_ptr<ImageStream> open_training(ImagePreparation preparation);
  // The training images as evaluation sees them.
  ImageStream& training();
  Neighbors find(const NearestNeighbors& neighbors, const Tensor& queries,
                 std::span<const std::int64_t> rows) const;
  Neighbors find_all(const NearestNeighbors& neighbors, const Tensor& queries) const;
  void count_votes(const NearestNeighbors& neighbors, FrozenResult& result) const;
  NeighborSheet draw_examples(const NearestNeighbors& neighbors, const FeatureSet& bank,
                              const FeatureSet& evaluated, const ImageStream& training) const;
  Normalization normalization(const ImageStream& images) const;
  FrozenResult evaluated_images(FrozenFeatures& features);
  void train(LinearProbe& probe, ImageStream& training, FrozenFeatures& features) const;
  Metrics neighbor_metrics(ImageStream& training, std::int64_t width,
                           const FeatureFunction& function);

  const ExperimentConfig& config_;
  const FrozenOptions& options_;
  StreamOptions streaming_;
  const Registries& registries_;
  std::shared_ptr<const Dataset> training_images_;  // null: not open yet
  std::unique_ptr<ImageStream> training_;           // null: not open yet
  std::unique_ptr<ImageStream> evaluated_;          // null: the training images
};

}  // namespace dtn::app
