// Features of a trained model whose weights do not change any more: the input of k-NN and of a
// linear classifier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/feature_evaluation.h"
#include "dtn/models/classifier.h"
#include "dtn/tasks/registries.h"

namespace dtn {

// Selects the features of an image.
struct FeatureChoice {
  // 0: the pooled vector, the input of a head. Otherwise the class tokens of the last blocks, each
  // after the last norm, the earliest block first. A block that no class token has joined gives the
  // mean of its patches instead.
  int blocks = 0;
  // With blocks = 1: also the mean of the patches, channel by channel: c0 m0 c1 m1 ...
  bool patch_mean = false;
};

// Returns the features that an evaluation reads.
FeatureChoice choice_of(const FeatureEvaluation& evaluation);

// A backbone without a head. Computes in float32.
class FrozenFeatures {
 public:
  // Makes the model of the config with its initial weights, whatever its task. Throws ConfigError
  // if the model does not have the chosen features. On kMeta it does only this check.
  FrozenFeatures(const ExperimentConfig& config, Device device, const Registries& registries,
                 const FeatureChoice& choice = {});

  // Gives the model the weights that the training of this file's model began with, unless that
  // loaded others. Random weights depend on names, which begin with `backbone.` in some tasks.
  void restart_like(const TensorFile& file);

  // Loads the backbone's weights from a file of a classifier, of a backbone alone, or of a model
  // whose names begin with `backbone.`; heads are left out. Returns notes for the user.
  std::vector<std::string> load(const TensorFile& file, const std::string& source);

  // Features per image.
  std::int64_t width() const;
  // Features [n, width] float32 on the host, of the input fields on the model's device.
  Tensor of(const Fields& batch);
  // The features, in words for the user.
  std::string description() const;

  Classifier& model() { return model_; }

 private:
  // Outputs of the chosen blocks. Throws ConfigError if the model does not have them.
  std::vector<BlockOutput> blocks_of(Context& ctx, const Fields& batch);

  const Registries& registries_;
  std::uint64_t seed_;
  FeatureChoice choice_;
  Classifier model_;
  int without_token_ = 0;  // of the blocks, see FeatureChoice
};

}  // namespace dtn
