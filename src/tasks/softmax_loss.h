// The softmax losses of classification, with class weights and the focal factor.
//
// With class weights and plain labels, the loss of a step is PyTorch's weighted mean over the whole
// batch, that is over all micro-batches of all ranks:
//     sum_i l_i / sum_i w_(label i)
// A micro-batch of b of the batch's B samples contributes B / sum w times the mean of its l_i. The
// labels of the batch are added up before the first micro-batch. With mixed images the targets are
// soft, and the loss is the mean of l_i over the samples, as PyTorch has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dtn/autograd/context.h"
#include "dtn/config/train_config.h"
#include "dtn/core/fields.h"
#include "dtn/data/sample_source.h"
#include "dtn/ops/loss.h"

namespace dtn {

class SoftmaxLoss {
 public:
  SoftmaxLoss(const ExperimentConfig& config, Device device);

  // Takes the numbers of samples of the classes. Call before the first loss with balanced weights.
  // Throws ConfigError for a list of the wrong length, and DataError for a class without samples,
  // for which `balanced` has no weight.
  void learn_classes(const SampleSource& training);

  // True if the loss of a sample depends on the labels of the whole batch.
  bool needs_whole_batch() const {
    return class_weights_.any() && kind_ != LossKind::kBinary && !mixes_;
  }
  // Takes the labels of a micro-batch before the first loss of a step of several; see Task.
  void preview(const Context& ctx, const Tensor& labels, std::size_t part, std::size_t parts);
  // Returns the loss [1] of a micro-batch, with logits [n, K] float32.
  Variable loss(Context& ctx, const Variable& logits, const ops::Targets& targets);

  // The loss before training, and the class weights, in words.
  std::string description() const;

 private:
  // The labels of a batch: its samples, and the sum of their class weights [1].
  struct Labels {
    std::int64_t samples = 0;
    Tensor sum{};
  };
  void set_weights(const std::vector<double>& weights);
  std::vector<double> balanced_weights(const SampleSource& training) const;
  void check_learnt() const;
  Labels labels_of_all_ranks(const Context& ctx, Labels own) const;
  Tensor samples_per_weight(const Labels& labels) const;

  ClassWeights class_weights_;
  LossKind kind_;
  double gamma_;
  std::int64_t classes_;
  bool mixes_;
  Device device_;
  Tensor weights_;  // [K] float32
  double lightest_ = 1, heaviest_ = 1;
  Labels whole_;                // of the micro-batches that preview() has seen
  std::size_t parts_left_ = 0;  // losses that use whole_
};

}  // namespace dtn
